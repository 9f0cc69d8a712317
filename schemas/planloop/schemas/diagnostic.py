"""Diagnostics: problems found in a plan, collected as values instead of raised."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, TypeAlias

from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen

# Problems within a value, before the position of the value in a file is known.

ValuePath: TypeAlias = tuple[str, ...]


@frozen
class ValueProblem:
    """A problem at `at`, a path within the checked value, and its fix. `code` is a diagnostic code.

    `is_key`: the key at that path is wrong, not its value.
    """

    at: ValuePath
    code: str
    summary: str
    hint: str
    is_key: bool = False


# Diagnostics: errors in a plan as values, collected rather than raised.
#
# Checkers that know only the document report a JSON pointer; the compiler, which holds the text, adds the span.
# How they are printed is `planloop.client.render`; what each code means is `docs/reference/errors/<code>.md`.

Severity: TypeAlias = Literal["error", "warning"]


@frozen
class Span:
    """A stretch of one source file. Lines and columns count from 1, in characters; `end` is exclusive.

    `start` and `end` are offsets in characters of the decoded text, for splicing.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    start: int
    end: int

    def to_json(self) -> JsonObject:
        return {
            "file": self.file,
            "start": {"line": self.line, "column": self.column, "offset": self.start},
            "end": {"line": self.end_line, "column": self.end_column, "offset": self.end},
        }


@frozen
class Related:
    """Another location that belongs to the error: a declaration, the other half of a cycle."""

    message: str
    span: Span | None = None
    pointer: tuple[str, ...] | None = None


@frozen
class Diagnostic:
    """One error. `summary` states it (lower case, no full stop, names in backticks); `hint` is the fix.

    `pointer` is the place in the canonical document, `span` the place in the text; either may be None until the layer
    that knows it fills it in. `on_key`: the key is wrong, not the value.
    """

    code: str
    summary: str
    hint: str = ""
    pointer: tuple[str, ...] | None = None
    span: Span | None = None
    on_key: bool = False
    severity: Severity = "error"
    related: tuple[Related, ...] = ()

    def at(self, span: Span | None) -> Diagnostic:
        """Return the same error with its position in the file."""
        return replace(self, span=span)


def sort_diagnostics(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return them sorted by file position, those without one first, without duplicates."""
    return sorted(dict.fromkeys(diagnostics), key=_position)


def _position(diagnostic: Diagnostic) -> tuple[str, int, str, str]:
    span = diagnostic.span
    return (span.file if span else "", span.start if span else -1, diagnostic.code, diagnostic.summary)
