"""Problems found while compiling: collected by every step, turned into diagnostics with source positions at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from planloop.compiler.source import SourcePath, SourceTree
from planloop.schemas import limits
from planloop.schemas.diagnostic import Diagnostic, Related, Span
from planloop.schemas.frozen import frozen, mutable

# Problems become diagnostics: every step collects them, and their positions are added at the end.
#
# A step that walks the source knows the source path; one that walks the document knows the pointer. Both are kept, so
# that a place is looked up only for the few things that are wrong.

Pointer = tuple[str, ...]


@frozen
class Problem:
    """A diagnostic without its span, and where in the source it is, if the finder knew."""

    diagnostic: Diagnostic
    at: SourcePath | None = None


@mutable
class Problems:
    """Collects problems. Problems of a plan raise nothing."""

    found: list[Problem] = field(default_factory=list)
    _touched: set[Pointer] = field(default_factory=set)

    def add(self, code: str, summary: str, hint: str = "", *, to: Pointer, at: SourcePath | None = None) -> None:
        """An error at a value."""
        self._error(Diagnostic(code, summary, hint, to), at)

    def on_key(self, code: str, summary: str, hint: str = "", *, to: Pointer, at: SourcePath | None = None) -> None:
        """An error at a key."""
        self._error(Diagnostic(code, summary, hint, to, on_key=True), at)

    def warn(self, code: str, summary: str, hint: str = "", *, to: Pointer, at: SourcePath | None = None) -> None:
        """A warning at a value."""
        self.found.append(Problem(Diagnostic(code, summary, hint, to, severity="warning"), at))

    def warn_on_key(self, code: str, summary: str, hint: str = "", *, to: Pointer) -> None:
        """A warning at the key that a thing is declared under."""
        self.found.append(Problem(Diagnostic(code, summary, hint, to, on_key=True, severity="warning")))

    def related(self, code: str, summary: str, hint: str, to: Pointer, others: Sequence[tuple[str, Pointer]]) -> None:
        """An error that has to do with other places, each with a few words."""
        notes = tuple(Related(words, pointer=pointer) for words, pointer in others)
        self._error(Diagnostic(code, summary, hint, to, related=notes), None)

    def _error(self, diagnostic: Diagnostic, at: SourcePath | None) -> None:
        self.found.append(Problem(diagnostic, at))
        to = diagnostic.pointer or ()
        self._touched.update((to, to[:-1]))

    def is_at(self, to: Pointer) -> bool:
        """Whether something was wrong at `to` or with one of its fields: what is missing there may be just that."""
        return to in self._touched

    @property
    def are_many(self) -> bool:
        """Return whether there are more than are shown: then no more "did you mean" searches run."""
        return len(self.found) > limits.SUGGESTIONS_MAX

    @property
    def has_errors(self) -> bool:
        return any(fault.diagnostic.severity == "error" for fault in self.found)


@mutable
class Origins:
    """From pointers of the document to paths in the source. Only differences are kept; None: no source."""

    tree: SourceTree
    moved: dict[Pointer, SourcePath | None]

    def find(self, pointer: Pointer) -> SourcePath | None:
        """The path of the value at `pointer`, or of the nearest thing above it that was written; None: derived."""
        path: SourcePath = ()
        rest = pointer
        for length in range(len(pointer), -1, -1):
            if pointer[:length] in self.moved:
                known = self.moved[pointer[:length]]
                if known is None:
                    return None
                path, rest = known, pointer[length:]
                break
        return self._descend(path, rest)

    def _descend(self, path: SourcePath, rest: Pointer) -> SourcePath:
        value = self.tree.value
        for step in path:
            value = _below(value, step)
        for name in rest:
            token: str | int = int(name) if not isinstance(value, dict) and name.isdigit() else name
            value = _below(value, token)
            if value is _NOWHERE:
                break
            path = (*path, token)
        return path


_NOWHERE = object()


def _below(value: object, token: str | int) -> object:
    items = getattr(value, "items", None) if not isinstance(value, dict | list) else value
    if isinstance(items, dict):
        return items.get(token, _NOWHERE)
    if isinstance(items, list | tuple) and isinstance(token, int) and token < len(items):
        return items[token]
    return _NOWHERE


def place_problems(faults: list[Problem], origins: Origins) -> list[Diagnostic]:
    """The diagnostics with their spans, in no particular order."""
    return [_place_problem(fault, origins) for fault in faults]


def _place_problem(fault: Problem, origins: Origins) -> Diagnostic:
    diagnostic = fault.diagnostic
    path = fault.at if fault.at is not None else origins.find(diagnostic.pointer or ())
    related = tuple(
        note if note.pointer is None else replace(note, span=_span(origins, origins.find(note.pointer), on_key=True))
        for note in diagnostic.related
    )
    span = diagnostic.span or _span(origins, path, on_key=diagnostic.on_key)
    return replace(diagnostic, span=span, related=related)


def _span(origins: Origins, path: SourcePath | None, *, on_key: bool) -> Span | None:
    while path is not None:
        place = origins.tree.place(path)
        if place is not None:
            return place.key if on_key and place.key is not None else place.value
        if not path:
            return None
        path = path[:-1]
    return None


# Where something is declared, in words that still know the line of each of its fields: for `plan explain --why`.


class DeclaredAt(str):
    """`lib:denylist`, `mixin lib:retry`, `agents/worker`. `origins` is set where it has a file of its own."""

    file: str = ""
    origins: Origins | None = None

    @staticmethod
    def of_file(text: str, file: str, origins: Origins) -> DeclaredAt:
        """Words on something that the whole of `file` declares."""
        words = DeclaredAt(text)
        words.file, words.origins = file, origins
        return words

    def after(self, prefix: str) -> DeclaredAt:
        """The same with a word before it."""
        words = DeclaredAt(f"{prefix} {self}")
        words.file, words.origins = self.file, self.origins
        return words

    def at(self, field: str) -> str:
        """`lib:mixins/denylist.yaml:2`, the place of a field; empty where it stands in the plan."""
        if self.origins is None:
            return ""
        path = self.origins.find((field,))
        place = self.origins.tree.place(path) if path else None
        return f"{self.file}:{(place.key or place.value).line}" if place is not None else self.file
