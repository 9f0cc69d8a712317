"""Split EDN into tokens, nest them on an explicit stack, and parse single tokens."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from planloop.compiler.source import Keyword, SizeLimits, SourceText, SourceValue, Symbol
from planloop.compiler.yaml.scalars import OutOfRange, parse_integer, parse_real
from planloop.schemas.diagnostic import Diagnostic, Related

# What a single EDN token means: numbers, keywords, symbols, strings, characters.

_WORDS: Final[dict[str, SourceValue]] = {"nil": None, "true": True, "false": False}
_NUMBER_LIKE: Final = re.compile(r"[-+]?[0-9]")
_INTEGER: Final = re.compile(r"([-+]?(?:0|[1-9][0-9]*))N?")
_HEX: Final = re.compile(r"[-+]?0[xX][0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"([-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)M?")
_NAME: Final = re.compile(r"/|[\w.*+!\-?$%&=<>|:#']+(?:/[\w.*+!\-?$%&=<>|:#'/]+)?")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|[0-3]?[0-7]{1,2}|[\s\S])")
_ESCAPES: Final = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "b": "\b", "f": "\f"}
_CHARACTERS: Final = {
    "newline": "\n",
    "return": "\r",
    "space": " ",
    "tab": "\t",
    "formfeed": "\f",
    "backspace": "\b",
}


class BadAtom(ValueError):
    """The token is not EDN. `offset` counts from its start, `length` characters are wrong (0: all)."""

    def __init__(self, summary: str, hint: str, *, offset: int = 0, length: int = 0) -> None:
        super().__init__(summary)
        self.summary = summary
        self.hint = hint
        self.offset = offset
        self.length = length


def atom_value(token: str) -> SourceValue:
    """Return the value of a token other than a string or character. Raises BadAtom, OutOfRange."""
    if token in _WORDS:
        return _WORDS[token]
    if token[0] == ":":
        return parse_keyword(token)
    if _NUMBER_LIKE.match(token):
        return _number(token)
    if token[0] == "#":
        raise BadAtom("`#` is a reader macro; macros are code, not data", "a plan is data: write the value itself")
    _want_name(token, token)
    return Symbol(token)


def parse_keyword(token: str) -> Keyword:
    """The keyword in `token`, colon and all. Raises BadAtom."""
    if token.startswith("::"):
        raise BadAtom(f"`{token}` has no namespace to resolve it in", f"write `{token[1:]}`")
    _want_name(token[1:], token)
    return Keyword(token[1:])


def _want_name(name: str, token: str) -> None:
    if not name:
        raise BadAtom("the colon has no name after it", "write a keyword as `:name`")
    if not _NAME.fullmatch(name) or name.endswith(":") or name.count("/") > (1 if len(name) > 1 else 2):
        raise BadAtom(f"`{token}` is not a name in EDN", f'if it is text, quote it: `"{name}"`')


def _number(token: str) -> SourceValue:
    if found := _INTEGER.fullmatch(token):
        return parse_integer(found[1], 10)
    if _HEX.fullmatch(token):
        return parse_integer(token, 16)
    if found := _FLOAT.fullmatch(token):
        return parse_real(found[1])
    if re.fullmatch(r"[-+]?[0-9]+/[0-9]+", token):
        raise OutOfRange(token)
    hint = (
        f'drop the leading zeros, or quote it: `"{token}"`'
        if token.isdigit()
        else f'if it is text, quote it: `"{token}"`'
    )
    raise BadAtom(f"`{token}` is not a number", hint)


def string_value(token: str) -> str:
    """The text of a string token, quotes included. Raises BadAtom."""
    body = token[1:-1]
    if "\\" not in body:
        return body
    return _paired(_ESCAPE.sub(_unescaped, body))


def _unescaped(found: re.Match[str]) -> str:
    what = found[1]
    if what in _ESCAPES:
        return _ESCAPES[what]
    if len(what) == 5:
        return chr(int(what[1:], 16))
    if what[0] in "01234567":
        return chr(int(what, 8))
    summary = f"unknown escape `\\{what}` in a string"
    raise BadAtom(summary, f"for a backslash write `\\\\{what}`", offset=found.start() + 1, length=2)


def _paired(text: str) -> str:
    if not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise BadAtom("the string contains half of a surrogate pair", "write the character itself") from None


def character_value(token: str) -> str:
    """The character that a token like `\\a`, `\\newline` or `\\u0041` names. Raises BadAtom."""
    name = token[1:]
    if len(name) == 1:
        return name
    if name in _CHARACTERS:
        return _CHARACTERS[name]
    if re.fullmatch(r"u[0-9a-fA-F]{4}", name) and not "d800" <= name[1:].lower() <= "dfff":
        return chr(int(name[1:], 16))
    raise BadAtom(f"unknown character `{token}`", "write `\\a`, `\\newline` or `\\u0041`")


# Splits an EDN text into tokens and nests them, on an explicit stack: depth costs no recursion.
#
# Handles brackets, `#_` and tags, with their problems; what an atom means is `planloop.compiler.edn.tokens`.

EdnKind: TypeAlias = Literal["top", "map", "vector", "list", "set", "tagged", "discard", "atom", "string", "character"]

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
_CLOSES: Final[dict[str, tuple[EdnKind, ...]]] = {")": ("list",), "]": ("vector",), "}": ("map", "set")}
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

    def __init__(self, kind: EdnKind, start: int, end: int, *, tag: str = "", namespace: str = "") -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.items: list[EdnNode] = []
        self.tag = tag
        self.namespace = namespace


class _Stop(Exception):
    pass


def nest_tokens(source: SourceText, limits: SizeLimits) -> tuple[EdnNode | None, tuple[Diagnostic, ...]]:
    """A node whose items are the forms at the top of the text, and the problems of its brackets.

    None instead of the node when the text is over its limits, so that nothing of it is kept.
    """
    nesting = _Nesting(source, limits)
    try:
        top = nesting.run()
    except _Stop:
        return None, tuple(nesting.faults)
    return top, tuple(nesting.faults)


class _Nesting:
    def __init__(self, source: SourceText, limits: SizeLimits) -> None:
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
                    hint = 'end it with `"`; write a quote in it as `\\"`'
                    self._fault("P0107", "unclosed string", hint, found.start(), found.start() + 1)
                case _:
                    name = _MACROS[found[0][0]]
                    hint = "a plan is data: write the value itself"
                    self._fault(
                        "P0119", f"`{found[0]}` is {name}; macros are code, not data", hint, found.start(), found.end()
                    )
        return self._ended()

    def _open(self, found: re.Match[str]) -> None:
        token, start = found[0], found.start()
        kind: EdnKind = "list" if token == "(" else "vector" if token == "[" else "set" if token == "#{" else "map"
        namespace = token[2:-1] if token.startswith("#:") else ""
        if namespace.startswith(":"):
            self._fault(
                "P0119",
                f"`{token[:-1]}` has no namespace to resolve it in",
                "add the namespace",
                start,
                found.end() - 1,
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
            summary = f"the plan has more than {self._limits.nodes:,} values"
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
                self._fault("P0108", f"unmatched `{closer}`", "delete it, or add the opening bracket", at, at + 1)
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
            self._unclosed(
                self._stack.pop(), (Related(f"`{closer}` found before it is closed", self._source.span(at, at + 1)),)
            )

    def _drop_prefixes(self) -> None:
        while self._stack[-1].kind in ("discard", "tagged"):
            node = self._stack.pop()
            written = self._text[node.start : node.end]
            hint = f"add a value after `{written}`, or delete it"
            self._fault("P0119", f"`{written}` has no value after it", hint, node.start, node.end)

    def _ended(self) -> EdnNode:
        self._drop_prefixes()
        while len(self._stack) > 1:
            self._unclosed(self._stack.pop(), ())
            self._drop_prefixes()
        return self._stack[0]

    def _unclosed(self, node: EdnNode, related: tuple[Related, ...]) -> None:
        opener = "#{" if node.kind == "set" else self._text[node.start : node.start + 1]
        summary = f"unclosed `{opener}`"
        span = self._source.span(node.start, node.start + len(opener))
        hint = f"add `{_CLOSER[node.kind]}`"
        self.faults.append(Diagnostic("P0107", summary, hint, span=span, related=related))

    def _fault(self, code: str, summary: str, hint: str, start: int, end: int) -> None:
        self.faults.append(Diagnostic(code, summary, hint, span=self._source.span(start, end)))
