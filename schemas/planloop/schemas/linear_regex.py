"""Regular expressions in linear time: a search costs at most pattern length times text length.

Plans and agents write patterns that the owner runs between two of its steps, so nothing here backtracks: all ways
through the pattern are followed at once, and what was worked out for one character is kept for the next. In return
there are no back references and no looking around. `^` and `$` are the ends of lines. Globs are in `patterns.py`.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import field
from functools import lru_cache
from typing import Final, TypeAlias, TypeVar

from planloop.schemas import limits
from planloop.schemas.frozen import frozen, mutable

K = TypeVar("K")
V = TypeVar("V")

_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_COUNTED: Final = re.compile(r"\{(\d{1,4})(,(\d{0,4}))?\}")
_CLASS: Final = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)
_EDGES: Final = {"^": 1, "$": 2, "b": 4, "B": 8}


class UnsupportedRegex(ValueError):
    """The pattern is malformed or uses an unsupported construct, which the message names."""


@frozen
class RegexStep:
    """One place of a pattern: takes a character, or stands at an edge (a bit of `_EDGES`), or just goes on to `to`."""

    takes: re.Pattern[str] | None = None
    edge: int = 0
    to: tuple[int, ...] = ()


Places: TypeAlias = frozenset[int]


@mutable
class LinearRegex:
    """A pattern made ready: place 0 is its end. What a search learns is kept, bounded, for the next."""

    steps: tuple[RegexStep, ...]
    start: int
    _closed: dict[tuple[Places, int], tuple[Places, bool]] = field(default_factory=dict)
    _moved: dict[tuple[Places, str], Places] = field(default_factory=dict)

    def found_in(self, text: str) -> bool:
        """Whether some stretch of `text` matches."""
        first = frozenset({self.start})
        at, before, has_edges = first, "", any(step.edge for step in self.steps)
        for char in (*text, ""):
            places, is_over = self._closure(at, _edges(before, char) if has_edges else 0)
            if is_over:
                return True
            at = self._move(places, char) | first
            before = char
        return False

    def _closure(self, at: Places, edges: int) -> tuple[Places, bool]:
        known = self._closed.get((at, edges))
        if known is not None:
            return known
        seen, waiting = set(at), list(at)
        while waiting:
            step = self.steps[waiting.pop()]
            if step.takes is None and step.edge & edges == step.edge:
                fresh = [place for place in step.to if place not in seen]
                seen.update(fresh)
                waiting += fresh
        found = frozenset(place for place in seen if self.steps[place].takes is not None)
        return _kept(self._closed, (at, edges), (found, 0 in seen))

    def _move(self, places: Places, char: str) -> Places:
        known = self._moved.get((places, char))
        if known is not None:
            return known
        fitting = (self.steps[place] for place in places)
        found = frozenset(to for step in fitting if step.takes is not None and step.takes.match(char) for to in step.to)
        return _kept(self._moved, (places, char), found)


def _kept(kept: dict[K, V], key: K, value: V) -> V:
    if len(kept) >= limits.RULE_PATTERN_KEPT_MAX:
        kept.clear()
    kept[key] = value
    return value


def _edges(before: str, after: str) -> int:
    """Which edges there are between two characters; an empty one is an end of the text."""
    is_start, is_end = before in ("", "\n"), after in ("", "\n")
    is_bounded = _is_word(before) is not _is_word(after)
    return is_start * _EDGES["^"] | is_end * _EDGES["$"] | (_EDGES["b"] if is_bounded else _EDGES["B"])


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


@lru_cache(maxsize=256)
def compile_linear_regex(pattern: str) -> LinearRegex:
    """`pattern` made ready. Raises UnsupportedRegex."""
    if len(pattern) > limits.RULE_PATTERN_CHARS_MAX:
        raise UnsupportedRegex(f"it is longer than {limits.RULE_PATTERN_CHARS_MAX} characters")
    reader = _Reader(pattern)
    tree = reader.alternatives(0)
    if reader.at < len(pattern):
        raise UnsupportedRegex(f"`)` at character {reader.at + 1} closes nothing")
    builder = _Builder()
    start = builder.build(tree, 0)
    return LinearRegex(tuple(builder.steps), start)


@frozen
class _Char:
    takes: re.Pattern[str]


@frozen
class _Edge:
    bit: int


@frozen
class _Row:
    parts: tuple[_Node, ...]


@frozen
class _Either:
    ways: tuple[_Node, ...]


@frozen
class _Repeat:
    """`most` None: without end."""

    part: _Node
    least: int
    most: int | None


_Node: TypeAlias = _Char | _Edge | _Row | _Either | _Repeat


class _Reader:
    """Reads a pattern from left to right; `at` is the character that comes next."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._flags = re.IGNORECASE if pattern.startswith("(?i)") else re.RegexFlag(0)
        self.at = 4 if pattern.startswith("(?i)") else 0

    def alternatives(self, depth: int) -> _Node:
        if depth > limits.PLAN_DEPTH_MAX:
            raise UnsupportedRegex("its brackets are nested too deeply")
        ways = [self._row(depth)]
        while self._take("|"):
            ways.append(self._row(depth))
        return ways[0] if len(ways) == 1 else _Either(tuple(ways))

    def _row(self, depth: int) -> _Node:
        parts: list[_Node] = []
        while self.at < len(self._text) and self._text[self.at] not in "|)":
            parts.append(self._repeated(self._one(depth)))
        return _Row(tuple(parts))

    def _repeated(self, part: _Node) -> _Node:
        while bounds := self._bounds():
            if isinstance(part, _Edge):
                raise UnsupportedRegex(f"nothing to repeat before character {self.at}")
            part = _Repeat(part, *bounds)
            self._take("?")  # A lazy star finds what a greedy one finds.
        return part

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        counted = _COUNTED.match(self._text, self.at)
        if counted is None:
            return None
        self.at = counted.end()
        least = int(counted[1])
        most = least if counted[2] is None else int(counted[3]) if counted[3] else None
        if most is not None and most < least:
            raise UnsupportedRegex(f"`{counted[0]}` has its bounds the wrong way round")
        return least, most

    def _one(self, depth: int) -> _Node:
        char = self._text[self.at]
        match char:
            case "(":
                return self._group(depth)
            case "[":
                return self._set()
            case "\\":
                return self._escaped()
            case "^" | "$":
                self.at += 1
                return _Edge(_EDGES[char])
            case "*" | "+" | "?":
                raise UnsupportedRegex(f"nothing to repeat before `{char}` at character {self.at + 1}")
            case ".":
                self.at += 1
                return self._char(".")
            case _:
                self.at += 1
                return self._char(re.escape(char))

    def _group(self, depth: int) -> _Node:
        self.at += 1
        if self._text.startswith("?", self.at) and not self._take("?:"):
            raise UnsupportedRegex(
                f"`({self._text[self.at : self.at + 2]}` is not supported: write groups as `(…)` or `(?:…)`"
            )
        found = self.alternatives(depth + 1)
        if not self._take(")"):
            raise UnsupportedRegex("a `(` is not closed")
        return found

    def _set(self) -> _Node:
        found = _CLASS.match(self._text, self.at)
        if found is None:
            raise UnsupportedRegex("a `[` is not closed")
        self.at = found.end()
        return self._char(found[0])

    def _escaped(self) -> _Node:
        sign = self._text[self.at + 1 : self.at + 2]
        self.at += 2
        if sign in ("b", "B"):
            return _Edge(_EDGES[sign])
        if sign in _CONTROLS:
            return self._char(re.escape(_CONTROLS[sign]))
        if sign and (sign in "dDwWsS" or not sign.isalnum()):
            return self._char(f"\\{sign}")
        raise UnsupportedRegex(f"`\\{sign}` is not supported")

    def _char(self, pattern: str) -> _Node:
        try:
            with warnings.catch_warnings(action="ignore"):  # `[[a]` is a plain set here, as in Python.
                return _Char(re.compile(pattern, self._flags))
        except re.error as error:
            raise UnsupportedRegex(f"`{pattern}`: {error}") from None

    def _take(self, sign: str) -> bool:
        is_there = self._text.startswith(sign, self.at)
        self.at += len(sign) * is_there
        return is_there


