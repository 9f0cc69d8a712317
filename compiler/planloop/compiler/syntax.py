"""What a reader makes of a text: plain values, and where each of them stands.

Both readers (YAML, EDN) give the same shape, so nothing after them knows which spelling was used. A value is built from
dict (keys are text), list, str, int, float, bool, None, and what only EDN or YAML traps can say: `Symbol`, `Keyword`,
`Form` and `Trap`. Positions are looked up by path only when needed, because most plans have no faults.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

from planloop.schemas.diagnostic import Diagnostic, Span
from planloop.schemas.frozen import frozen

Path: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes from the top of a source value; a Form counts its items from 0, the head included."""

SourceValue: TypeAlias = Any
Format: TypeAlias = Literal["yaml", "edn"]


class Trap(str):
    """A plain YAML scalar that YAML 1.1 readers take for something else: `no`, `010`, `12:30:45`, `1_000`.

    It is text by YAML 1.2 or would surprise its author; fields decide whether it is a fault.
    """

    __slots__ = ()


class Keyword(str):
    """An EDN keyword without its colon, standing as a value: `:all`. Keys of maps are plain text already."""

    __slots__ = ()


class Symbol(str):
    """An EDN symbol standing as a value: `agents/top`, `...`."""

    __slots__ = ()


@frozen
class Form:
    """An EDN list `(head …)`. Call-like data: `(sh "npm test")`, `(task "goal" …)`, `(def-agent id {…})`."""

    items: tuple[SourceValue, ...]

    @property
    def head(self) -> str:
        return str(self.items[0]) if self.items and isinstance(self.items[0], Symbol) else ""


@frozen
class Place:
    """Where a value stands, and its key if it has one."""

    value: Span
    key: Span | None = None


class SourceTree(Protocol):
    """A text that was read. `value` is None with diagnostics when it could not be."""

    @property
    def file(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def format(self) -> Format: ...

    @property
    def value(self) -> SourceValue: ...

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]: ...

    def place(self, path: Path) -> Place | None:
        """Where the value at `path` stands; None when there is no such value."""
        ...
