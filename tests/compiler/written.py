"""Plans as people write them: texts with comments, quotes, odd indentation, brackets, blank lines, for splicing tests.

Each generated line knows the path it belongs to, so that a test can say which lines an edit must leave alone. All
choices come from dice, not from Hypothesis' own draws: a file takes hundreds, which it would record and shrink for
minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from hypothesis import strategies as st

from planloop.compiler.edn import writer
from planloop.compiler.yaml import writer as yaml_writer
from tests.compiler.documents import TRICKY
from tests.product import Json, JsonObject, canonical_bytes

Where = tuple[str | int, ...]

KEYS = ("goal", "run", "needs", "a", "b", "ui", "x-1", "on", "6379", "long key", "quoted: key")
PLAIN = [text for text in TRICKY if text.isprintable() and text.strip() == text and "\n" not in text]
LONG = ["one\ntwo\n", "one\n\n  two\nthree", "a\n", "para\n\nmore text\nof it\n"]

T = TypeVar("T")


class Dice(Protocol):
    """What of `random.Random` is used here."""

    def choice(self, seq: Sequence[T], /) -> T: ...

    def randrange(self, stop: int, /) -> int: ...


dice = st.randoms(use_true_random=True)


def scalar(dice: Dice) -> Json:
    return dice.choice(
        [dice.choice(PLAIN), dice.choice(PLAIN), "npm test", "do the thing", 7, 10**6, -1, True, None, 0.5]
    )


def words(dice: Dice) -> Json:
    return [dice.choice([dice.choice(PLAIN), 5]) for _ in range(dice.randrange(5))]


def value(dice: Dice, depth: int = 0) -> Json:
    match dice.randrange(6 if depth < 3 else 3):
        case 0:
            return dice.choice(LONG)
        case 1:
            return words(dice)
        case 2:
            return scalar(dice)
        case 3:
            return [some_map(dice, depth + 1, 1) for _ in range(1 + dice.randrange(3))]
        case _:
            return some_map(dice, depth + 1, dice.randrange(2))


def some_map(dice: Dice, depth: int = 0, least: int = 2) -> JsonObject:
    keys = [dice.choice(KEYS) for _ in range(least + dice.randrange(4))]
    return {key: value(dice, depth) for key in keys} or {"goal": scalar(dice)}


@dataclass
class Written:
    """A text and, line by line, the path each line belongs to (None for blank lines and the file's own comments)."""

    lines: list[tuple[str, Where | None]] = field(default_factory=list)
    ends_in_block: bool = False

    def text(self, newline: str, *, ends: bool) -> str:
        """The whole text; `ends` with a line break, which a block text at the end always needs."""
        ends = ends or self.ends_in_block
        return newline.join(line for line, _ in self.lines) + (newline if ends else "")


class YamlWriter:
    """Writes a document with habits drawn from Hypothesis."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._count = 0
        self._anchors: dict[bytes, str] = {}
        self.out = Written()

    def write(self, document: JsonObject) -> Written:
        if self._chance(3):
            self._line("# yaml-language-server: $schema=./schema.json", None)
            self._line("", None)
        self._map(document, 0, (), "")
        if self._chance(4):
            self._line("", None)
            self._line("# the end", None)
        return self.out

    def _chance(self, one_in: int) -> bool:
        return self._dice.randrange(one_in) == 0

    def _line(self, text: str, where: Where | None) -> None:
        self.out.lines.append((text, where))
        self.out.ends_in_block = False

    def _note(self) -> str:
        self._count += 1
        return f'# note {self._count}: it\'s "odd" - [x], {{y}}'

    def _above(self, column: int, where: Where) -> None:
        if self._chance(6):
            self._line("", None)
        if self._chance(5):
            self._line(" " * column + self._note(), where)

    def _tail(self) -> str:
        return f"   {self._note()}" if self._chance(5) else ""

    def _map(self, value: JsonObject, column: int, where: Where, prefix: str) -> None:
        for key, each in value.items():
            here = (*where, key)
            if not prefix:
                self._above(column, here)
            start = prefix or " " * column
            prefix = ""
            self._value(start + self._key(key) + ":", each, column, here)

    def _key(self, key: str) -> str:
        style = self._dice.choice(["plain", "plain", "single", "double"])
        if style == "single":
            return "'" + key.replace("'", "''") + "'"
        return yaml_writer.write_key(key) if style == "plain" else yaml_writer.quote_double(key)

    def _value(self, start: str, value: Json, column: int, where: Where) -> None:
        if isinstance(value, dict) and value and not self._chance(4):
            self._line(start + self._tail(), where)
            self._map(value, column + 1 + self._dice.randrange(5), where, "")
        elif isinstance(value, list) and value and not self._chance(3):
            self._line(start + self._tail(), where)
            self._list(value, column + self._dice.choice([0, 2, 3]), where)
        elif isinstance(value, str) and "\n" in value and self._chance(2):
            self._block_text(start, value, column, where)
        else:
            gap = self._dice.choice([" ", " ", "   "])
            self._line(start + gap + self._shared(value) + self._tail(), where)

    def _block_text(self, start: str, value: str, column: int, where: Where) -> None:
        head, *rest = yaml_writer.write_literal(value, column + 1 + self._dice.randrange(4)) or [self._inline(value)]
        self._line(f"{start} {head}", where)
        for line in rest:
            self._line(line, where)
        self.out.ends_in_block = bool(rest)

    def _list(self, value: list[Json], column: int, where: Where) -> None:
        for index, each in enumerate(value):
            here = (*where, index)
            self._above(column, here)
            if isinstance(each, dict) and each and not self._chance(4):
                self._map(each, column + 2, here, " " * column + "- ")
            else:
                self._line(" " * column + "- " + self._shared(each) + self._tail(), here)

    def _shared(self, value: Json) -> str:
        """The value on one line, sometimes with an anchor, or as an alias of an equal one further up."""
        known = self._anchors.get(canonical_bytes(value))
        if known and self._chance(2):
            return f"*{known}"
        written = self._inline(value, in_flow=False)
        if known or not self._chance(12):
            return written
        name = self._anchors[canonical_bytes(value)] = f"a{len(self._anchors)}"
        return f"&{name} {written}"

    def _inline(self, value: Json, *, in_flow: bool = True) -> str:
        if isinstance(value, dict):
            comma = self._dice.choice([", ", ",", " ,  "])
            pad = self._dice.choice(["", " "])
            pairs = (f"{yaml_writer.quote_double(k)}: {self._inline(v)}" for k, v in value.items())
            return "{" + pad + comma.join(pairs) + pad + "}"
        if isinstance(value, list):
            return "[" + ", ".join(self._inline(item) for item in value) + "]"
        style = self._dice.choice([None, "'", '"'])
        return yaml_writer.write_scalar(value, style=style, in_flow=in_flow)


class EdnWriter:
    """The same for EDN."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._count = 0

    def write(self, document: JsonObject) -> str:
        head = ";; a plan\n\n" if self._chance(2) else ""
        return head + self._value(document, 0)

    def _chance(self, one_in: int) -> bool:
        return self._dice.randrange(one_in) == 0

    def _note(self) -> str:
        self._count += 1
        return f'; note {self._count}: it\'s "odd" [x {{y'

    def _value(self, value: Json, column: int) -> str:
        if not isinstance(value, (dict, list)) or not value or self._chance(4):
            return writer.write_inline(value)
        is_map = isinstance(value, dict)
        entries = list(value.items()) if isinstance(value, dict) else [("", each) for each in value]
        is_broken, out, noted = not self._chance(3), "", False
        for number, (key, each) in enumerate(entries):
            if number:
                out += self._break(column + 1) if is_broken or noted else self._dice.choice([" ", ", ", "  "])
            lead = f"{writer.write_key(key)} " if is_map else ""
            out += lead + self._value(each, column + 1 + len(lead))
            noted = is_broken and self._chance(5)
            out += f" {self._note()}" if noted else ""
        closer = "\n" + " " * column if noted else ""
        return ("{" if is_map else "[") + out + closer + ("}" if is_map else "]")

    def _break(self, column: int) -> str:
        above = f"\n{' ' * column}{self._note()}" if self._chance(5) else ""
        return ("\n" if self._chance(7) else "") + above + "\n" + " " * column


def edited(dice: Dice, document: JsonObject) -> JsonObject:
    """The document after a few changes like those that agents and people make."""
    for _ in range(1 + dice.randrange(3)):
        document = _edit(dice, document, is_root=True)
    return document


def _edit(dice: Dice, old: JsonObject, *, is_root: bool = False) -> JsonObject:
    what = dice.choice(["into", "into", "into", "replace", "remove", "add"])
    if what == "add" or not old:
        return {**old, dice.choice(["new", "cwd", "docs/x"]): value(dice)}
    key = dice.choice(list(old))
    if what == "remove" and (len(old) > 1 or not is_root):
        return {k: v for k, v in old.items() if k != key}
    inner = old[key]
    if what == "into" and isinstance(inner, dict):
        return {**old, key: _edit(dice, inner)}
    if what == "into" and isinstance(inner, list) and inner:
        return {**old, key: _edit_list(dice, inner)}
    return {**old, key: dice.choice([scalar(dice), words(dice), dice.choice(LONG), value(dice)])}


def _edit_list(dice: Dice, old: list[Json]) -> list[Json]:
    index = dice.randrange(len(old))
    match dice.randrange(4):
        case 0:
            return [*old[:index], value(dice), *old[index:]]
        case 1:
            return [*old, value(dice)]
        case 2:
            return [*old[:index], *old[index + 1 :]]
        case _:
            inner = old[index]
            changed = _edit(dice, inner) if isinstance(inner, dict) else scalar(dice)
            return [*old[:index], changed, *old[index + 1 :]]