class _Builder:
    """Makes the steps of a pattern from its end to its start, each knowing where it goes on."""

    def __init__(self) -> None:
        self.steps: list[RegexStep] = [RegexStep()]
        self._left = 8 * limits.RULE_PATTERN_STEPS_MAX

    def build(self, node: _Node, to: int) -> int:
        """The place at which `node` begins when what comes after it begins at `to`."""
        self._left -= 1
        if self._left < 0:
            raise UnsupportedRegex("it says too much by repeating: shorten it")
        match node:
            case _Char(takes=takes):
                return self._put(RegexStep(takes, to=(to,)))
            case _Edge(bit=bit):
                return self._put(RegexStep(edge=bit, to=(to,)))
            case _Row(parts=parts):
                for part in reversed(parts):
                    to = self.build(part, to)
                return to
            case _Either(ways=ways):
                return self._put(RegexStep(to=tuple(self.build(way, to) for way in ways)))
            case _Repeat():
                return self._repeat(node, to)

    def _repeat(self, node: _Repeat, to: int) -> int:
        if node.most is None:
            place = self._put(RegexStep())
            self.steps[place] = RegexStep(to=(self.build(node.part, place), to))
        else:
            place = to
            for _ in range(node.most - node.least):
                place = self._put(RegexStep(to=(self.build(node.part, place), to)))
        for _ in range(node.least):
            place = self.build(node.part, place)
        return place

    def _put(self, step: RegexStep) -> int:
        if len(self.steps) >= limits.RULE_PATTERN_STEPS_MAX:
            raise UnsupportedRegex(f"it takes more than {limits.RULE_PATTERN_STEPS_MAX} steps: shorten it")
        self.steps.append(step)
        return len(self.steps) - 1
