"""Files on this host or in the agent's container: locate, read, replace, list and search them for the file tools.

A path means the same to the file tools as to the agent's commands. A file of the plan's folder that is mounted into the
container is a file of this host, with its rights, links and locks. The name of any other file contains its container.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from planloop.containers.engine.engine import EngineFailed, ExecCommand, ExecEnd
from planloop.controllers.agent import run_environment
from planloop.controllers.agent.tools.errors import ToolDenied, ToolFailed
from planloop.controllers.agent.tools.shell import command_timeout_s
from planloop.controllers.agent.tools.tool import ToolContext
from planloop.controllers.agent.tools.workspace import (
    LINE_SHOWN_CHARS,
    START_BYTES,
    AccessMode,
    FoundFile,
    OpenPath,
    outside_rights,
    read_file,
    replace_open_file,
    too_large_error,
)
from planloop.controllers.agent.turn import call_locks
from planloop.controllers.shared.container_exec import ContainerFiles
from planloop.reconciler.effects.processes import ExitCause
from planloop.reconciler.effects.truncate import last_line
from planloop.schemas import limits, patterns
from planloop.schemas.canonical_json import printable_name, sha256_hex
from planloop.schemas.file_text import decode_file_text
from planloop.schemas.frozen import frozen


@frozen
class ContainerPath:
    """A path in a container that is not a file of the plan's folder. `path` is absolute; links are not followed."""

    container: ContainerFiles
    path: str

    @property
    def name(self) -> str:
        """The name in rights and in the list of files that an agent has read."""
        return f"container/{self.container.name}:{self.path}"

    @property
    def lock(self) -> str:
        """The name in locks. A file in a shared volume has the same name in all containers."""
        return self.container.shared(self.path) or self.name


def locate_path(context: ToolContext, path: str, mode: AccessMode = "read") -> str | ContainerPath:
    """Resolve `path` as the agent's commands do: to a path in its workspace, or to one in its container.

    Raises ToolDenied and ToolFailed.
    """
    container = run_environment.agent_container(context.services, context.seen)
    if container is None or "\0" in path or not path.strip():
        return path
    at = container.at(path)
    here = container.here(at)
    space = context.workspace
    if here is None or not _is_own(context, here.path):
        return ContainerPath(container, at)
    if mode == "write" and here.is_read_only:
        raise ToolDenied(f"`{at}` is mounted read-only in the container `{container.name}`")
    if mode == "write" and here.is_alone:
        raise ToolDenied(f"`{at}` is a single-file mount in the container `{container.name}`, which cannot be replaced")
    found = str(space.folder / space.leads_to(here.path))
    again = container.here(container.inside(found))
    if again is None or again.path != found:
        raise ToolFailed(
            "BadPath", f"`{path}` resolves to `{found}`, but the container `{container.name}` has another file there"
        )
    return here.path


def mount_targets(context: ToolContext, container: ContainerFiles) -> tuple[str, ...]:
    """Return the paths in the container where folders and files of the plan are mounted."""
    return tuple(each.target for each in container.mounts if each.host and _is_own(context, each.host))


def _is_own(context: ToolContext, path: str) -> bool:
    """Whether the absolute host `path` is in the plan's folder or in the agent's fork."""
    own = (str(context.workspace.folder), os.path.realpath(context.services.folder))
    return any(path == each or path.startswith(f"{each}/") for each in own)


def path_to_lock(context: ToolContext, path: str, mode: AccessMode = "write") -> str:
    """Return the name of `path` in locks. Raises ToolDenied and ToolFailed."""
    found = locate_path(context, path, mode)
    space = context.workspace
    return found.lock if isinstance(found, ContainerPath) else space.locked(space.leads_to(found))


def require_right(context: ToolContext, within: ContainerPath, mode: AccessMode, tool: str) -> None:
    """Check the agent's rights for a path in its container. Raises ToolDenied.

    Rights name such a path `container/sut:/etc/hosts`. Denials of the plain path count as well.
    """
    space = context.workspace
    globs = space.read if mode == "read" else space.write
    if not patterns.path_matches(globs, within.name):
        raise outside_rights(within.name, mode, globs)
    if denial := patterns.find_denial(space.deny, tool, _names(within)):
        raise ToolDenied(f"`{within.name}` is denied by `{denial}`")
    if not space.allows(tool, within.name):
        raise ToolDenied(f"`{within.name}`: rights allow `{tool}` on other paths only")


