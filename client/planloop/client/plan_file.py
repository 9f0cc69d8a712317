"""Read and compile a plan file, or report why it cannot be compiled."""

from __future__ import annotations

import errno
import sys
from dataclasses import replace
from pathlib import Path

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_sources import FolderSources, read_bounded
from planloop.client.process import write_styled
from planloop.client.render import diagnostics
from planloop.compiler import plan_compiler
from planloop.compiler.error_codes import STOPS_APPLY
from planloop.compiler.graph import CompiledPlan, Graph
from planloop.compiler.source import SizeLimits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.diagnostic import Diagnostic, Span
from planloop.schemas.frozen import frozen
from planloop.schemas.gc_control import gc_paused, gc_paused_then_frozen
from planloop.schemas.limits import PLAN_FILE_BYTES_MAX
from planloop.schemas.objects.model import EVERY_MODEL, parse_model_name, redirect_model

# `--model`: the plan document with one model for all LLM agents. Pure.
#
# It is one redirect in the document's `models` table, `{"*": {as: M}}`; agents are not edited. So agents that are added
# later are redirected too, and rights are still checked against the names in the plan. A bare `record/<file>` or
# `replay/<file>` wraps the model that each agent would have used.


def with_model(document: JsonObject, model: str) -> JsonObject:
    """`document` with every model redirected to `model`."""
    table: JsonObject = document.get("models", {})
    name = parse_model_name(model)
    if name.tape and not name.real:
        rows = {key: _wrapped_model(row, model) for key, row in table.items()}
    else:
        # Redirects of the plan itself give way: the one for all could not reach past them.
        rows = {key: {name: value for name, value in row.items() if name != "as"} for key, row in table.items()}
    every = {**rows.get(EVERY_MODEL, {})}
    every.setdefault("as", model)
    kept = {key: row for key, row in rows.items() if row and key != EVERY_MODEL}
    return {**document, "models": {**kept, EVERY_MODEL: every}}


def _wrapped_model(row: JsonObject, tape: str) -> JsonObject:
    return {**row, "as": redirect_model(row["as"], tape)} if "as" in row else row


# From a plan file on disk to a compiled plan, or to its errors.
#
# The compiler reads no file. This module reports files that are missing, unreadable, too large, or folders.

STDIN_NAME = Path("-")


@frozen
class PlanFile:
    """A plan file as read: its bytes, what they compile to, and the local files that took part.

    `model` is the one that takes the place of those that the file states, None where these hold.
    """

    path: Path
    content: bytes
    compiled: CompiledPlan
    read_files: frozenset[Path]
    model: str | None = None

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(one for one in self.compiled.diagnostics if one.severity == "error")

    @property
    def document(self) -> JsonObject:
        """The canonical document. Call `required` first."""
        assert self.compiled.document is not None, "there are errors"
        return self.compiled.document

    @property
    def graph(self) -> Graph:
        """The lowered graph. Call `required` first."""
        assert self.compiled.graph is not None, "there are errors"
        return self.compiled.graph

    @property
    def name(self) -> str:
        """The plan's name."""
        return self.graph.name


def read_plan(path: Path, *, size_max: int = PLAN_FILE_BYTES_MAX, model: str | None = None) -> PlanFile:
    """The file at `path`, compiled; the result has its errors. Raises CommandError if it cannot be read."""
    return compile_plan(path, read_content(path, size_max), size_max=size_max, model=model)


def compile_plan(
    path: Path, content: bytes, *, size_max: int = PLAN_FILE_BYTES_MAX, model: str | None = None
) -> PlanFile:
    """`content` as the text of the plan file `path`, compiled, every model redirected to `model`."""
    folder = Path.cwd() if path == STDIN_NAME else path.absolute().parent
    sources = FolderSources(folder)
    limits = replace(SizeLimits(), size_bytes=size_max)
    with gc_paused():
        result = plan_compiler.compile_source(content, file=diagnostic_file_name(path), sources=sources, limits=limits)
        if model is not None and result.graph is not None:
            result = _with_model(result, sources, model)
    return PlanFile(path, content, result, frozenset(sources.read_files), model)


