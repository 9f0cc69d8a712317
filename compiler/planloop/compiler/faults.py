"""Faults on their way to becoming diagnostics: collected by every step, placed in the text at the end.

A step that walks the source knows the source path; one that walks the document knows the pointer. Both are kept, so
that a place is looked up only for the few things that are wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from planloop.compiler.syntax import Path, SourceTree
from planloop.schemas import limits
from planloop.schemas.diagnostic import Diagnostic, Related, Span
from planloop.schemas.frozen import frozen, mutable

Pointer = tuple[str, ...]


@frozen
class Fault:
    """A diagnostic without its span, and where in the source it is, if the finder knew."""

    diagnostic: Diagnostic
    at: Path | None = None


@mutable
class Faults:
    """Collects faults. Nothing is raised for what is wrong with a plan (style.md)."""

    found: list[Fault] = field(default_factory=list)
    _touched: set[Pointer] = field(default_factory=set)

    def add(self, code: str, summary: str, hint: str = "", *, to: Pointer, at: Path | None = None) -> None:
        """An error at a value."""
        self._error(Diagnostic(code, summary, hint, to), at)

    def on_key(self, code: str, summary: str, hint: str = "", *, to: Pointer, at: Path | None = None) -> None:
        """An error at a key."""
        self._error(Diagnostic(code, summary, hint, to, on_key=True), at)

    def warn(self, code: str, summary: str, hint: str = "", *, to: Pointer, at: Path | None = None) -> None:
        """A warning at a value."""
        self.found.append(Fault(Diagnostic(code, summary, hint, to, severity="warning"), at))

    def warn_on_key(self, code: str, summary: str, hint: str = "", *, to: Pointer) -> None:
        """A warning at the key that a thing is declared under."""
        self.found.append(Fault(Diagnostic(code, summary, hint, to, on_key=True, severity="warning")))

    def related(self, code: str, summary: str, hint: str, to: Pointer, others: Sequence[tuple[str, Pointer]]) -> None:
        """An error that has to do with other places, each with a few words."""
        notes = tuple(Related(words, pointer=pointer) for words, pointer in others)
        self._error(Diagnostic(code, summary, hint, to, related=notes), None)

    def _error(self, diagnostic: Diagnostic, at: Path | None) -> None:
        self.found.append(Fault(diagnostic, at))
        to = diagnostic.pointer or ()
        self._touched.update((to, to[:-1]))

    def is_at(self, to: Pointer) -> bool:
        """Whether something was wrong at `to` or with one of its fields: what is missing there may be just that."""
        return to in self._touched

    @property
    def are_many(self) -> bool:
        """Whether there are more than anybody will be shown: then no more names are searched for what was meant."""
        return len(self.found) > limits.SUGGESTIONS_MAX

    @property
    def has_errors(self) -> bool:
        return any(fault.diagnostic.severity == "error" for fault in self.found)


@mutable
class Origins:
    """From pointers of the document to paths in the source. Only what differs is kept; None: there is no source."""

    tree: SourceTree
    moved: dict[Pointer, Path | None]

    def find(self, pointer: Pointer) -> Path | None:
        """The path of the value at `pointer`, or of the nearest thing above it that was written; None: derived."""
        path: Path = ()
        rest = pointer
        for length in range(len(pointer), -1, -1):
            if pointer[:length] in self.moved:
                known = self.moved[pointer[:length]]
                if known is None:
                    return None
                path, rest = known, pointer[length:]
                break
        return self._descend(path, rest)

    def _descend(self, path: Path, rest: Pointer) -> Path:
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


def placed(faults: list[Fault], origins: Origins) -> list[Diagnostic]:
    """The diagnostics with their spans, in no particular order."""
    return [_placed(fault, origins) for fault in faults]


def _placed(fault: Fault, origins: Origins) -> Diagnostic:
    diagnostic = fault.diagnostic
    path = fault.at if fault.at is not None else origins.find(diagnostic.pointer or ())
    related = tuple(
        note if note.pointer is None else replace(note, span=_span(origins, origins.find(note.pointer), on_key=True))
        for note in diagnostic.related
    )
    span = diagnostic.span or _span(origins, path, on_key=diagnostic.on_key)
    return replace(diagnostic, span=span, related=related)


def _span(origins: Origins, path: Path | None, *, on_key: bool) -> Span | None:
    while path is not None:
        place = origins.tree.place(path)
        if place is not None:
            return place.key if on_key and place.key is not None else place.value
        if not path:
            return None
        path = path[:-1]
    return None