def may_show(context: ToolContext, within: ContainerPath, path: str, tool: str) -> bool:
    """Whether `tool` may list the file at `path` in the container. A mounted file of the plan has its name there."""
    space, here = context.workspace, within.container.here(path)
    if here is not None and here.path.startswith(f"{space.folder}/"):
        return space.shows(tool, here.path.removeprefix(f"{space.folder}/"))
    one = ContainerPath(within.container, path)
    return space.shows(tool, one.name) and not patterns.find_denial(space.deny, tool, _names(one))


def _names(within: ContainerPath) -> tuple[str, ...]:
    """All names that a denial may use for the path."""
    return (within.name, within.path, within.path.lstrip("/"))


# Files that exist only in a container are read, replaced, listed and searched by small scripts that run there like
# the agent's commands, with the same user and mounts. A path through a link is refused, with its target, because
# locks and rights name targets. A file is replaced atomically, if it still has the content that was read.

OWN_PREFIX: Final = "PLANLOOP_OURS"
"""Environment variable of the scripts: the mount points of the plan's folders, one per line."""

_HEAD: Final = r"""
exec 2>/dev/null
LC_ALL=C
newline='
'
p=$1 folder=${1%/*} at= system=
leads() { printf '%s' "$1"; exit 75; }
look() {
  real=$(cd -P -- "$1" && pwd -P) || exit 78
  [ "$real" = "$1" ] || { [ "$real" = / ] && real=; leads "$real${p#"$1"}"; }
  ours=$(
    IFS="$newline"
    set -f
    for target in $PLANLOOP_OURS; do
      at=$(cd -P -- "$target" && pwd -P) || continue
      case $real/ in ("$at"/*) [ "$at" = "$target" ] || { printf '%s' "$target${p#"$at"}"; break; };; esac
    done
  )
  [ -z "$ours" ] || leads "$ours"
}
"""
_READ: Final = (
    _HEAD
    + r"""
[ -d "${folder:-/}" ] || exit 71
look "${folder:-/}"
[ -L "$p" ] && leads "$(readlink -f "$p" || readlink "$p")"
[ -e "$p" ] || exit 72
[ -f "$p" ] || exit 73
[ -r "$p" ] || exit 78
size=$(stat -c %s "$p") || exit 79
[ "$size" -le "$2" ] || { printf '%s\n' $size; head -c "${3:-0}" "$p"; exit 74; }
sum=$(sha256sum <"$p") || exit 79
printf '%s\n' "${sum%% *}"
cat "$p"
"""
)
_WRITE: Final = (
    _HEAD
    + r"""
at=${folder:-/}
while [ ! -d "$at" ]; do
  { [ -e "$at" ] || [ -L "$at" ]; } && exit 71
  at=${at%/*} at=${at:-/}
done
look "$at"
[ -L "$p" ] && leads "$(readlink -f "$p" || readlink "$p")"
mkdir -p "${folder:-/}" || exit 77
cd -P "${folder:-/}" || exit 77
name=./${p##*/} new=./$4
trap 'rm -f "$new"' EXIT
now=-
if [ -e "$name" ]; then
  [ -f "$name" ] || exit 73
  [ -w "$name" ] || exit 77
  cp -p "$name" "$new" || exit 77
fi
cat >"$new" || exit 77
sum=$(sha256sum <"$new") || exit 79
[ "${sum%% *}" = "$3" ] || exit 76
if [ -e "$name" ]; then
  sum=$(sha256sum <"$name") || exit 79
  now=${sum%% *}
fi
[ "$now" = "$2" ] || exit 70
mv -f "$new" "$name" || exit 77
"""
)
_FIND: Final = (
    _HEAD
    + r"""
[ -e "$p" ] || exit 71
[ -d "$p" ] || exit 73
look "$p"
cd -P "$p" || exit 78
most=$2
shift 2
[ "$p" = / ] && system='-o -path ./proc -o -path ./sys -o -path ./dev'
find . \( -name .git -o -name .plan $system \) -prune -o -type f "$@" | head -n "$most"
exit 0
"""
)
_CHANGED: Final = 70
_TOO_LARGE: Final = 74
_ERRORS: Final = {
    71: ("NotFound", "there is no folder `{folder}` in `{name}`"),
    72: ("NotFound", "there is no file `{at}` in `{name}`"),
    73: ("NotAFile", "`{at}` in `{name}` has the wrong type (file or folder)"),
    75: ("BadPath", "`{at}` in `{name}` is a link to `{said}`: use that path"),
    76: ("NotWritable", "`{at}` was not completely transferred to `{name}` and is unchanged: try again"),
    77: ("NotWritable", "`{at}` in `{name}`: the container's user may not write it, or the place is read-only"),
    78: ("NotReadable", "`{at}` in `{name}`: the container's user may not read it"),
}
"""Reason and text of the error for each exit code of the scripts."""

