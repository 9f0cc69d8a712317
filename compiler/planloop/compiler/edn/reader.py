"""Read EDN into plain values with positions. Tests hold it to edn-format, which keeps none.

`tokens.nest_tokens` splits and nests the text without recursion. This module makes plain values of the nodes. After a
problem it continues where possible, to report all problems in one pass. Several forms at the top of a file become a
list of forms.
"""

from __future__ import annotations

from functools import cached_property

from planloop.compiler.edn import tokens
from planloop.compiler.edn.tokens import EdnNode, nest_tokens
from planloop.compiler.source import Form, Format, Keyword, SizeLimits, SourcePath, SourcePlace, SourceText, SourceValue
from planloop.compiler.yaml.scalars import OutOfRange
from planloop.schemas.diagnostic import Diagnostic, Related, sort_diagnostics


class EdnTree:
    """An EDN text that was read: see `planloop.compiler.source.SourceTree`."""

    format: Format = "edn"

    def __init__(
        self, source: SourceText, value: SourceValue, diagnostics: tuple[Diagnostic, ...], root: EdnNode | None = None
    ) -> None:
        self.source = source
        self.value = value
        self.diagnostics = diagnostics
        self.root = root

    @property
    def file(self) -> str:
        return self.source.file

    @property
    def text(self) -> str:
        return self.source.text

    @cached_property
    def layout(self) -> EdnLayout | None:
        """Where everything stands; None when the text could not be read."""
        return None if self.root is None else EdnLayout(self.source.text, self.root)

    def place(self, path: SourcePath) -> SourcePlace | None:
        found = self.layout.find(path) if self.layout else None
        if found is None:
            return None
        key, node = found
        return SourcePlace(
            self.source.span(node.start, node.end), self.source.span(key.start, key.end) if key else None
        )


class EdnLayout:
    """Answers where a path stands. Each collection on the way is indexed once."""

    def __init__(self, text: str, root: EdnNode) -> None:
        self.root = root
        self._text = text
        self._indexed: dict[int, dict[str | int, tuple[EdnNode | None, EdnNode]]] = {}

    def find(self, path: SourcePath) -> tuple[EdnNode | None, EdnNode] | None:
        """Return the node at `path` and its key, if it has one; None if `path` does not exist."""
        found: tuple[EdnNode | None, EdnNode] = (None, self.root)
        for token in path:
            below = self.entries(found[1]).get(token)
            if below is None:
                return None
            found = below
        return found

    def entries(self, node: EdnNode) -> dict[str | int, tuple[EdnNode | None, EdnNode]]:
        """What stands directly in the collection `node`, by key or index, in file order."""
        known = self._indexed.get(id(node))
        if known is None:
            known = self._indexed[id(node)] = self._index(node)
        return known

    def _index(self, node: EdnNode) -> dict[str | int, tuple[EdnNode | None, EdnNode]]:
        if node.kind == "tagged":
            return self.entries(node.items[0])
        if node.kind != "map":
            return {index: (None, item) for index, item in enumerate(node.items)}
        out: dict[str | int, tuple[EdnNode | None, EdnNode]] = {}
        for key, value in zip(node.items[::2], node.items[1::2], strict=False):
            text = key_text(self._text, key, node.namespace)
            if text is not None:
                out.setdefault(text, (key, value))
        return out


def read_edn(source: SourceText, limits: SizeLimits) -> EdnTree:
    """Return the value of the text: its form, or a list of its forms. Collects all problems in one pass."""
    top, faults = nest_tokens(source, limits)
    if top is None:
        return EdnTree(source, None, faults)
    if not top.items:
        return EdnTree(source, None, faults or (_empty(source),))
    conversion = _Conversion(source)
    root = top.items[0] if len(top.items) == 1 else top
    value = conversion.value(root)
    # A text with a bracket astray is another tree than its author meant: its values would only mislead.
    is_broken = any(fault.code in ("P0107", "P0108") for fault in faults)
    found = tuple(sort_diagnostics([*faults, *conversion.faults]))
    if is_broken:
        return EdnTree(source, None, faults)
    if value is None and not found:
        return EdnTree(source, None, (_empty(source),))
    return EdnTree(source, value, found, root)


def _empty(source: SourceText) -> Diagnostic:
    hint = "run `plan init` to create a plan"
    return Diagnostic("P0103", "the file is empty", hint, span=source.span(0, 0))


def key_text(text: str, node: EdnNode, namespace: str) -> str | None:
    """The key that `node` stands for in a map of this namespace; None when it cannot be one."""
    token = text[node.start : node.end]
    try:
        match node.kind:
            case "string":
                return tokens.string_value(token)
            case "character":
                return tokens.character_value(token)
            case "atom":
                return _atom_key(token, namespace)
    except tokens.BadAtom:
        pass
    return None


