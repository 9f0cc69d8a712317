"""Splits an EDN text into tokens and nests them, on an explicit stack: depth costs no recursion.

Brackets, `#_` and tags are settled here, with their faults; what an atom means is `planloop.compiler.edn_atoms`.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from planloop.compiler.source import SizeLimits, Source
from planloop.schemas.diagnostic import Diagnostic, Related

Kind: TypeAlias = Literal["top", "map", "vector", "list", "set", "tagged", "discard", "atom", "string", "character"]

_TOKEN: Final = re.compile(
    r"""
    (?P<blank>   [\s,]++ | ;[^\n\r]*+ | \#![^\n\r]*+ )
  | (?P<string>  "[^"\\]*+(?:\\[\s\S][^"\\]*+)*+" )
  | (?P<runaway> "[\s\S]*+ )
  | (?P<open>    \#\{ | \#:[^\s,()\[\]{}";]++\{ | [(\[{] )
  | (?P<close>   [)\]}] )
  | (?P<character> \\(?:[^\s,()\[\]{}";]++|[\s\S]) )
  | (?P<discard> \#_ )
  | (?P<macro>   \#(?=[("'^=?]) | ['`~@^]++ )
  | (?P<tag>     \#[a-zA-Z][^\s,()\[\]{}";]*+ )
  | (?P<atom>    [^\s,()\[\]{}";]++ )
    """,
    re.VERBOSE,
)
_CLOSES: Final[dict[str, tuple[Kind, ...]]] = {")": ("list",), "]": ("vector",), "}": ("map", "set")}
_CLOSER: Final[dict[str, str]] = {"list": ")", "vector": "]", "map": "}", "set": "}"}
_MACROS: Final = {
    "'": "a quote",
    "`": "a syntax quote",
    "~": "an unquote",
    "@": "a deref",
    "^": "metadata",
    "#": "a reader macro",
}


class EdnNode:
    """A stretch of the text: a leaf, or a collection with its `items` (of a map: keys and values in turn)."""

    __slots__ = ("end", "items", "kind", "namespace", "start", "tag")

    def __init__(self, kind: Kind, start: int, end: int, *, tag: str = "", namespace: str = "") -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.items: list[EdnNode] = []
        self.tag = tag
        self.namespace = namespace


class _Stop(Exception):
    pass


def nest(source: Source, limits: SizeLimits) -> tuple[EdnNode | None, tuple[Diagnostic, ...]]:
    """A node whose items are the forms at the top of the text, and the faults of its brackets.

    None instead of the node when the text is over its limits, so that nothing of it is kept.
    """
    nesting = _Nesting(source, limits)
    try:
        top = nesting.run()
    except _Stop:
        return None, tuple(nesting.faults)
    return top, tuple(nesting.faults)


class _Nesting:
    def __init__(self, source: Source, limits: SizeLimits) -> None:
        self.faults: list[Diagnostic] = []
        self._source = source
        self._text = source.text
        self._limits = limits
        self._stack = [EdnNode("top", 0, len(source.text))]
        self._left = 2 * limits.nodes + 2  # Keys are nodes too, as in YAML.

    def run(self) -> EdnNode:
        for found in _TOKEN.finditer(self._text):
            match found.lastgroup:
                case "blank":
                    continue
                case "atom" | "string" | "character" as kind:
                    self._add(EdnNode(kind, found.start(), found.end()))
                case "open":
                    self._open(found)
                case "close":
                    self._close(found.start())
                case "discard":
                    self._push(EdnNode("discard", found.start(), found.end()))
                case "tag":
                    self._push(EdnNode("tagged", found.start(), found.end(), tag=found[0][1:]))
                case "runaway":
                    hint = 'end it with `"`; inside it a quote is written `\\"`'
                    self._fault(
                        "P0107", "the string that begins here is not closed", hint, found.start(), found.start() + 1
                    )
                case _:
                    name = _MACROS[found[0][0]]
                    hint = "a plan is data: write the value itself"
                    self._fault(
                        "P0119", f"`{found[0]}` is {name}, which is code, not data", hint, found.start(), found.end()
                    )
        return self._ended()

    def _open(self, found: re.Match[str]) -> None:
        token, start = found[0], found.start()
        kind: Kind = "list" if token == "(" else "vector" if token == "[" else "set" if token == "#{" else "map"
        namespace = token[2:-1] if token.startswith("#:") else ""
        if namespace.startswith(":"):
            self._fault(
                "P0119", f"`{token[:-1]}` needs a namespace to resolve in", "name the namespace", start, found.end() - 1
            )
        self._push(EdnNode(kind, start, found.end(), namespace=namespace))

    def _push(self, node: EdnNode) -> None:
        self._stack.append(node)
        if len(self._stack) > self._limits.depth + 1:
            self._fault(
                "P0111", f"nested more than {self._limits.depth} levels deep", "flatten the plan", node.start, node.end
            )
            raise _Stop
        self._count(node)

    def _count(self, node: EdnNode) -> None:
        self._left -= 1
        if self._left < 0:
            summary = f"the plan holds more than {self._limits.nodes:,} values"
            hint = "split the plan, or let agents add tasks as they are needed"
            self._fault("P0112", summary, hint, node.start, node.start)
            raise _Stop

    def _add(self, node: EdnNode) -> None:
        """Hands a finished value to what is open: a tag takes one and is finished itself, a discard drops it."""
        self._count(node)
        while self._stack[-1].kind == "tagged":
            tagged = self._stack.pop()
            tagged.items.append(node)
            tagged.end = node.end
            node = tagged
        if self._stack[-1].kind == "discard":
            self._stack.pop()
        else:
            self._stack[-1].items.append(node)

    def _close(self, at: int) -> None:
        self._drop_prefixes()
        closer = self._text[at]
        top = self._stack[-1]
        if top.kind not in _CLOSES[closer]:
            if not any(node.kind in _CLOSES[closer] for node in self._stack):
                self._fault(
                    "P0108", f"`{closer}` closes nothing", "delete it, or add the bracket that opens", at, at + 1
                )
                return
            self._close_forgotten(closer, at)
            top = self._stack[-1]
        self._stack.pop()
        top.end = at + 1
        self._add(top)

    def _close_forgotten(self, closer: str, at: int) -> None:
        while self._stack[-1].kind not in _CLOSES[closer]:
            self._drop_prefixes()
            top = self._stack[-1]
            if top.kind in _CLOSES[closer]:
                return
            self._unclosed(self._stack.pop(), (Related(f"this `{closer}` comes first", self._source.span(at, at + 1)),))

    def _drop_prefixes(self) -> None:
        while self._stack[-1].kind in ("discard", "tagged"):
            node = self._stack.pop()
            written = self._text[node.start : node.end]
            hint = f"write one after `{written}`, or delete it"
            self._fault("P0119", f"`{written}` stands before no value", hint, node.start, node.end)

    def _ended(self) -> EdnNode:
        self._drop_prefixes()
        while len(self._stack) > 1:
            self._unclosed(self._stack.pop(), ())
            self._drop_prefixes()
        return self._stack[0]

    def _unclosed(self, node: EdnNode, related: tuple[Related, ...]) -> None:
        opener = "#{" if node.kind == "set" else self._text[node.start : node.start + 1]
        summary = f"the `{opener}` that stands here is not closed"
        span = self._source.span(node.start, node.start + len(opener))
        hint = f"add the `{_CLOSER[node.kind]}`"
        self.faults.append(Diagnostic("P0107", summary, hint, span=span, related=related))

    def _fault(self, code: str, summary: str, hint: str, start: int, end: int) -> None:
        self.faults.append(Diagnostic(code, summary, hint, span=self._source.span(start, end)))
