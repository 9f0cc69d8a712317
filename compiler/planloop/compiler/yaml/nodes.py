"""YAML's node tree: composed within limits by PyYAML's C parser, and positions of values by path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from yaml import CSafeLoader
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from planloop.compiler.source import SizeLimits, SourcePath, SourceText
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.frozen import mutable

# Composes YAML's node tree within bounds: PyYAML's C parser, counted while it builds and before aliases expand.
#
# So a hostile text costs what its bytes cost: depth and nodes stop the parser, and what aliases would expand to is
# summed up with each node looked at once.

PLAIN: Final = True  # What the loader writes into the tag of a node without one: true for a plain scalar and for a
TEXT: Final = False  # collection, false for a quoted scalar. Anything else is a tag that the author wrote.


def node_tag(node: Node) -> Any:
    """PLAIN, TEXT or the text of a tag. PyYAML's stubs know only the last."""
    return node.tag


class TooBig(Exception):
    """The text goes over `most` of `what` (nodes, depth) at the offset `at`."""

    def __init__(self, what: str, most: int, at: int) -> None:
        super().__init__(what)
        self.what = what
        self.most = most
        self.at = at


class _BoundedLoader(CSafeLoader):
    """The C parser with its resolver hooks put to our use: they run once a node, so they count instead."""

    def __init__(self, text: str, limits: SizeLimits) -> None:
        super().__init__(text)
        self._limits = limits
        self._depth = 0
        self._left = 2 * limits.nodes + 2  # Keys are nodes too; the exact bound is held on values.

    def descend_resolver(self, parent: Node | None, _index: Any) -> None:
        self._depth += 1
        self._left -= 1
        # A scalar in the deepest allowed collection is one level further down.
        if self._depth > self._limits.depth + 1 or self._left < 0:
            at = 0 if parent is None else parent.start_mark.index
            if self._left < 0:
                raise TooBig("nodes", self._limits.nodes, at)
            raise TooBig("depth", self._limits.depth, at)

    def ascend_resolver(self) -> None:
        self._depth -= 1

    def resolve(self, kind: type[Node], _value: Any, implicit: Any) -> Any:
        return implicit[0] if kind is ScalarNode else PLAIN


def compose_nodes(text: str, limits: SizeLimits) -> Node | None:
    """The root of the one document in the text, None for no document. Raises TooBig, yaml.YAMLError."""
    loader = _BoundedLoader(text, limits)
    try:
        node: Node | None = loader.get_single_node()
        return node
    finally:
        loader.dispose()


def too_big_diagnostic(source: SourceText, stop: TooBig) -> Diagnostic:
    """Return the problem of a text that exceeds its limits."""
    span = source.span(stop.at, stop.at)
    if stop.what == "depth":
        return Diagnostic("P0111", f"nested more than {stop.most} levels deep", "flatten the plan", span=span)
    summary = f"the plan has more than {stop.most:,} values"
    return Diagnostic("P0112", summary, "split the plan, or let agents add tasks as they are needed", span=span)


class Expansion:
    """Measures what a text with aliases expands to, without expanding it: each node is looked at once."""

    def __init__(self, source: SourceText, limits: SizeLimits) -> None:
        self._source = source
        self._limits = limits
        self._measured: dict[int, tuple[int, int] | None] = {}
        self._aliases = 0
        self._cycle: Node | None = None

    def faults(self, root: Node) -> tuple[Diagnostic, ...]:
        nodes, depth = self._measure(root)
        here = self._source.span(root.start_mark.index, root.start_mark.index)
        if self._cycle is not None:
            span = self._source.span(self._cycle.start_mark.index, self._cycle.start_mark.index + 1)
            return (
                Diagnostic(
                    "P0114",
                    "the alias is inside the value that it names",
                    "write the value: an alias to itself never ends",
                    span=span,
                ),
            )
        if self._aliases > self._limits.aliases:
            summary = f"the file has {self._aliases:,} aliases; the limit is {self._limits.aliases}"
            return (Diagnostic("P0113", summary, "use `extends` and `mixins` to share settings", span=here),)
        if nodes > self._limits.nodes:
            summary = f"the aliases expand to {_rounded(nodes)} values; the limit is {self._limits.nodes:,}"
            return (
                Diagnostic("P0112", summary, "write the values: aliases inside aliased values multiply", span=here),
            )
        if depth > self._limits.depth:
            return (too_big_diagnostic(self._source, TooBig("depth", self._limits.depth, root.start_mark.index)),)
        return ()

    def _measure(self, node: Node) -> tuple[int, int]:
        """Values in `node` and its depth. Recursion is bounded: an alias was measured where its anchor stood."""
        known = self._measured.get(id(node), ())
        if known is None:
            self._cycle = node
            return 0, 0
        if known:
            self._aliases += 1
            return known
        self._measured[id(node)] = None
        nodes, depth = 1, 0
        for child in _children(node):
            child_nodes, child_depth = self._measure(child)
            nodes, depth = nodes + child_nodes, max(depth, child_depth)
        size = (nodes, depth + (not isinstance(node, ScalarNode)))
        self._measured[id(node)] = size
        return size


