"""What a single EDN token means: numbers, keywords, symbols, strings, characters."""

from __future__ import annotations

import re
from typing import Final

from planloop.compiler.syntax import Keyword, SourceValue, Symbol
from planloop.compiler.yaml_scalars import OutOfRange, integer, real

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
    """The token is no EDN. `offset` counts from the token's start, `length` characters are at fault (0: all)."""

    def __init__(self, summary: str, hint: str, *, offset: int = 0, length: int = 0) -> None:
        super().__init__(summary)
        self.summary = summary
        self.hint = hint
        self.offset = offset
        self.length = length


def atom_value(token: str) -> SourceValue:
    """The value of a token that is no string and no character. Raises BadAtom, OutOfRange."""
    if token in _WORDS:
        return _WORDS[token]
    if token[0] == ":":
        return keyword(token)
    if _NUMBER_LIKE.match(token):
        return _number(token)
    if token[0] == "#":
        raise BadAtom("`#` is a reader macro, which is code, not data", "a plan is data: write the value itself")
    _want_name(token, token)
    return Symbol(token)


def keyword(token: str) -> Keyword:
    """The keyword in `token`, colon and all. Raises BadAtom."""
    if token.startswith("::"):
        raise BadAtom(f"`{token}` needs a namespace to resolve in", f"write `{token[1:]}`")
    _want_name(token[1:], token)
    return Keyword(token[1:])


def _want_name(name: str, token: str) -> None:
    if not name:
        raise BadAtom("a colon without a name", "a keyword is `:name`")
    if not _NAME.fullmatch(name) or name.endswith(":") or name.count("/") > (1 if len(name) > 1 else 2):
        raise BadAtom(f"`{token}` is not a name in EDN", f'if it is text, quote it: `"{name}"`')


def _number(token: str) -> SourceValue:
    if found := _INTEGER.fullmatch(token):
        return integer(found[1], 10)
    if _HEX.fullmatch(token):
        return integer(token, 16)
    if found := _FLOAT.fullmatch(token):
        return real(found[1])
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
        raise BadAtom("half of a surrogate pair in a string", "write the character itself") from None


def character_value(token: str) -> str:
    """The character that a token like `\\a`, `\\newline` or `\\u0041` names. Raises BadAtom."""
    name = token[1:]
    if len(name) == 1:
        return name
    if name in _CHARACTERS:
        return _CHARACTERS[name]
    if re.fullmatch(r"u[0-9a-fA-F]{4}", name) and not "d800" <= name[1:].lower() <= "dfff":
        return chr(int(name[1:], 16))
    raise BadAtom(f"unknown character `{token}`", "as in `\\a`, `\\newline` or `\\u0041`")
