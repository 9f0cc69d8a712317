"""Text edits: deletions and insertions at offsets, applied together, and an index of lines.

Everything outside an edit stays as it is. Deletions may overlap; an insertion inside a deletion is refused, because it
would be lost or land in the wrong place.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import Literal, Protocol, TypeAlias

from planloop.compiler.source import SourcePath
from planloop.schemas.canonical_json import Json
from planloop.schemas.frozen import frozen, mutable

NodeKind: TypeAlias = Literal["map", "list", "form", "plain"]

_LINE_END = re.compile(r"\r\n|\n|\r|\Z")


class CannotSplice(Exception):
    """The text cannot be changed safely in place; the message says why, as a clause."""


@mutable
class CollectionChange:
    """What happens directly in one collection of the source. Tokens are its own keys or indexes.

    `inserted` goes before the item that had the index; `added` are fields of a map, or items known by an id.
    """

    removed: set[str | int] = field(default_factory=set)
    added: list[tuple[str, Json]] = field(default_factory=list)
    inserted: list[tuple[int, Json]] = field(default_factory=list)


class TextEditor(Protocol):
    """Edits one text, YAML or EDN. Methods raise CannotSplice when the place does not allow what is asked."""

    def kind(self, path: SourcePath) -> NodeKind | None:
        """What stands at `path`; None for nothing."""
        ...

    def length(self, path: SourcePath) -> int:
        """How many members the collection at `path` has."""
        ...

    def replace(self, path: SourcePath, value: Json) -> None:
        """Puts `value` where another value stood."""
        ...

    def change(self, path: SourcePath, change: CollectionChange) -> None:
        """Removes and adds members of the collection at `path`. Called once a collection."""
        ...

    def applied(self) -> str:
        """The text after all changes."""
        ...


@mutable
class TextEdits:
    """Gathers edits of one text. Insertions at one offset come out with the deepest first, else in order of arrival."""

    text: str
    _deleted: list[tuple[int, int]] = field(default_factory=list)
    _inserted: list[tuple[int, int, int, str]] = field(default_factory=list)

    def delete(self, start: int, end: int) -> None:
        if start < end:
            self._deleted.append((start, end))

    def insert(self, at: int, text: str, depth: int = 0) -> None:
        """Puts `text` before the character at `at`. `depth` is that of the collection it goes into."""
        self._inserted.append((at, -depth, len(self._inserted), text))

    def replace(self, start: int, end: int, text: str) -> None:
        """Deletes the stretch and puts `text` at its start."""
        self.insert(start, text)
        self.delete(start, end)

    def applied(self) -> str:
        """The text after all edits. Raises CannotSplice when they contradict each other."""
        out: list[str] = []
        at = 0
        gaps = _united(self._deleted)
        for offset, _, _, inserted in sorted(self._inserted):
            while gaps and gaps[0][0] < offset:
                start, end = gaps.pop(0)
                if end > offset:
                    raise CannotSplice("two of the changes are at the same place")
                out.append(self.text[at:start])
                at = end
            out.append(self.text[at:offset])
            out.append(inserted)
            at = offset
        for start, end in gaps:
            out.append(self.text[at:start])
            at = end
        out.append(self.text[at:])
        return "".join(out)


def _united(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, end in sorted(stretches):
        if out and start < out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out


@frozen
class LineIndex:
    """Where lines begin and end. `sign` begins a comment: `#` or `;`."""

    text: str
    sign: str

    @property
    def newline(self) -> str:
        """The line break that the text uses."""
        found = _LINE_END.search(self.text)
        return found[0] if found and found[0] else "\n"

    def start(self, offset: int) -> int:
        return max(self.text.rfind("\n", 0, offset), self.text.rfind("\r", 0, offset)) + 1

    def end(self, offset: int) -> int:
        """Where the line of `offset` ends, its line break left out."""
        found = _LINE_END.search(self.text, offset)
        assert found is not None
        return found.start()

    def next(self, offset: int) -> int:
        """Where the line after that of `offset` begins, or the end of the text."""
        found = _LINE_END.search(self.text, offset)
        assert found is not None
        return found.end()

    def column(self, offset: int) -> int:
        """Counted from 0."""
        return offset - self.start(offset)

    def begins(self, offset: int) -> bool:
        """Whether nothing but blanks stands before `offset` in its line."""
        return not self.text[self.start(offset) : offset].strip()

    def is_blank(self, start: int) -> bool:
        """Whether the line that begins at `start` is there and empty."""
        return start < len(self.text) and not self.text[start : self.end(start)].strip()

    def comment_column(self, start: int) -> int | None:
        """The column of the comment that makes up the whole line at `start`; None when it is another line."""
        line = self.text[start : self.end(start)]
        body = line.lstrip()
        return len(line) - len(body) if body.startswith(self.sign) else None

    def block_start(self, offset: int) -> int:
        """Where the line of `offset` begins, or the comment block directly above it in the same column."""
        start, column = self.start(offset), self.column(offset)
        while start > 0:
            above = self._above(start)
            if self.comment_column(above) != column:
                break
            start = above
        return start

    def is_blank_above(self, start: int) -> bool:
        """Whether an empty line stands above the line that begins at `start`."""
        return start > 0 and self.is_blank(self._above(start))

    def trimmed_start(self, start: int) -> int:
        """`start` moved back before the line break that precedes it, if one does."""
        if self.text[start - 2 : start] == "\r\n":
            return start - 2
        return start - 1 if self.text[start - 1 : start] in ("\n", "\r") else start

    def end_of_deeper_comments(self, end: int, column: int) -> int:
        """The end of the last comment line below the line ending at `end`, of those that stand right of `column`."""
        probe = end
        while (below := self.next(probe)) > probe and below < len(self.text):
            probe = self.end(below)
            found = self.comment_column(below)
            if found is not None and found > column:
                end = probe
            elif not self.is_blank(below):
                break
        return end

    def taken_out(self, start: int, end: int) -> tuple[int, int]:
        """What to delete so that the lines from `start` to `end` (a line's end) go, and no blank line is doubled.

        The line break above goes rather than the one below, which marks where the next insertion may be.
        """
        if start == 0:
            return 0, self.next(end)
        below = self.next(end)
        is_blank_below = self.is_blank(below) or not self.text[below:].strip()
        while is_blank_below and self.is_blank_above(start):
            start = self._above(start)
        return self.trimmed_start(start), end

    def _above(self, start: int) -> int:
        return self.start(self.trimmed_start(start))
