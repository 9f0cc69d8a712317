"""Split a shell line into commands and words as dash and bash both do. Pure, linear in the line.

What only a running shell knows is a sign in its word: `HOLE` is any text and may be several words, `ONE` is any text
within one word (an expansion in quotes), `NAMES` is any text without blanks (a glob). Where the two shells differ, or
the line is not one that they take, there is a command of which nothing is known. Substitutions, here documents that
the shell expands, and the commands in braces and parentheses are read too.

A parser of the whole grammar would say more than denials ask: which words may be a command, and which are certain.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from planloop.schemas import limits

HOLE: Final = "\0"
NAMES: Final = "\1"
ONE: Final = "\2"
SIGNS: Final = re.compile("[\0\1\2]")

_WORDS: Final = f"{NAMES}{HOLE}"

_PLAIN: Final = re.compile(r"[^\s\\'\"$`*?\[{}~<>;&|()#+@!\0-\2]+")
_IN_QUOTES: Final = re.compile(r"[^\\\"$`\0-\2]+")
_REDIRECTION: Final = re.compile(r"&>>?|<<<|<<-?|<>|<&|>>|>\||>&|<|>")
_DESCRIPTOR: Final = re.compile(r"[0-9]+(?=[<>])")
_NAME: Final = re.compile(r"\w+|[@*#?$!-]")
_ENDS_WORD: Final = frozenset(" \t\n;&|()<>")
_ARITHMETIC: Final = re.compile(r"\(\([^()`;&|\n]*\)\)")
_EMPTY: Final = re.compile(r"\([ \t]*\)")


def split_commands(line: str, depth: int = 0) -> list[list[str]]:
    """Each simple command of `line` as its words, without quotes and redirections. Assignments are words, too."""
    if depth > limits.SHELL_DEPTH_MAX:
        return [[HOLE]]
    reader = _Reader(line, depth)
    reader.read("")
    return reader.found


class _Reader:
    def __init__(self, text: str, depth: int) -> None:
        self.found: list[list[str]] = []
        self._text = text
        self._at = 0
        self._depth = depth
        self._words: list[str] = []
        self._documents: list[tuple[str, bool]] = []  # Their last lines, and whether the shell leaves them as they are.
        self._parts: list[str] = []
        self._shapes: dict[str, Callable[[], None]] = {
            "\\": self._escape,
            "'": self._single,
            '"': self._double,
            "$": self._dollar,
            "`": self._backticks,
            "*": self._glob,
            "?": self._glob,
            "[": self._bracket,
            "{": self._brace,
            "~": self._tilde,
        }

    def read(self, end: str) -> None:
        """Reads commands up to `end`: a closing parenthesis, or nothing for the whole text."""
        while (sign := self._sign()) and not (sign == ")" == end):
            if sign in " \t":
                self._at += 1
            elif self._text.startswith("\\\n", self._at):
                self._at += 2
            elif sign in "<>" or self._text.startswith("&>", self._at):
                self._redirection()
            elif sign in ";&|()\n":
                self._operator(sign)
            elif sign == "#":
                line_end = self._text.find("\n", self._at)
                self._at = len(self._text) if line_end < 0 else line_end
            else:
                self._next_word()
        self._finish()
        self._at += 1
        if end and not sign:
            self._unsure()

    def _sign(self) -> str:
        return self._text[self._at : self._at + 1]

    def _unsure(self) -> None:
        self.found.append([HOLE])

    def _finish(self) -> None:
        if self._words:
            self.found.append(self._words)
            self._words = []

    def _operator(self, sign: str) -> None:
        self._finish()
        self._at += 1
        if sign == "(":
            self._nested(")")
        elif sign == "\n":
            for last, is_plain in self._documents:
                self._document(last, is_plain=is_plain)
            self._documents.clear()

    def _nested(self, end: str) -> None:
        """Reads a list of commands in the middle of another command."""
        kept = self._words, self._parts, self._depth, self._documents
        self._words, self._parts, self._depth, self._documents = [], [], self._depth + 1, []
        if self._depth > limits.SHELL_DEPTH_MAX:
            self._unsure()
            self._at = len(self._text)
        else:
            self.read(end)
        self._words, self._parts, self._depth, self._documents = kept

    def _next_word(self) -> None:
        found = _DESCRIPTOR.match(self._text, self._at)
        if found:
            self._at = found.end()
            return
        start = self._at
        word = self._word()
        if word in ("{", "}") and self._text[start : self._at] == word:
            self._finish()
        else:
            self._words.append(word)

    def _word(self) -> str:
        """The word that begins here; empty where none does."""
        parts: list[str] = []
        self._parts = parts
        while sign := self._sign():
            if sign in _ENDS_WORD:
                if not self._is_extended_glob(sign):
                    break
                self._at += 1
                parts[-1] = HOLE
                self._nested(")")
                continue
            shape = self._shapes.get(sign)
            if shape is not None:
                shape()
                continue
            plain = _PLAIN.match(self._text, self._at)
            parts.append(plain[0] if plain else HOLE if SIGNS.match(sign) else sign)
            self._at = plain.end() if plain else self._at + 1
        return "".join(parts)

    def _is_extended_glob(self, sign: str) -> bool:
        if sign != "(" or not self._parts or self._parts[-1] not in ("@", "!", "+", NAMES):
            return False
        return _EMPTY.match(self._text, self._at) is None

    def _escape(self) -> None:
        if not self._text.startswith("\\\n", self._at):
            self._parts.append(self._text[self._at + 1 : self._at + 2])
        self._at += 2

    def _single(self) -> None:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            self._unsure()
            end = len(self._text)
        self._parts.append(SIGNS.sub(ONE, self._text[self._at + 1 : end]))
        self._at = end + 1

    def _double(self) -> None:
        self._at += 1
        self._quoted('"')
        if self._sign() != '"':
            self._unsure()
        self._at += 1

    def _quoted(self, end: str) -> None:
        """Reads what stands in double quotes, or in a here document, up to the sign `end`."""
        start = len(self._parts)
        while (sign := self._sign()) and sign != end:
            if sign == "\\":
                following = self._text[self._at + 1 : self._at + 2]
                self._parts.append({"\n": ""}.get(following, following if following in '$`"\\' else f"\\{following}"))
                self._at += 2
            elif sign in "$`":
                self._shapes[sign]()
            else:
                plain = _IN_QUOTES.match(self._text, self._at)
                self._parts.append(plain[0] if plain else sign)
                self._at = plain.end() if plain else self._at + 1
        # In quotes an expansion stays one word, but for `"$@"` and arrays.
        self._parts[start:] = [ONE if part == HOLE else part for part in self._parts[start:]]

    def _dollar(self) -> None:
        start = self._at
        self._at += 1
        following = self._sign()
        if following == "(":
            arithmetic = _ARITHMETIC.match(self._text, self._at, self._at + limits.SHELL_ARITHMETIC_CHARS)
            self._at = arithmetic.end() if arithmetic else self._at + 1
            if not arithmetic:
                self._nested(")")
        elif following == "{":
            self._at += 1
            self._parameter()
        elif following == "'":
            end = self._text.find("'", self._at + 1)
            if end < 0 or "\\" in self._text[self._at : end]:
                self._unsure()  # Dash and bash disagree where it ends.
        elif name := _NAME.match(self._text, self._at):
            self._at = name.end()
        elif following not in ('"', "["):
            self._parts.append("$")
            return
        read = self._text[start : self._at]
        self._parts.append(_WORDS if read == "$@" or ("@" in read and following == "{") else HOLE)

    def _parameter(self) -> None:
        """Reads the rest of `${…`, in which there may be substitutions."""
        kept, self._parts = self._parts, []
        self._depth += 1
        if self._depth > limits.SHELL_DEPTH_MAX:
            self._at = len(self._text)
        while (sign := self._sign()) and sign != "}":
            if sign in '\\"$`':
                self._shapes[sign]()
            else:
                self._at += 1
        if not sign:
            self._unsure()
        self._at += 1
        self._depth -= 1
        self._parts = kept

    def _backticks(self) -> None:
        end = self._at + 1
        while end < len(self._text) and self._text[end] != "`":
            end += 2 if self._text[end] == "\\" else 1
        if end >= len(self._text):
            self._unsure()
        inner = re.sub(r"\\([\\`$\"])", r"\1", self._text[self._at + 1 : end])
        self.found += split_commands(inner, self._depth + 1)
        self._parts.append(HOLE)
        self._at = end + 1

    def _glob(self) -> None:
        self._parts.append(NAMES)
        self._at += 1

    def _bracket(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        is_test = not "".join(self._parts).strip("[") and (not following or following in _ENDS_WORD or following == "[")
        self._parts.append("[" if is_test else _WORDS)
        self._at += 1

    def _brace(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        is_reserved = not self._parts and (not following or following in _ENDS_WORD)
        self._parts.append("{" if is_reserved or following == "}" else HOLE)
        self._at += 1

    def _tilde(self) -> None:
        self._parts.append("~" if self._parts else NAMES)
        self._at += 1

    def _redirection(self) -> None:
        if self._text[self._at + 1 : self._at + 2] == "(":  # A process substitution is the name of a pipe.
            self._words.append(NAMES)
            self._at += 2
            self._nested(")")
            return
        found = _REDIRECTION.match(self._text, self._at)
        assert found is not None, "the sign here begins one"
        self._at = found.end()
        while self._sign() in (" ", "\t") or self._text.startswith("\\\n", self._at):
            self._at += 1 if self._sign() != "\\" else 2
        start = self._at
        words, self._words = self._words, []
        target = self._word()
        self._words = words
        if found[0] in ("<<", "<<-"):
            is_plain = any(sign in self._text[start : self._at] for sign in "\\'\"")
            self._documents.append((target, is_plain))

    def _document(self, last: str, *, is_plain: bool) -> None:
        """Reads a here document up to the line `last`."""
        start = self._at
        while self._at < len(self._text):
            line_end = self._text.find("\n", self._at)
            line_end = len(self._text) if line_end < 0 else line_end
            line, begin = self._text[self._at : line_end], self._at
            self._at = line_end + 1
            if line == last or line.lstrip("\t") == last:
                break
        else:
            begin = len(self._text)
        if is_plain:
            return
        body = _Reader(self._text[start:begin], self._depth + 1)
        if body._depth > limits.SHELL_DEPTH_MAX:
            self._unsure()
            return
        body._quoted("")
        self.found += body.found
