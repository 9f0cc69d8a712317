"""Read YAML into plain values with positions. A line of plain JSON takes a fast path."""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import Any, Final

from yaml import MarkedYAMLError, YAMLError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from planloop.compiler.source import Format, SizeLimits, SourcePath, SourcePlace, SourceText, SourceValue
from planloop.compiler.yaml import scalars
from planloop.compiler.yaml.nodes import (
    PLAIN,
    TEXT,
    Expansion,
    TooBig,
    YamlLayout,
    compose_nodes,
    node_tag,
    too_big_diagnostic,
)
from planloop.schemas.diagnostic import Diagnostic, Related, Span
from planloop.schemas.gc_control import gc_paused

# Reads the YAML that programs write, a line of plain JSON, without YAML's parser: ten times as fast.
#
# Reads only values that both readers certainly agree on. Others (unusual numbers, numeric escapes, duplicate keys) and
# all problems are left to `planloop.compiler.yaml.reader`.

KEY_CHARS_MAX: Final = 100  # YAML bounds keys at 1,024 as they are written.
_DOUBTFUL: Final = re.compile(r"[^\x20-\x7e]|\\[^\"\\nrt]")
_INT: Final = re.compile(r"-?\d{1,15}")
_DECIMAL: Final = re.compile(r"-?\d{1,9}\.\d{1,6}")


class _Doubtful(ValueError):
    """YAML may take it for something else."""


def read_json_line(text: str, limits: SizeLimits) -> dict[str, SourceValue] | None:
    """The map that `text` is, if it is nothing but a line of JSON and within `limits` by far; else None."""
    line = text.removesuffix("\n")
    if not line.startswith("{") or _DOUBTFUL.search(line):
        return None
    if sum(map(line.count, ",:[{")) >= limits.nodes:  # An upper bound of the number of values.
        return None
    try:
        value: dict[str, SourceValue] = json.loads(
            line,
            object_pairs_hook=_json_map,
            parse_int=_json_int,
            parse_float=_json_decimal,
            parse_constant=_json_decimal,
        )
    except (ValueError, RecursionError):
        return None
    return value if _is_within(value, limits.depth) else None


def _json_map(pairs: list[tuple[str, SourceValue]]) -> dict[str, SourceValue]:
    found = dict(pairs)
    if len(found) < len(pairs) or any(not key or len(key) > KEY_CHARS_MAX for key in found):
        raise _Doubtful
    return found


def _json_int(text: str) -> int:
    if not _INT.fullmatch(text):
        raise _Doubtful
    return int(text)


def _json_decimal(text: str) -> float:
    if not _DECIMAL.fullmatch(text):
        raise _Doubtful
    return float(text)


def _is_within(value: SourceValue, depth_left: int) -> bool:
    """Whether what `value` holds is less than `depth_left` deep."""
    if isinstance(value, dict):
        return depth_left > 0 and all(_is_within(each, depth_left - 1) for each in value.values())
    if isinstance(value, list):
        return depth_left > 0 and all(_is_within(each, depth_left - 1) for each in value)
    return True


# Reads YAML: makes plain values of the node tree that PyYAML's C parser builds (`planloop.compiler.yaml.nodes`).
#
# Positions stay in the node tree until `planloop.compiler.yaml.nodes` is asked for one. What libyaml says about a
# broken text is put into words by `planloop.compiler.yaml.syntax_errors`, what a plain scalar means is in
# `planloop.compiler.yaml.scalars`.

_CORE: Final = "tag:yaml.org,2002:"
_TEXTUAL: Final = (_CORE + "str", "!")