_SIZED: Final = re.compile(r"(\d+) \./(.+)")
_HIT: Final = re.compile(r"\./(.+?):(\d+):(.*)")
_TIME_S: Final = 60.0


@frozen
class ContainerContent:
    """The bytes of a file, with the container's secrets masked, and the digest of the unmasked content."""

    content: bytes
    digest: str


async def read_in_container(context: ToolContext, within: ContainerPath) -> ContainerContent:
    """Read the regular file at `within`. Raises ToolFailed: NotFound, NotAFile, TooLarge, NotReadable, BadPath, …"""
    most = limits.FILE_BYTES_MAX
    words = (_READ, within.path, str(most), str(START_BYTES))
    ended = await _run(context, within, words, bytes_max=most + 100)
    if ended.ending is ExitCause.TOO_MUCH_OUTPUT:
        raise ToolFailed("TooLarge", f"`{within.path}` has more than {most} bytes")
    digest, _, content = ended.output.partition(b"\n")
    return ContainerContent(content, digest.decode(errors="replace"))  # `sha256sum` may differ between containers.


async def replace_in_container(
    context: ToolContext, within: ContainerPath, content: bytes, expected: str | None
) -> bool:
    """Replace the file atomically, if its digest is still `expected` (None: if there is no file).

    Returns whether it did. Missing folders are created. The file keeps its permissions.
    """
    temporary = f".{within.path.rpartition('/')[2][:100]}.{context.spec.op}.tmp"
    words = (_WRITE, within.path, expected or "-", sha256_hex(content), temporary)
    return (await _run(context, within, words, stdin=content)).code == 0


async def files_in_container(context: ToolContext, within: ContainerPath, most: int) -> list[FoundFile]:
    """Return at most `most` files below the folder, sorted by name."""
    words = (_FIND, within.path, str(most), "-exec", "stat", "-c", "%s %n", "{}", "+")
    lines = (await _run(context, within, words)).output.decode(errors="surrogateescape").splitlines()
    found = [match for line in lines if (match := _SIZED.fullmatch(line))]
    return sorted(
        (FoundFile(printable_name(one[2]), _joined(within.path, printable_name(one[2])), int(one[1])) for one in found),
        key=lambda each: each.below.split("/"),
    )


async def hits_in_container(
    context: ToolContext, within: ContainerPath, glob: str, text: str, any_case: bool
) -> list[tuple[str, str]]:
    """Return path and `path:number: line` for each line with `text`. Binary and large files are skipped."""
    if "\n" in text:
        return []  # No line contains a line end.
    flags = "-HnFi" if any_case else "-HnF"
    small = ("-size", f"-{limits.FILE_BYTES_MAX + 1}c")
    words = (_FIND, within.path, str(limits.FILES_SEARCHED_MAX), *small, "-exec", "grep", flags, "-e", text, "{}", "+")
    ended = await _run(context, within, words, bytes_max=limits.OUTPUT_KEPT_BYTES_MAX)
    out = []
    for raw in ended.output.split(b"\n"):
        match = _HIT.fullmatch(_text(raw))
        if match and patterns.path_matches([glob], match[1]):
            out.append((_joined(within.path, match[1]), f"{match[1]}:{match[2]}: {match[3][:LINE_SHOWN_CHARS]}"))
    return out


def _text(line: bytes) -> str:
    """Decode a line of any encoding; empty if it is binary."""
    text = decode_file_text(line.removesuffix(b"\r"))
    return "" if text is None else text.shown


