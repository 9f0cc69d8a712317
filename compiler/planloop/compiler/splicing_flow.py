"""Edits of YAML collections in brackets: on one line or over several, with commas where they belong."""

from __future__ import annotations

import re
from typing import Final

from yaml.nodes import MappingNode

from planloop.compiler import yaml_writing
from planloop.compiler.edits import CannotSplice, Change, Edits, Lines
from planloop.compiler.yaml_layout import Entry
from planloop.compiler.yaml_rows import Row
from planloop.schemas.encoding import Json

_COMMA: Final = re.compile(r"[ \t\r\n]*,")
_REST_OF_LINE: Final = re.compile(r"[ \t]*,?[ \t]*(?:[ \t]#[^\n\r]*)?(?=\r|\n|\Z)")


class FlowEdits:
    """Part of `YamlEditor`: what it does between brackets."""

    def __init__(self, text: str, lines: Lines, edits: Edits) -> None:
        self._text = text
        self._lines = lines
        self._edits = edits

    def is_json(self, rows: list[Row]) -> bool:
        """Whether the keys are all in double quotes: then so is what is added, for those who read it as JSON."""
        return bool(rows) and all(isinstance(row.token, str) and self._text[row.start] == '"' for row in rows)

    def change(self, entry: Entry, rows: list[Row], change: Change) -> None:
        """Removes and adds members of the collection at `entry`."""
        is_json = self.is_json(rows)
        added = [_pair(key, value, is_json) for key, value in change.added]
        kept = [row for row in rows if row.token not in change.removed]
        if not kept:
            written = [*added, *(self._item(value) for _, value in change.inserted)]
            self._refill(entry, rows, written)
            return
        for row in rows:
            if row.token in change.removed:
                self._remove(row, rows, kept)
        for text in added:
            self._insert_after(kept[-1], text)
        for index, value in change.inserted:
            before = [row for row in kept if isinstance(row.token, int) and row.token < index]
            if before:
                self._insert_after(before[-1], self._item(value))
            else:
                self._edits.insert(kept[0].start, f"{self._item(value)}, ")

    def _item(self, value: Json) -> str:
        return yaml_writing.flow(value) if isinstance(value, (dict, list)) else yaml_writing.scalar(value, in_flow=True)

    def _refill(self, entry: Entry, rows: list[Row], written: list[str]) -> None:
        is_map = isinstance(entry.node, MappingNode)
        start, end = self._text.index("{" if is_map else "[", entry.start) + 1, entry.limit - 1
        self._want_no_comments(start, end, rows)
        self._edits.replace(start, end, ", ".join(written))

    def _want_no_comments(self, start: int, end: int, rows: list[Row]) -> None:
        at = start
        for row in rows:
            if start <= row.start < end:
                if "#" in self._text[at : row.start]:
                    break
                at = row.end
        else:
            if "#" not in self._text[at:end]:
                return
        raise CannotSplice("a comment between brackets would go")

    def _remove(self, row: Row, rows: list[Row], kept: list[Row]) -> None:
        rest = _REST_OF_LINE.match(self._text, row.end)
        before = [each for each in kept if each.start < row.start]
        if self._lines.begins(row.start) and rest:
            self._edits.delete(self._lines.block_start(row.start), self._lines.next(rest.end()))
            comma = _COMMA.match(self._text, before[-1].end) if before and kept[-1] is before[-1] else None
            if comma and not _COMMA.match(self._text, rows[-1].end):
                self._edits.delete(comma.end() - 1, comma.end())
        elif before:
            self._want_no_comments(before[-1].end, row.end, rows)
            self._edits.delete(before[-1].end, row.end)
        else:
            self._want_no_comments(rows[0].start, kept[0].start, rows)
            self._edits.delete(rows[0].start, kept[0].start)

    def _insert_after(self, row: Row, text: str) -> None:
        comma = _COMMA.match(self._text, row.end)
        rest = _REST_OF_LINE.match(self._text, row.end)
        if not (self._lines.begins(row.start) and rest):
            self._edits.insert(row.end, f", {text}")
            return
        if not comma:
            self._edits.insert(row.end, ",")
        indent = " " * self._lines.column(row.start)
        self._edits.insert(rest.end(), f"{self._lines.newline}{indent}{text}{',' if comma else ''}")


def _pair(key: str, value: Json, is_json: bool) -> str:
    if is_json:
        return f"{yaml_writing.double_quoted(key)}: {yaml_writing.json_like(value)}"
    return f"{yaml_writing.key(key, in_flow=True)}: {yaml_writing.flow(value)}"
