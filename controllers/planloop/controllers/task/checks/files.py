"""Run the checks `require-file`, `contains` and `json`; read workspace files without following links out of it."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import anyio.to_thread

from planloop.controllers.task.checks import command as checks_command
from planloop.controllers.task.checks.pattern_child import FOUND, NOT_A_PATTERN, NOT_FOUND
from planloop.controllers.task.checks.run import CheckEnvironment, CheckFinding
from planloop.reconciler.effects.processes import ProcessCommand
from planloop.schemas import limits, quantities
from planloop.schemas.canonical_json import Json, decode_foreign
from planloop.schemas.file_text import decode_file_text
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.task import CheckSpec
from planloop.schemas.predicates import StructureTexts, excerpt, is_same, not_like, structure_mismatch

# A file that a check names must be below the task's workspace after links, whatever other processes do meanwhile.
#
# Checks run with the owner's rights, and the agent controls the workspace: through a link, a check could reveal any
# file of this machine. So links may only point inside. A path that a person wrote with `..` (`../data/x`) must stay
# below the common folder of the path and the workspace.

# O_PATH, where the system has it: folders on the path need search permission only, not read permission.
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", 0)


class LinkLeadsOut(Exception):
    """`link`, a prefix of the path in a check, is a symbolic link that points outside the workspace."""

    def __init__(self, link: str) -> None:
        super().__init__(f"the link {link} points outside the workspace")


@frozen
class FileSpot:
    """A name in an open folder that was not a symbolic link when it was looked up."""

    folder: int
    name: str


@contextmanager
def open_parent_folder(workspace: str, name: str, *, no_links_from: str | None) -> Iterator[FileSpot]:
    """Open the folder that holds the file `name`.

    `no_links_from`: below that folder, the path to the workspace has no links; a link created since is not followed.

    Raises:
        LinkLeadsOut: the path leads out of the workspace.
        OSError: a folder on the path is missing or cannot be opened.
    """
    top = os.path.realpath(workspace)
    if no_links_from is not None and top != workspace:
        raise LinkLeadsOut(workspace)
    bound = Path(os.path.commonpath((top, os.path.normpath(os.path.join(top, name)))))  # noqa: PTH118 - as text
    real = Path(os.path.realpath(f"{top}/{name}" if not name.startswith("/") else name))
    if not real.is_relative_to(bound):
        raise LinkLeadsOut(_link_in(top, name, bound))
    with ExitStack() as held:
        # Open one folder after the other without following links: a folder may have been replaced by a link since.
        names = real.relative_to(bound).parts or (".",)
        # Start at the plan's folder: agents cannot write outside it, and the folders above may not be readable.
        first = bound if no_links_from is None or not bound.is_relative_to(no_links_from) else Path(no_links_from)
        at = _entered(held, str(first), None)
        for folder in (*bound.relative_to(first).parts, *names[:-1]):
            at = _entered(held, folder, at)
        yield FileSpot(at, names[-1])


def _entered(held: ExitStack, folder: str, at: int | None) -> int:
    number = os.open(folder, _FOLDER, dir_fd=at)
    held.callback(os.close, number)
    return number


def _link_in(top: str, name: str, bound: Path) -> str:
    """Return the part of `name` up to the first link that leads out of `bound`."""
    parts = Path(name).parts
    ways = (Path(*parts[:count]) for count in range(1, len(parts)))
    return next((str(way) for way in ways if _is_out(Path(top, way), bound)), name)


def _is_out(way: Path, bound: Path) -> bool:
    return way.is_symlink() and not Path(os.path.realpath(way)).is_relative_to(bound)


# O_NONBLOCK: opening a pipe without a writer would block this thread for ever, and threads cannot be cancelled.
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


async def read_workspace_file(environment: CheckEnvironment, name: str) -> bytes | CheckFinding:
    """Return the bytes of the file `name` of the workspace, or the finding of a check that cannot read it."""
    return await anyio.to_thread.run_sync(_read, environment, name)


def _read(environment: CheckEnvironment, name: str) -> bytes | CheckFinding:
    try:
        with (
            open_parent_folder(environment.cwd, name, no_links_from=environment.no_links_from) as spot,
            os.fdopen(os.open(spot.name, _FLAGS, dir_fd=spot.folder), "rb") as file,
        ):
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return CheckFinding("fail", f"{name} is not a regular file")
            content = file.read(limits.OUTPUT_KEPT_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        return CheckFinding("fail", f"{name} does not exist")
    except LinkLeadsOut as error:
        return CheckFinding("fail", f"{name} was not read: {error}")
    except OSError as error:
        is_loop = error.errno == errno.ELOOP
        return CheckFinding("fail" if is_loop else "error", f"{name} cannot be read: {error.strerror}")
    if len(content) > limits.OUTPUT_KEPT_BYTES_MAX:
        return CheckFinding("fail", f"{name} is larger than {limits.OUTPUT_KEPT_BYTES_MAX >> 20} MiB")
    return content


async def check_require_file(spec: CheckSpec, environment: CheckEnvironment) -> CheckFinding:
    """Check `require-file`: passes if the file exists and, unless `empty` is set, is not empty."""
    name = spec.arguments["path"]
    try:
        with open_parent_folder(environment.cwd, name, no_links_from=environment.no_links_from) as spot:
            found = os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return CheckFinding("fail", f"{name} does not exist")
    except LinkLeadsOut as error:
        return CheckFinding("fail", f"{name} was not read: {error}")
    except OSError as error:
        is_loop = error.errno == errno.ELOOP  # Also a file that was just replaced by a link: not a file either way.
        return CheckFinding("fail" if is_loop else "error", f"{name} cannot be read: {error.strerror}")
    if not stat.S_ISREG(found.st_mode):
        return CheckFinding("fail", f"{name} is not a regular file")
    if not found.st_size and not spec.arguments.get("empty"):
        return CheckFinding("fail", f"{name} is empty")
    return CheckFinding("pass", f"{name} exists, {found.st_size} bytes")


# Patterns are searched in a separate process: some take years on some texts, cannot be interrupted from within, and
# would block the owner.

PATTERN_PROGRAM: Final = Path(__file__).with_name("pattern_child.py")


async def check_contains(spec: CheckSpec, environment: CheckEnvironment) -> CheckFinding:
    """Check `contains`: passes if the file contains the text or matches the pattern; `^` and `$` match at lines."""
    name, text, pattern = spec.arguments["path"], spec.arguments.get("text"), spec.arguments.get("pattern")
    content = await read_workspace_file(environment, name)
    if isinstance(content, CheckFinding):
        return content
    if (stored := decode_file_text(content)) is not None and stored.how:
        content = stored.shown.encode()  # The text to find comes from a plan, so it is Unicode.
    if text is not None:
        yes, no = f"{name} contains `{text}`", f"{name} does not contain `{text}`"
        return CheckFinding("pass", yes) if text in content.decode(errors="replace") else CheckFinding("fail", no)
    return await _matched(name, pattern or "", content, environment, spec.timeout_s)


async def _matched(
    name: str, pattern: str, content: bytes, environment: CheckEnvironment, timeout_s: float
) -> CheckFinding:
    line = pattern.encode().hex().encode() + b"\n"  # In hex, any pattern fits on one line.
    argv = (sys.executable, "-I", "-S", str(PATTERN_PROGRAM))
    op = environment.ids.mint()
    command = ProcessCommand(cwd=environment.cwd, argv=argv, stdin=line + content, timeout_s=timeout_s)
    exit_ = await environment.processes.run(op, command)
    environment.processes.forget([op])
    failure = checks_command.explain_no_exit(exit_, timeout_s)
    if failure is not None:
        return failure
    match exit_.code:
        case code if code == FOUND:
            return CheckFinding("pass", f"{name} matches `{pattern}`")
        case code if code == NOT_FOUND:
            return CheckFinding("fail", f"{name} does not match `{pattern}`")
        case code if code == NOT_A_PATTERN:
            words = exit_.output.decode(errors="replace").strip()
            return CheckFinding("error", f"`{pattern}` is not a regular expression: {words}")
        case _:
            return CheckFinding("error", f"the search for `{pattern}` failed", exit_.output, is_own=True)


async def check_json(spec: CheckSpec, environment: CheckEnvironment) -> CheckFinding:
    """Check `json`: passes if a JSON file, or the JSON that a command prints, has the members of `subset`."""
    name = spec.arguments.get("path")
    if name:
        content = await read_workspace_file(environment, name)
        return content if isinstance(content, CheckFinding) else _compare_content(spec, content)
    exit_ = await checks_command.run_shell(spec.arguments, environment, spec.timeout_s)
    failure = checks_command.explain_no_exit(exit_, spec.timeout_s)
    return failure or judge_printed_json(spec, exit_.code, exit_.output)


def judge_printed_json(spec: CheckSpec, code: int | None, output: bytes) -> CheckFinding:
    """Judge the command of `spec`, which exited, by the JSON that it printed."""
    if code != 0:
        return CheckFinding("error", f"{_json_source(spec)}: {quantities.describe_exit_code(code)}", output)
    return _compare_content(spec, output)


def _compare_content(spec: CheckSpec, content: bytes) -> CheckFinding:
    try:
        value = decode_foreign(content)
    except ValueError as error:
        return CheckFinding("fail", f"{_json_source(spec)} is not JSON: {error}", content)
    return compare_json(value, spec.arguments.get("subset"), _json_source(spec), content)


def compare_json(value: Json, subset: Json, source: str, output: bytes = b"") -> CheckFinding:
    """Return the finding of a comparison: passes if `value` has all members of `subset`."""
    missing = _json_mismatch(subset, value, "")
    if missing:
        return CheckFinding("fail", f"{source}: {missing}", output)
    return CheckFinding("pass", f"{source} has the expected members", output)


_JSON_TEXTS: Final = StructureTexts(
    "/", "{at} is not a map", "{at} is not a list of {wanted}", "{at} is not a list of {wanted}"
)


def _json_mismatch(subset: Json, value: Json, at: str) -> str:
    """Return how `value` differs from `subset`. Maps may have more members, lists must have the same length."""
    if isinstance(subset, dict | list):
        return structure_mismatch(subset, value, at, _json_mismatch, _JSON_TEXTS)
    return "" if is_same(value, subset) else not_like(value, at or _JSON_TEXTS.root, excerpt(subset))


def _json_source(spec: CheckSpec) -> str:
    return str(spec.arguments.get("path") or checks_command.command_text(spec.arguments))
