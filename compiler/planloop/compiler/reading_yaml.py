"""Reads YAML: makes plain values of the node tree that PyYAML's C parser builds (`planloop.compiler.yaml_composing`).

Positions stay in the node tree until `planloop.compiler.yaml_layout` is asked for one. What libyaml says about a broken
text is put into words by `planloop.compiler.yaml_complaints`, what a plain scalar means is in
`planloop.compiler.yaml_scalars`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from yaml import MarkedYAMLError, YAMLError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from planloop.compiler import yaml_complaints, yaml_scalars
from planloop.compiler.reading_json import read_line
from planloop.compiler.source import SizeLimits, Source
from planloop.compiler.syntax import Format, Path, Place, SourceValue
from planloop.compiler.yaml_composing import PLAIN, TEXT, Expansion, TooBig, compose, tag_of, too_big
from planloop.compiler.yaml_layout import YamlLayout
from planloop.schemas.collecting import collector_off
from planloop.schemas.diagnostic import Diagnostic, Related, Span

_CORE: Final = "tag:yaml.org,2002:"
_TEXTUAL: Final = (_CORE + "str", "!")


class YamlTree:
    """A YAML text that was read: see `planloop.compiler.syntax.SourceTree`.

    The parser's nodes are not kept: they take ten times the memory of the values, and most texts have no faults.
    The first question for a place composes them again, within the same `limits`.
    """

    format: Format = "yaml"

    def __init__(
        self, source: Source, value: SourceValue, diagnostics: tuple[Diagnostic, ...], limits: SizeLimits
    ) -> None:
        self.source = source
        self.value = value
        self.diagnostics = diagnostics
        self._limits = limits

    @property
    def file(self) -> str:
        return self.source.file

    @property
    def text(self) -> str:
        return self.source.text

    @cached_property
    def layout(self) -> YamlLayout | None:
        """Where everything stands; None when the text could not be read."""
        if self.value is None:
            return None
        root = compose(self.source.text, self._limits)
        return None if root is None else YamlLayout(self.source.text, root)

    def place(self, path: Path) -> Place | None:
        with collector_off():  # The first question builds a tree and an index.
            layout = self.layout
            entry = layout.entry(path) if layout else None
        if layout is None or entry is None:
            return None
        key = None if entry.key_start is None else self.source.span(entry.key_start, entry.key_end)
        return Place(self.source.span(entry.start, layout.end(entry)), key)


def read_yaml(source: Source, limits: SizeLimits) -> YamlTree:
    """The one document in the text. All faults of its values in one pass; a broken text has one fault, the first."""
    with collector_off():
        line = read_line(source.text, limits)
        value, faults = (line, ()) if line else _read(source, limits)
    return YamlTree(source, value, faults, limits)


def _read(source: Source, limits: SizeLimits) -> tuple[SourceValue, tuple[Diagnostic, ...]]:
    """The value of the text, None with faults when there is none."""
    try:
        root = compose(source.text, limits)
    except TooBig as stop:
        return None, (too_big(source, stop),)
    except MarkedYAMLError as error:
        return None, yaml_complaints.explain(source, error)
    except YAMLError as error:
        hint = "save the file as UTF-8 text without control characters"
        return None, (Diagnostic("P0105", f"the YAML cannot be read: {error}", hint, span=source.span(0, 0)),)
    if root is None:
        return None, (_empty(source),)
    overgrown = Expansion(source, limits).faults(root) if "*" in source.text and "&" in source.text else ()
    return (None, overgrown) if overgrown else _converted(source, root, limits)


def _converted(source: Source, root: Node, limits: SizeLimits) -> tuple[SourceValue, tuple[Diagnostic, ...]]:
    conversion = _Conversion(source)
    value = conversion.value(root)
    if conversion.count > limits.nodes:
        return None, (too_big(source, TooBig("nodes", limits.nodes, 0)),)
    if value is None and not conversion.faults:
        return None, (_empty(source),)
    return value, tuple(conversion.faults)


def _empty(source: Source) -> Diagnostic:
    return Diagnostic(
        "P0103", "there is nothing in the file", "`plan init` writes a plan to start from", span=source.span(0, 0)
    )


class _Conversion:
    """Node tree to plain values. `count` is how many values that made, keys left out."""

    def __init__(self, source: Source) -> None:
        self.faults: list[Diagnostic] = []
        self.count = 1
        self._source = source
        self._plain: dict[str, SourceValue] = {}  # The same few words make up most of a plan.

    def value(self, node: Node) -> SourceValue:
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        if isinstance(node, SequenceNode):
            self._want_tag(node, _CORE + "seq")
            self.count += len(node.value)
            return [self.value(item) for item in node.value]
        self._want_tag(node, _CORE + "map")
        return self._map(node)

    def _map(self, node: Node) -> dict[str, SourceValue]:
        pairs: list[tuple[Node, Node]] = node.value
        self.count += len(pairs)
        out: dict[str, SourceValue] = {}
        keys: dict[str, Node] = {}
        merged: list[Node] = []
        for key_node, value_node in pairs:
            key: str = key_node.value if key_node.__class__ is ScalarNode else ""
            if not key and not self._is_good_key(key_node):
                continue
            if key == "<<" and tag_of(key_node) is PLAIN:
                merged.append(value_node)
            elif key in keys:
                self._twice(key, keys[key], key_node)
            else:
                keys[key] = key_node
                if value_node.__class__ is ScalarNode:
                    out[key] = self._scalar(value_node)
                else:
                    out[key] = self.value(value_node)
        return self._with_merged(out, merged) if merged else out

    def _scalar(self, node: Node) -> SourceValue:
        tag = tag_of(node)
        text: str = node.value
        if tag is TEXT:
            return text
        if tag is not PLAIN:
            return self._tagged(node)
        try:
            return self._plain[text]
        except KeyError:
            pass
        try:
            value = yaml_scalars.plain_value(text)
        except yaml_scalars.OutOfRange:
            self._out_of_range(node)
            return None
        self._plain[text] = value
        return value

    def _tagged(self, node: Node) -> SourceValue:
        tag = tag_of(node)
        if tag in _TEXTUAL:
            return str(node.value)
        try:
            value = yaml_scalars.plain_value(node.value)
        except yaml_scalars.OutOfRange:
            self._out_of_range(node)
            return None
        wanted: dict[str, Any] = {
            _CORE + "int": int,
            _CORE + "float": (float, int),
            _CORE + "bool": bool,
            _CORE + "null": type(None),
        }
        if tag in wanted and isinstance(value, wanted[tag]) and (tag.endswith("bool") or not isinstance(value, bool)):
            return float(value) if tag.endswith("float") else value
        self._unknown_tag(node, f"`{node.value}` is not what its tag `{_short(tag)}` says" if tag in wanted else "")
        return value

    def _want_tag(self, node: Node, core: str) -> None:
        tag = tag_of(node)
        if tag is not PLAIN and tag not in (core, "!"):
            self._unknown_tag(node)

    def _with_merged(self, own: dict[str, SourceValue], merged: list[Node]) -> dict[str, SourceValue]:
        out: dict[str, SourceValue] = {}
        for node in merged:
            for each in node.value if isinstance(node, SequenceNode) else [node]:
                if isinstance(each, MappingNode):
                    # The first map that has a key wins, and the map's own keys over all of them.
                    out = {**out, **{k: v for k, v in self._map(each).items() if k not in out}}
                else:
                    self._fault("P0118", "`<<` takes a map, or a list of maps", "as in `<<: *defaults`", node)
        return {**out, **own}

    def _is_good_key(self, node: Node) -> bool:
        if isinstance(node, ScalarNode):
            if tag_of(node) is TEXT:
                return True  # "" is odd, but it is text.
            self._fault("P0110", "a key is empty", "write a name before the colon", node)
        else:
            what = "map" if isinstance(node, MappingNode) else "list"
            self._fault(
                "P0110",
                f"a {what} stands where a key is wanted",
                "keys are plain text; quote it if text is meant",
                node,
            )
        return False

    def _twice(self, key: str, first: Node, second: Node) -> None:
        related = (Related("first given here", self._span(first)),)
        hint = "keep one of them: the other would be lost silently"
        self.faults.append(
            Diagnostic("P0109", f"`{key}` is given twice", hint, span=self._span(second), on_key=True, related=related)
        )

    def _out_of_range(self, node: Node) -> None:
        self._fault(
            "P0117",
            f"`{node.value[:40]}` is not a number a plan can hold",
            "use 64-bit integers and finite fractions, or quote it if text is meant",
            node,
        )

    def _unknown_tag(self, node: Node, summary: str = "") -> None:
        tag = tag_of(node)
        hint = "remove it: plans know only `!!str !!int !!float !!bool !!null !!map !!seq`"
        self._fault("P0115", summary or f"unknown tag `{_short(tag)}`", hint, node)

    def _fault(self, code: str, summary: str, hint: str, node: Node) -> None:
        self.faults.append(Diagnostic(code, summary, hint, span=self._span(node)))

    def _span(self, node: Node) -> Span:
        start, end = node.start_mark.index, node.end_mark.index
        line_end = self._source.text.find("\n", start)
        if isinstance(node, ScalarNode) or line_end < 0:
            return self._source.span(start, end)
        return self._source.span(start, min(end, line_end))


def _short(tag: str) -> str:
    return "!!" + tag[len(_CORE) :] if tag.startswith(_CORE) else tag
