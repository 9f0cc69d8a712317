"""From a plan file on disk to a compiled plan, or to the ending that says what is wrong with it.

The compiler itself touches no file; here the world's faults (missing, a folder, unreadable, too large) get their words.
"""

from __future__ import annotations

import errno
import sys
from dataclasses import replace
from pathlib import Path

from planloop import compiler
from planloop.app import overriding
from planloop.app.exits import Exit, Halt
from planloop.app.sources import FolderSources, read_bounded
from planloop.app.streams import styled
from planloop.cli.rendering import diagnostics as rendering
from planloop.compiler.codes import STOPS_APPLY
from planloop.compiler.graph import Compiled, Graph
from planloop.compiler.reading import SizeLimits
from planloop.schemas.collecting import collector_off, made_to_stay
from planloop.schemas.diagnostic import Diagnostic, Span
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import PLAN_FILE_BYTES_MAX

STDIN = Path("-")


@frozen
class PlanFile:
    """A plan file as read: its bytes, what they compile to, and the local files that took part.

    `model` is the one that takes the place of those that the file states, None where these hold.
    """

    path: Path
    content: bytes
    compiled: Compiled
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


def read(path: Path, *, size_max: int = PLAN_FILE_BYTES_MAX, model: str | None = None) -> PlanFile:
    """The file at `path`, compiled; its faults are in the result. Raises Halt when it cannot be read at all."""
    return compiled(path, content_of(path, size_max), size_max=size_max, model=model)


def compiled(path: Path, content: bytes, *, size_max: int = PLAN_FILE_BYTES_MAX, model: str | None = None) -> PlanFile:
    """`content` as the text of the plan file `path`, compiled, every model redirected to `model`."""
    folder = Path.cwd() if path == STDIN else path.absolute().parent
    sources = FolderSources(folder)
    limits = replace(SizeLimits(), size_bytes=size_max)
    with collector_off():
        result = compiler.compile_source(content, file=shown(path), sources=sources, limits=limits)
        if model is not None and result.graph is not None:
            result = _on_model(result, sources, model)
    return PlanFile(path, content, result, frozenset(sources.read_files), model)


def _on_model(result: Compiled, sources: FolderSources, model: str) -> Compiled:
    assert result.document is not None, "it has a graph"
    checked = compiler.check_document(overriding.on_model(result.document, model), sources=sources)
    placed = tuple(replace(one, span=_span_of(result, one)) for one in checked.diagnostics)
    return replace(result, document=checked.document, graph=checked.graph, diagnostics=placed)


def _span_of(result: Compiled, diagnostic: Diagnostic) -> Span | None:
    """Where in the text the thing stands that a diagnostic of the changed document is about."""
    path = result.origin(diagnostic.pointer or ())
    place = result.tree.place(path) if path is not None else None
    return place.value if place is not None else None


def required(
    path: Path, *, size_max: int = PLAN_FILE_BYTES_MAX, is_run: bool = False, model: str | None = None
) -> PlanFile:
    """`read`, but with the faults printed on stderr, and Halt INVALID when any of them is an error.

    `is_run` says that the whole file is to be run, so that what this version does not run is an error.
    """
    with made_to_stay():
        file = read(path, size_max=size_max, model=model)
        file = to_run(file) if is_run else file
    report(file)
    if file.errors:
        raise Halt(Exit.INVALID, "")
    return file


def to_run(file: PlanFile) -> PlanFile:
    """The same file with every part that this version cannot run as an error, not a warning."""
    found = tuple(
        replace(one, severity="error") if one.code in STOPS_APPLY else one for one in file.compiled.diagnostics
    )
    return replace(file, compiled=replace(file.compiled, diagnostics=found))


def report(file: PlanFile) -> None:
    """Prints the diagnostics of `file` on stderr, with a line that counts the errors."""
    if not file.compiled.diagnostics:
        return
    styled(fault_text(file, color=sys.stderr.isatty()), sys.stderr)


def fault_text(file: PlanFile, *, color: bool) -> str:
    """The diagnostics as people read them, then how many there are and what it means."""
    texts = {file.compiled.tree.file: file.compiled.tree.text}
    text = rendering.render(file.compiled.diagnostics, texts, color=color)
    errors = len(file.errors)
    if errors:
        code = file.errors[0].code
        count = "1 fault" if errors == 1 else f"{errors} faults"
        text += f"{count}. Nothing was changed; what was running goes on.        (plan explain {code})\n"
    return text


def content_of(path: Path, size_max: int) -> bytes:
    """The bytes of the file, `-` being standard input. Raises Halt with what to do."""
    if path == STDIN:
        return sys.stdin.buffer.read(size_max + 1)
    try:
        return read_bounded(path, size_max)
    except OSError as error:
        raise _unreadable(path, error) from error


def shown(path: Path) -> str:
    """How diagnostics call the file: its name as it was given."""
    return "<stdin>" if path == STDIN else str(path)


def _unreadable(path: Path, error: OSError) -> Halt:
    match error.errno:
        case errno.ENOENT:
            near = sorted(found.name for found in _folder_of(path).glob("*.plan.*"))
            hint = f"plan files here: {', '.join(near)}" if near else "plan init writes a first one"
            return Halt(Exit.NOT_FOUND, f"no file {path}", hint)
        case errno.EISDIR:
            near = sorted(str(found) for found in path.glob("*.plan.*"))
            hint = f"did you mean {near[0]}?" if near else "name the plan file itself"
            return Halt(Exit.USAGE, f"{path} is a folder, not a plan file", hint)
        case errno.EACCES:
            return Halt(Exit.USAGE, f"{path} may not be read by this user", f"chmod u+r {path}")
    return Halt(Exit.USAGE, f"{path} cannot be read: {error.strerror}", "name a regular file, or - for standard input")


def _folder_of(path: Path) -> Path:
    return path.parent if path.parent.is_dir() else Path()