def _with_model(result: CompiledPlan, sources: FolderSources, model: str) -> CompiledPlan:
    assert result.document is not None, "it has a graph"
    checked = plan_compiler.check_document(with_model(result.document, model), sources=sources)
    placed = tuple(replace(one, span=_span_of(result, one)) for one in checked.diagnostics)
    return replace(result, document=checked.document, graph=checked.graph, diagnostics=placed)


def _span_of(result: CompiledPlan, diagnostic: Diagnostic) -> Span | None:
    """Return the position in the text for a diagnostic of the changed document."""
    path = result.origin(diagnostic.pointer or ())
    place = result.tree.place(path) if path is not None else None
    return place.value if place is not None else None


def require_compiled(
    path: Path, *, size_max: int = PLAN_FILE_BYTES_MAX, is_run: bool = False, model: str | None = None
) -> PlanFile:
    """Like `read`, but print the diagnostics on stderr. Raises CommandError INVALID if one is an error.

    `is_run` says that the whole file is to be run, so that what this version does not run is an error.
    """
    with gc_paused_then_frozen():
        file = read_plan(path, size_max=size_max, model=model)
        file = require_runnable(file) if is_run else file
    print_diagnostics(file)
    if file.errors:
        raise CommandError(ExitCode.INVALID, "")
    return file


def require_runnable(file: PlanFile) -> PlanFile:
    """The same file with every part that this version cannot run as an error, not a warning."""
    found = tuple(
        replace(one, severity="error") if one.code in STOPS_APPLY else one for one in file.compiled.diagnostics
    )
    return replace(file, compiled=replace(file.compiled, diagnostics=found))


def print_diagnostics(file: PlanFile) -> None:
    """Prints the diagnostics of `file` on stderr, with a line that counts the errors."""
    if not file.compiled.diagnostics:
        return
    write_styled(fault_text(file, color=sys.stderr.isatty()), sys.stderr)


def fault_text(file: PlanFile, *, color: bool) -> str:
    """The diagnostics as people read them, then how many there are and what it means."""
    texts = {file.compiled.tree.file: file.compiled.tree.text}
    text = diagnostics.diagnostic_text(file.compiled.diagnostics, texts, color=color)
    errors = len(file.errors)
    if errors:
        code = file.errors[0].code
        count = "1 error" if errors == 1 else f"{errors} errors"
        text += f"{count}. Nothing was changed; running work continues.        (plan explain {code})\n"
    return text


def read_content(path: Path, size_max: int) -> bytes:
    """The bytes of the file, `-` being standard input. Raises CommandError with what to do."""
    if path == STDIN_NAME:
        return sys.stdin.buffer.read(size_max + 1)
    try:
        return read_bounded(path, size_max)
    except OSError as error:
        raise _unreadable(path, error) from error


def diagnostic_file_name(path: Path) -> str:
    """How diagnostics call the file: its name as it was given."""
    return "<stdin>" if path == STDIN_NAME else str(path)


def _unreadable(path: Path, error: OSError) -> CommandError:
    match error.errno:
        case errno.ENOENT:
            near = sorted(found.name for found in _folder_of(path).glob("*.plan.*"))
            hint = f"plan files here: {', '.join(near)}" if near else "plan init creates one"
            return CommandError(ExitCode.NOT_FOUND, f"no file {path}", hint)
        case errno.EISDIR:
            near = sorted(str(found) for found in path.glob("*.plan.*"))
            hint = f"did you mean {near[0]}?" if near else "give the plan file itself"
            return CommandError(ExitCode.USAGE, f"{path} is a folder, not a plan file", hint)
        case errno.EACCES:
            return CommandError(ExitCode.USAGE, f"no permission to read {path}", f"chmod u+r {path}")
    return CommandError(
        ExitCode.USAGE, f"{path} cannot be read: {error.strerror}", "give a regular file, or - for standard input"
    )


def _folder_of(path: Path) -> Path:
    return path.parent if path.parent.is_dir() else Path()