def _children(node: Node) -> Iterator[Node]:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                yield key  # Invalid, but it must be limited too.
            yield value
    elif isinstance(node, SequenceNode):
        yield from node.value


def _rounded(count: int) -> str:
    return f"{count:,}" if count < 10**12 else f"over 10^{len(str(count)) - 1}"


# Positions of the values of a YAML text, looked up by path in the parser's node tree on demand.
#
# The parser gives an aliased value the place of its anchor, and lets a block end where the next token starts; both are
# put right here, because people look at what they wrote.

_UP_TO_ALIAS: Final = re.compile(r"(?:[\s:,?\[{-]|#[^\n\r]*)*")
_ALIAS_NAME: Final = re.compile(r"\*[^\s,\[\]{}]+")


@mutable
class YamlEntry:
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
        self._indexed: dict[int, dict[str | int, YamlEntry]] = {}

    def entry(self, path: SourcePath) -> YamlEntry | None:
        """Return the value at `path`; None if it does not exist."""
        found = YamlEntry(self.root, self.root.start_mark.index, self.root.end_mark.index)
        for token in path:
            below = self.entries(found.node).get(token)
            if below is None:
                return None
            found = below
        return found

    def entries(self, node: Node) -> dict[str | int, YamlEntry]:
        """What stands directly in the collection `node`, by key or index, in file order; merged keys come first."""
        known = self._indexed.get(id(node))
        if known is None:
            known = self._indexed[id(node)] = self._index(node)
        return known

    def end(self, entry: YamlEntry) -> int:
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

    def written(self, node: Node) -> Iterator[YamlEntry]:
        """The nodes directly in `node`, keys and values in turn, each at the place where it is written."""
        nodes = node.value if isinstance(node, SequenceNode) else (each for pair in node.value for each in pair)
        return self._placed(nodes, node.start_mark.index)

    def _last(self, node: Node) -> YamlEntry:
        if self._has_aliases:
            *_, last = self.written(node)
            return last
        last_node = node.value[-1] if isinstance(node, SequenceNode) else node.value[-1][1]
        return YamlEntry(last_node, last_node.start_mark.index, last_node.end_mark.index)

    def _index(self, node: Node) -> dict[str | int, YamlEntry]:
        if isinstance(node, SequenceNode):
            return dict(enumerate(self.written(node)))
        if not isinstance(node, MappingNode):
            return {}
        out: dict[str | int, YamlEntry] = {}
        merged: list[Node] = []
        if not self._has_aliases:
            return {key.value: _pair(key, value) for key, value in reversed(node.value) if isinstance(key, ScalarNode)}
        written = list(self.written(node))
        for key, value in zip(written[::2], written[1::2], strict=True):
            if not isinstance(key.node, ScalarNode):
                continue
            if key.node.value == "<<" and node_tag(key.node) is PLAIN:
                merged += value.node.value if isinstance(value.node, SequenceNode) else [value.node]
            elif key.node.value not in out:
                out[key.node.value] = replace(value, key_start=key.start, key_end=key.limit)
        for each in merged:
            if isinstance(each, MappingNode):
                shared = ((k, replace(e, is_shared=True, is_merged=True)) for k, e in self.entries(each).items())
                out = {**dict(shared), **out}
        return out

    def _placed(self, nodes: Iterable[Node], after: int) -> Iterator[YamlEntry]:
        for node in nodes:
            start, limit = node.start_mark.index, node.end_mark.index
            is_alias = start < after  # What it names stands further up.
            if is_alias:
                start, limit = self._alias_after(after)
            yield YamlEntry(node, start, limit, is_shared=is_alias)
            after = limit

    def _alias_after(self, offset: int) -> tuple[int, int]:
        skipped = _UP_TO_ALIAS.match(self._text, offset)
        at = skipped.end() if skipped else offset
        name = _ALIAS_NAME.match(self._text, at)
        return at, name.end() if name else at


def _pair(key: Node, value: Node) -> YamlEntry:
    return YamlEntry(value, value.start_mark.index, value.end_mark.index, key.start_mark.index, key.end_mark.index)
