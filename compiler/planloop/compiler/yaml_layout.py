"""Where the values of a YAML text stand, found by path from the parser's node tree when somebody asks.

The parser gives an aliased value the place of its anchor, and lets a block end where the next token starts; both are
put right here, because people look at what they wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from planloop.compiler.syntax import Path
from planloop.compiler.yaml_composing import PLAIN, tag_of
from planloop.schemas.frozen import mutable

_UP_TO_ALIAS: Final = re.compile(r"(?:[\s:,?\[{-]|#[^\n\r]*)*")
_ALIAS_NAME: Final = re.compile(r"\*[^\s,\[\]{}]+")


@mutable
class Entry:
    """A value and its key, if it has one, as written. Never changed; not frozen because thousands are made at once.

    `limit` is where the parser lets the value end, for blocks the start of the next token. `is_shared`: the value is
    written as an alias, or merged in from elsewhere.
    """

    node: Node
    start: int
    limit: int
    key_start: int | None = None
    key_end: int = 0
    is_shared: bool = False
    is_merged: bool = False


class YamlLayout:
    """Answers where a path stands. Each collection on the way is indexed once."""

    def __init__(self, text: str, root: Node) -> None:
        self.root = root
        self._text = text
        self._has_aliases = "*" in text and "&" in text
        self._indexed: dict[int, dict[str | int, Entry]] = {}

    def entry(self, path: Path) -> Entry | None:
        """The value at `path`; None when there is none."""
        found = Entry(self.root, self.root.start_mark.index, self.root.end_mark.index)
        for token in path:
            below = self.entries(found.node).get(token)
            if below is None:
                return None
            found = below
        return found

    def entries(self, node: Node) -> dict[str | int, Entry]:
        """What stands directly in the collection `node`, by key or index, in file order; merged keys come first."""
        known = self._indexed.get(id(node))
        if known is None:
            known = self._indexed[id(node)] = self._index(node)
        return known

    def end(self, entry: Entry) -> int:
        """Where the text of the value ends, without the blank lines and comments that follow it."""
        node = entry.node
        if entry.start != node.start_mark.index:
            return entry.limit  # An alias: its name is all there is.
        if isinstance(node, ScalarNode):
            if node.style not in ("|", ">"):
                return entry.limit
            return entry.start + len(self._text[entry.start : entry.limit].rstrip())
        if not isinstance(node, CollectionNode) or node.flow_style or not node.value:
            return entry.limit
        return self.end(self._last(node))

    def written(self, node: Node) -> Iterator[Entry]:
        """The nodes directly in `node`, keys and values in turn, each at the place where it is written."""
        nodes = node.value if isinstance(node, SequenceNode) else (each for pair in node.value for each in pair)
        return self._placed(nodes, node.start_mark.index)

    def _last(self, node: Node) -> Entry:
        if self._has_aliases:
            *_, last = self.written(node)
            return last
        last_node = node.value[-1] if isinstance(node, SequenceNode) else node.value[-1][1]
        return Entry(last_node, last_node.start_mark.index, last_node.end_mark.index)

    def _index(self, node: Node) -> dict[str | int, Entry]:
        if isinstance(node, SequenceNode):
            return dict(enumerate(self.written(node)))
        if not isinstance(node, MappingNode):
            return {}
        out: dict[str | int, Entry] = {}
        merged: list[Node] = []
        if not self._has_aliases:
            return {key.value: _pair(key, value) for key, value in reversed(node.value) if isinstance(key, ScalarNode)}
        written = list(self.written(node))
        for key, value in zip(written[::2], written[1::2], strict=True):
            if not isinstance(key.node, ScalarNode):
                continue
            if key.node.value == "<<" and tag_of(key.node) is PLAIN:
                merged += value.node.value if isinstance(value.node, SequenceNode) else [value.node]
            elif key.node.value not in out:
                out[key.node.value] = replace(value, key_start=key.start, key_end=key.limit)
        for each in merged:
            if isinstance(each, MappingNode):
                shared = ((k, replace(e, is_shared=True, is_merged=True)) for k, e in self.entries(each).items())
                out = {**dict(shared), **out}
        return out

    def _placed(self, nodes: Iterable[Node], after: int) -> Iterator[Entry]:
        for node in nodes:
            start, limit = node.start_mark.index, node.end_mark.index
            is_alias = start < after  # What it names stands further up.
            if is_alias:
                start, limit = self._alias_after(after)
            yield Entry(node, start, limit, is_shared=is_alias)
            after = limit

    def _alias_after(self, offset: int) -> tuple[int, int]:
        skipped = _UP_TO_ALIAS.match(self._text, offset)
        at = skipped.end() if skipped else offset
        name = _ALIAS_NAME.match(self._text, at)
        return at, name.end() if name else at


def _pair(key: Node, value: Node) -> Entry:
    return Entry(value, value.start_mark.index, value.end_mark.index, key.start_mark.index, key.end_mark.index)
