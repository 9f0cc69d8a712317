"""The members of a YAML collection as lines see them, and the layout habits of a text, for edits in place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from planloop.compiler.edits import CannotSplice, Lines
from planloop.compiler.yaml_composing import PLAIN, tag_of
from planloop.compiler.yaml_layout import Entry, YamlLayout
from planloop.compiler.yaml_writing import YamlStyle
from planloop.schemas.frozen import frozen

_UP_TO_DASH: Final = re.compile(r"(?:\s|#[^\n\r]*|[&!]\S+)*")
_COLON: Final = re.compile(r"[ \t]*:")
_LOOKED_AT_MAX: Final = 5_000  # Nodes, to learn the habits of a text.


@frozen
class Row:
    """A member of a collection, from its key or dash to the end of its value.

    `token` is None for a merge key, which has no name of its own. `colon` is where the value may begin: after the
    colon or the dash.
    """

    token: str | int | None
    start: int
    value: Entry
    end: int
    colon: int


class YamlRows:
    """Finds the rows of collections, each once."""

    def __init__(self, text: str, layout: YamlLayout) -> None:
        self._text = text
        self._layout = layout
        self._lines = Lines(text, "#")
        self._known: dict[int, list[Row]] = {}
        self._flow_rows: set[int] = set()
        self.ends_with_line = text.endswith(("\n", "\r"))
        self._habits = self._learn()

    def of(self, node: Node) -> list[Row]:
        """The rows of `node` in file order. Raises CannotSplice for spellings that lines cannot tell apart."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = list(self._find(node))
            if isinstance(node, CollectionNode) and node.flow_style:
                self._flow_rows |= {id(row) for row in known}
        return known

    def is_in_flow(self, row: Row) -> bool:
        """Whether the row stands in brackets."""
        return id(row) in self._flow_rows

    def style(self, rows: list[Row]) -> YamlStyle:
        """How to lay out what is new among `rows`: as they do, else as the text does elsewhere."""
        step, dash = self._habits.step, self._habits.dash
        for row in rows:
            value = row.value.node
            if isinstance(value, CollectionNode) and not value.flow_style and value.value and not row.value.is_shared:
                offset = _column(value) - self._lines.column(row.start)
                if isinstance(value, SequenceNode) and isinstance(row.token, str):
                    dash = offset
                elif isinstance(row.token, str):
                    step = offset
        return replace(self._habits, step=step, dash=dash)

    def _find(self, node: Node) -> Iterator[Row]:
        if isinstance(node, SequenceNode):
            yield from self._items(node)
            return
        written = list(self._layout.written(node)) if isinstance(node, MappingNode) else []
        for key, value in zip(written[::2], written[1::2], strict=True):
            colon = _COLON.match(self._text, key.limit)
            lead = self._text[self._lines.start(key.start) : key.start].rstrip(" \t")
            if not isinstance(key.node, ScalarNode) or lead.endswith("?"):
                raise CannotSplice("a key is written with `?`")
            if colon is None:
                raise CannotSplice("a key is written without a colon")
            is_merge = key.node.value == "<<" and tag_of(key.node) is PLAIN
            token = None if is_merge else str(key.node.value)
            yield Row(token, key.start, value, max(self._end(value), colon.end()), colon.end())

    def _items(self, node: SequenceNode) -> Iterator[Row]:
        after: int = node.start_mark.index
        for index, value in enumerate(self._layout.written(node)):
            start = colon = value.start
            if not node.flow_style:
                skipped = _UP_TO_DASH.match(self._text, after)
                start = skipped.end() if skipped else after
                if self._text[start : start + 1] != "-":
                    raise CannotSplice("the dashes of a list cannot be told apart")
                colon = start + 1
            after = max(self._end(value), colon)
            yield Row(index, start, value, after, colon)

    def _end(self, value: Entry) -> int:
        """Where the value ends; the blank lines that a block keeps (`|+`) are part of it."""
        node = value.node
        if not isinstance(node, ScalarNode) or node.style not in ("|", ">") or value.is_shared:
            return self._layout.end(value)
        header = self._text[value.start : self._lines.end(value.start)].partition("#")[0]
        return self._lines.trimmed_start(value.limit) if "+" in header else self._layout.end(value)

    def _learn(self) -> YamlStyle:
        step = dash = None
        for key_column, value in islice(_blocks(self._layout.root), _LOOKED_AT_MAX):
            if isinstance(value, MappingNode) and step is None:
                step = _column(value) - key_column
            elif isinstance(value, SequenceNode) and dash is None:
                dash = _column(value) - key_column
            if step is not None and dash is not None:
                break
        step = step if step and step > 0 else 2
        return YamlStyle(step, dash if dash is not None and dash >= 0 else 2, self._lines.newline, self.ends_with_line)


def _blocks(root: Node) -> Iterator[tuple[int, Node]]:
    """Every block collection that is the value of a key, with the column of that key."""
    stack = [root]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in seen or not isinstance(node, CollectionNode) or node.flow_style:
            continue
        seen.add(id(node))
        if isinstance(node, SequenceNode):
            stack += reversed(node.value)
            continue
        for key, value in node.value:
            is_below = value.start_mark.index >= key.end_mark.index
            if is_below and isinstance(value, CollectionNode) and not value.flow_style and value.value:
                yield key.start_mark.column, value
        stack += [value for _, value in reversed(node.value)]


def _column(node: CollectionNode) -> int:
    """The column of the first key or dash of a block collection; an anchor before it does not count."""
    if isinstance(node, MappingNode):
        return int(node.value[0][0].start_mark.column)
    return int(node.start_mark.column)