def _atom_key(token: str, namespace: str) -> str:
    if token[0] != ":":
        return token
    name = tokens.parse_keyword(token)
    if not namespace or ("/" in name and not name.startswith("_/")):
        return str(name)
    return name[2:] if name.startswith("_/") else f"{namespace}/{name}"


class _Conversion:
    """Nodes to plain values; recursion is bounded by the depth that nesting allowed."""

    def __init__(self, source: SourceText) -> None:
        self.faults: list[Diagnostic] = []
        self._source = source
        self._text = source.text
        self._atoms: dict[str, SourceValue] = {}

    def value(self, node: EdnNode) -> SourceValue:
        match node.kind:
            case "atom" | "string" | "character":
                return self._leaf(node)
            case "map":
                return self._map(node)
            case "list":
                return Form(tuple(self.value(item) for item in node.items))
            case "set":
                return self._set(node)
            case "tagged":
                return self._tagged(node)
            case _:
                return [self.value(item) for item in node.items]

    def _leaf(self, node: EdnNode) -> SourceValue:
        token = self._text[node.start : node.end]
        try:
            if node.kind == "string":
                return tokens.string_value(token)
            if node.kind == "character":
                return tokens.character_value(token)
            if token not in self._atoms:
                self._atoms[token] = tokens.atom_value(token)
            return self._atoms[token]
        except tokens.BadAtom as bad:
            start = node.start + bad.offset
            span = self._source.span(start, start + bad.length if bad.length else node.end)
            self.faults.append(Diagnostic("P0119", bad.summary, bad.hint, span=span))
        except OutOfRange:
            summary = f"`{token[:40]}` cannot be stored exactly as a number"
            self._fault("P0117", summary, "use 64-bit integers and finite fractions, or quote it if it is text", node)
        return None

    def _map(self, node: EdnNode) -> dict[str, SourceValue]:
        out: dict[str, SourceValue] = {}
        keys: dict[str, EdnNode] = {}
        is_sketch = len(node.items) == 1 and self._text[node.start : node.end].strip("{} \n") == "..."
        if len(node.items) % 2 and not is_sketch:  # `{...}` is how sketches say "a map, left out for now".
            shown = self._text[node.items[-1].start : node.items[-1].end].partition("\n")[0][:40]
            self._fault(
                "P0120",
                f"the key `{shown}` has no value",
                "add a value: a map is a sequence of keys and values",
                node.items[-1],
            )
        for key, value_node in zip(node.items[::2], node.items[1::2], strict=False):
            text = self._key(key, node.namespace)
            value = self.value(value_node)
            if text is None:
                continue
            if text in keys:
                self._twice(f"duplicate key `{text}`", keys[text], key, is_key=True)
            else:
                out[text], keys[text] = value, key
        return out

    def _key(self, node: EdnNode, namespace: str) -> str | None:
        text = key_text(self._text, node, namespace)
        if text is None:
            if node.kind in ("atom", "string", "character"):
                self._leaf(node)  # Says what is wrong with it.
            else:
                self._fault("P0110", f"a {node.kind} cannot be a key", "use a keyword or text", node)
        return text

    def _set(self, node: EdnNode) -> list[SourceValue]:
        seen: dict[str, EdnNode] = {}
        for item in node.items:
            written = self._text[item.start : item.end]
            if written in seen:
                self._twice(
                    f"duplicate value `{written.partition(chr(10))[0][:40]}` in a set",
                    seen[written],
                    item,
                    is_key=False,
                )
            seen.setdefault(written, item)
        return [self.value(item) for item in node.items]

    def _tagged(self, node: EdnNode) -> SourceValue:
        value = self.value(node.items[0])
        if node.tag not in ("inst", "uuid"):
            hint = "remove it: plans support only `#inst` and `#uuid`, as text"
            self._fault("P0115", f"unknown tag `#{node.tag}`", hint, node)
        elif not isinstance(value, str) or isinstance(value, Keyword):
            self._fault("P0115", f"`#{node.tag}` must be followed by text", f'write `#{node.tag} "…"`', node)
        return value

    def _twice(self, summary: str, first: EdnNode, second: EdnNode, *, is_key: bool) -> None:
        related = (Related("first one here", self._source.span(first.start, first.end)),)
        span = self._source.span(second.start, second.end)
        hint = "keep one of them"
        self.faults.append(Diagnostic("P0109", summary, hint, span=span, on_key=is_key, related=related))

    def _fault(self, code: str, summary: str, hint: str, node: EdnNode) -> None:
        line_end = self._text.find("\n", node.start, node.end)
        span = self._source.span(node.start, node.end if line_end < 0 else line_end)
        self.faults.append(Diagnostic(code, summary, hint, span=span))