class YamlTree:
    """A YAML text that was read: see `planloop.compiler.source.SourceTree`.

    The parser's nodes are not kept: they take ten times the memory of the values, and most texts have no problems.
    The first question for a place composes them again, within the same `limits`.
    """

    format: Format = "yaml"

    def __init__(
        self, source: SourceText, value: SourceValue, diagnostics: tuple[Diagnostic, ...], limits: SizeLimits
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
        root = compose_nodes(self.source.text, self._limits)
        return None if root is None else YamlLayout(self.source.text, root)

    def place(self, path: SourcePath) -> SourcePlace | None:
        with gc_paused():  # The first question builds a tree and an index.
            layout = self.layout
            entry = layout.entry(path) if layout else None
        if layout is None or entry is None:
            return None
        key = None if entry.key_start is None else self.source.span(entry.key_start, entry.key_end)
        return SourcePlace(self.source.span(entry.start, layout.end(entry)), key)


def read_yaml(source: SourceText, limits: SizeLimits) -> YamlTree:
    """The one document in the text. Reports all problems of its values in one pass, but only the first syntax error."""
    with gc_paused():
        line = read_json_line(source.text, limits)
        value, faults = (line, ()) if line else _read(source, limits)
    return YamlTree(source, value, faults, limits)


def _read(source: SourceText, limits: SizeLimits) -> tuple[SourceValue, tuple[Diagnostic, ...]]:
    """Return the value of the text, or None with problems."""
    try:
        root = compose_nodes(source.text, limits)
    except TooBig as stop:
        return None, (too_big_diagnostic(source, stop),)
    except MarkedYAMLError as error:
        from planloop.compiler.yaml.syntax_errors import explain_yaml_error  # noqa: PLC0415 - most plans can be read

        return None, explain_yaml_error(source, error)
    except YAMLError as error:
        hint = "save the file as UTF-8 text without control characters"
        return None, (Diagnostic("P0105", f"invalid YAML: {error}", hint, span=source.span(0, 0)),)
    if root is None:
        return None, (_empty(source),)
    overgrown = Expansion(source, limits).faults(root) if "*" in source.text and "&" in source.text else ()
    return (None, overgrown) if overgrown else _converted(source, root, limits)


def _converted(source: SourceText, root: Node, limits: SizeLimits) -> tuple[SourceValue, tuple[Diagnostic, ...]]:
    conversion = _Conversion(source)
    value = conversion.value(root)
    if conversion.count > limits.nodes:
        return None, (too_big_diagnostic(source, TooBig("nodes", limits.nodes, 0)),)
    if value is None and not conversion.faults:
        return None, (_empty(source),)
    return value, tuple(conversion.faults)


def _empty(source: SourceText) -> Diagnostic:
    return Diagnostic("P0103", "the file is empty", "run `plan init` to create a plan", span=source.span(0, 0))


class _Conversion:
    """Node tree to plain values. `count` is how many values that made, keys left out."""

    def __init__(self, source: SourceText) -> None:
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
            if key == "<<" and node_tag(key_node) is PLAIN:
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
        tag = node_tag(node)
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
            value = scalars.plain_scalar_value(text)
        except scalars.OutOfRange:
            self._out_of_range(node)
            return None
        self._plain[text] = value
        return value

    def _tagged(self, node: Node) -> SourceValue:
        tag = node_tag(node)
        if tag in _TEXTUAL:
            return str(node.value)
        try:
            value = scalars.plain_scalar_value(node.value)
        except scalars.OutOfRange:
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
        self._unknown_tag(node, f"`{node.value}` does not match its tag `{_short(tag)}`" if tag in wanted else "")
        return value

    def _want_tag(self, node: Node, core: str) -> None:
        tag = node_tag(node)
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
                    self._fault("P0118", "`<<` must have a map, or a list of maps", "write it as `<<: *defaults`", node)
        return {**out, **own}

    def _is_good_key(self, node: Node) -> bool:
        if isinstance(node, ScalarNode):
            if node_tag(node) is TEXT:
                return True  # "" is odd, but it is text.
            self._fault("P0110", "a key is empty", "add a name before the colon", node)
        else:
            what = "map" if isinstance(node, MappingNode) else "list"
            self._fault(
                "P0110",
                f"a {what} cannot be a key",
                "use plain text; quote it if it is text",
                node,
            )
        return False

    def _twice(self, key: str, first: Node, second: Node) -> None:
        related = (Related("first one here", self._span(first)),)
        hint = "keep one of them"
        self.faults.append(
            Diagnostic("P0109", f"duplicate key `{key}`", hint, span=self._span(second), on_key=True, related=related)
        )

    def _out_of_range(self, node: Node) -> None:
        self._fault(
            "P0117",
            f"`{node.value[:40]}` cannot be stored exactly as a number",
            "use 64-bit integers and finite fractions, or quote it if it is text",
            node,
        )

    def _unknown_tag(self, node: Node, summary: str = "") -> None:
        tag = node_tag(node)
        hint = "remove it: plans support only `!!str !!int !!float !!bool !!null !!map !!seq`"
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