def _joined(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"


async def _run(
    context: ToolContext,
    within: ContainerPath,
    words: tuple[str, ...],
    *,
    stdin: bytes = b"",
    bytes_max: int | None = None,
) -> ExecEnd:
    """Run a script. Returns its end if it succeeded, found a changed file, or wrote too much. Raises ToolFailed."""
    name, containers = within.container.name, context.services.connections.containers
    if containers is None:
        raise ToolFailed("NoContainers", "this plan has no containers")
    bound_s = min(_TIME_S, command_timeout_s(context, None))
    found = await containers.settled(name, min(bound_s, limits.CONTAINER_WAIT_S))
    if found is None or not found.is_up:
        raise ToolFailed("NotUp", f"the plan has no container `{name}`" if found is None else found.words)
    argv = ("/bin/sh", "-c", words[0], "sh", *words[1:])
    # The script needs the mount points to find one name for a file that is mounted through a link of the image.
    env = {OWN_PREFIX: "\n".join(mount_targets(context, within.container))}
    inside = ExecCommand(argv, context.spec.op, env, stdin=stdin, timeout_s=bound_s, output_bytes_max=bytes_max)
    try:
        ended = await containers.run(found.id, inside)
    except EngineFailed as failed:
        raise ToolFailed(str(failed.reason), failed.words) from failed
    if ended.ending is ExitCause.TOO_MUCH_OUTPUT or (ended.ending is ExitCause.EXITED and ended.code in (0, _CHANGED)):
        return ended
    raise _error(within, ended)


def _error(within: ContainerPath, ended: ExecEnd) -> ToolFailed:
    at, name = within.path, within.container.name
    match ended.ending:
        case ExitCause.TIMED_OUT:
            return ToolFailed("TimedOut", f"access to `{at}` in `{name}` timed out")
        case ExitCause.LOST:
            return ToolFailed("NotUp", f"the container `{name}` stopped meanwhile")
        case ExitCause.EXITED if ended.code == _TOO_LARGE:
            size, _, start = ended.output.partition(b"\n")
            return too_large_error(at, int(size) if size.isdigit() else 0, start, limits.FILE_BYTES_MAX)
        case ExitCause.EXITED if ended.code in _ERRORS:
            reason, words = _ERRORS[ended.code]
            said = printable_name(ended.output.decode(errors="replace"))
            folder = at.rpartition("/")[0] or "/"
            return ToolFailed(reason, words.format(at=at, name=name, said=said, folder=folder))
        case _:
            why = f"file tools need /bin/sh, sha256sum, stat and grep in the image of `{name}`"
            return ToolFailed("NotReadable", f"{why}: {last_line(ended.output) or f'exit code {ended.code}'}")


class FileTarget(Protocol):
    """A file that a tool reads and replaces. For a host file no method yields, so it cannot change between them."""

    @property
    def path(self) -> str:
        """The name in the list of files that the agent has read."""
        ...

    @property
    def lock(self) -> str:
        """The name in locks."""
        ...

    async def read(self) -> ContainerContent:
        """Return the content. Raises ToolFailed: NotFound, NotAFile, TooLarge…"""
        ...

    async def look(self) -> ContainerContent | None:
        """Return the content, or None if it does not exist. Masked content has the digest of the unmasked content."""
        ...

    async def replace(self, content: bytes, expected: str | None) -> bool:
        """Replace the content if its digest is still `expected`. Returns whether it did. Raises ToolFailed, OSError."""
        ...


@frozen
class HostFile:
    """A file on this host."""

    context: ToolContext
    spot: OpenPath

    @property
    def path(self) -> str:
        return self.spot.path

    @property
    def lock(self) -> str:
        return self.context.workspace.locked(self.spot.path)

    async def read(self) -> ContainerContent:
        content = read_file(self.spot)
        return ContainerContent(content, sha256_hex(content))

    async def look(self) -> ContainerContent | None:
        try:
            return await self.read()
        except ToolFailed as failed:
            if failed.reason == "NotFound":
                return None
            raise

    async def replace(self, content: bytes, expected: str | None) -> bool:
        return replace_open_file(self.spot, content, expected, self.context.spec.op, self._may_write)

    def _may_write(self, path: str) -> bool:
        """Whether another name (hard link) of the file, relative to the plan's folder, may change too."""
        context = self.context
        lock = context.workspace.locked(path)
        is_free = not call_locks.lock_blockers(context.seen, context.services.store.view, {lock: "write"})
        return is_free and context.workspace.may_write(path, context.spec.tool)


@frozen
class ContainerFile:
    """A file that exists only in a container."""

    context: ToolContext
    within: ContainerPath

    @property
    def path(self) -> str:
        return self.within.name

    @property
    def lock(self) -> str:
        return self.within.lock

    async def read(self) -> ContainerContent:
        found = await read_in_container(self.context, self.within)
        if sha256_hex(found.content) != found.digest:
            why = "contains a secret of its container, or keeps changing"
            raise ToolFailed("NotReadable", f"`{self.path}` {why}: read and change it with a command")
        return found

    async def look(self) -> ContainerContent | None:
        try:
            return await read_in_container(self.context, self.within)
        except ToolFailed as failed:
            if failed.reason == "NotFound":
                return None
            raise

    async def replace(self, content: bytes, expected: str | None) -> bool:
        return await replace_in_container(self.context, self.within, content, expected)


@contextmanager
def open_target(
    context: ToolContext, path: str, mode: AccessMode, tool: str, *, makes_folders: bool = False
) -> Iterator[FileTarget]:
    """Open the file at `path` for `tool`, after a check of the rights. Raises ToolDenied and ToolFailed."""
    at = locate_path(context, path, mode)
    if isinstance(at, ContainerPath):
        require_right(context, at, mode, tool)
        yield ContainerFile(context, at)
        return
    with context.workspace.spot(at, mode, tool, makes_folders=makes_folders) as spot:
        yield HostFile(context, spot)
