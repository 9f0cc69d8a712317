"""Composes YAML's node tree within bounds: PyYAML's C parser, counted while it builds and before aliases expand.

So a hostile text costs what its bytes cost: depth and nodes stop the parser, and what aliases would expand to is
summed up with each node looked at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from yaml import CSafeLoader
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from planloop.compiler.source import SizeLimits, Source
from planloop.schemas.diagnostic import Diagnostic

PLAIN: Final = True  # What the loader writes into the tag of a node without one: true for a plain scalar and for a
TEXT: Final = False  # collection, false for a quoted scalar. Anything else is a tag that the author wrote.


def tag_of(node: Node) -> Any:
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


def compose(text: str, limits: SizeLimits) -> Node | None:
    """The root of the one document in the text, None for no document. Raises TooBig, yaml.YAMLError."""
    loader = _BoundedLoader(text, limits)
    try:
        node: Node | None = loader.get_single_node()
        return node
    finally:
        loader.dispose()


def too_big(source: Source, stop: TooBig) -> Diagnostic:
    """The fault that a text over its bounds has."""
    span = source.span(stop.at, stop.at)
    if stop.what == "depth":
        return Diagnostic("P0111", f"nested more than {stop.most} levels deep", "flatten the plan", span=span)
    summary = f"the plan holds more than {stop.most:,} values"
    return Diagnostic("P0112", summary, "split the plan, or let agents add tasks as they are needed", span=span)


class Expansion:
    """Measures what a text with aliases expands to, without expanding it: each node is looked at once."""

    def __init__(self, source: Source, limits: SizeLimits) -> None:
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
                    "P0114", "an alias stands inside the value it names", "it would never end: write it out", span=span
                ),
            )
        if self._aliases > self._limits.aliases:
            summary = f"{self._aliases:,} aliases, more than the {self._limits.aliases} allowed"
            return (Diagnostic("P0113", summary, "use `extends` and `mixins` to share settings", span=here),)
        if nodes > self._limits.nodes:
            summary = f"the aliases expand to {_rounded(nodes)} values, more than the {self._limits.nodes:,} allowed"
            return (
                Diagnostic("P0112", summary, "an alias inside an aliased value multiplies: write it out", span=here),
            )
        if depth > self._limits.depth:
            return (too_big(self._source, TooBig("depth", self._limits.depth, root.start_mark.index)),)
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
                yield key  # A fault, but it must be bounded all the same.
            yield value
    elif isinstance(node, SequenceNode):
        yield from node.value


def _rounded(count: int) -> str:
    return f"{count:,}" if count < 10**12 else f"over 10^{len(str(count)) - 1}"
