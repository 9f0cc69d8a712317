"""Reads how a web check calls what it is about: the meanings of a lexicon, and the targets and texts of its steps."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType
from typing import Final

from planloop.schemas import limits
from planloop.schemas.encoding import Json, encode_text
from planloop.schemas.fault_at import FaultAt, Place
from planloop.schemas.web import Cell, Meaning, Seen, Target, Way, Words
from planloop.schemas.web import Place as Where
from planloop.schemas.web_lexicon import SHIPPED

_CELL: Final = re.compile(r"([A-Za-z][\w-]*)\[\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\]")
_HYPHENED: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")
_PARTS: Final = ("role", "name", "type", "autocomplete", "text", "place", "key", "or")
_NEAR: Final = 0.85


class Meanings:
    """The names that one check knows. What is wrong with what it reads is added to `faults`."""

    def __init__(self, faults: list[FaultAt], lexicon: Mapping[str, Meaning]) -> None:
        self.faults = faults
        self.lexicon = dict(lexicon)
        self.boards: dict[str, tuple[int, int]] = {}

    def add(self, own: Json) -> None:
        """Takes in names of the check's own, of which a place may be beside any other."""
        if not isinstance(own, dict):
            self.tell(("lexicon",), "P0202", f"`lexicon` is a map, not {shown(own)}", "as in `{roll: {role: button}}`")
            return
        self.lexicon.update(dict.fromkeys(own, ()))
        self.lexicon.update({name: self.meaning(raw, ("lexicon", name)) for name, raw in own.items()})

    def tell(self, at: Place, code: str, summary: str, hint: str, *, is_key: bool = False) -> None:
        """Notes a fault."""
        self.faults.append(FaultAt(at, code, summary, hint, is_key))

    def meaning(self, raw: Json, at: Place) -> Meaning:
        """The ways of `{role: …, name: …, or: …}`, in order."""
        if not isinstance(raw, dict):
            self.tell(at, "P0202", f"a meaning is a map, not {shown(raw)}", "as in `{role: button, name: /roll/}`")
            return ()
        for name in raw:
            if name not in _PARTS:
                self.faults.append(unknown(name, _PARTS, (*at, name), "a meaning"))
        if raw.keys() <= {"or", "place"}:
            self.tell(at, "P0210", "a meaning that says nothing", "as in `{role: button, name: /roll/}`")
        if "key" in raw and len(raw.keys() - {"or"}) > 1:
            self.tell((*at, "key"), "P0211", "`key` beside others", "put it under `or: {key: Enter}`", is_key=True)
        others = raw.get("or", [])
        several = others if isinstance(others, list) else [others]
        places = [(*at, "or", str(index)) if isinstance(others, list) else (*at, "or") for index in range(len(several))]
        rest = (way for one, place in zip(several, places, strict=True) for way in self.meaning(one, place))
        return (self._way(raw, at), *rest)

    def _way(self, raw: dict[str, Json], at: Place) -> Way:
        return Way(
            roles=self.texts(raw.get("role", ()), (*at, "role")),
            name=self.words(raw["name"], (*at, "name")) if "name" in raw else None,
            types=self.texts(raw.get("type", ()), (*at, "type")),
            autocomplete=self.texts(raw.get("autocomplete", ()), (*at, "autocomplete")),
            text=self.words(raw["text"], (*at, "text")) if "text" in raw else None,
            place=self._place(raw["place"], (*at, "place")) if "place" in raw else None,
            key=self.text(raw.get("key", ""), (*at, "key")),
        )

    def _place(self, raw: Json, at: Place) -> Where | None:
        match raw:
            case "only" | "first" | "last":
                return Where(raw)
            case {"before": str(of), **rest} if not rest:
                return self._beside("before", of, (*at, "before"))
            case {"after": str(of), **rest} if not rest:
                return self._beside("after", of, (*at, "after"))
        hint = "`only`, `first`, `last`, `{before: name}` or `{after: name}`"
        self.tell(at, "P0202", f"{shown(raw)} is no place", hint)
        return None

    def _beside(self, kind: str, of: str, at: Place) -> Where | None:
        if of not in self.lexicon:
            self.faults.append(self._no_target(of, at))
            return None
        return Where("before" if kind == "before" else "after", of)

    def text(self, raw: Json, at: Place) -> str:
        """A text, which may have been written as a number."""
        if isinstance(raw, str) or is_number(raw):
            return raw if isinstance(raw, str) else encode_text(raw)
        self.tell(at, "P0202", f"`{at[-1]}` is a text, not {shown(raw)}", "put it in quotes")
        return ""

    def texts(self, raw: Json, at: Place) -> tuple[str, ...]:
        """A text or several."""
        if isinstance(raw, list | tuple):
            return tuple(self.text(one, (*at, str(index))) for index, one in enumerate(raw))
        return (self.text(raw, at),)

    def words(self, raw: Json, at: Place) -> Words | None:
        """A text or a pattern."""
        text = self.text(raw, at)
        if not text:
            self.tell(at, "P0210", f"`{at[-1]}` is empty", "say what to look for")
            return None
        if not is_pattern(text):
            return Words(text)
        pattern = text[1:-1]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                re.compile(pattern)
        except re.error as error:
            self.tell(at, "P0223", f"`{pattern}` is no regular expression: {error}", "signs that are meant: `\\(`")
            return None
        return Words(pattern, is_pattern=True)

    def target(self, raw: Json, at: Place) -> Target | None:
        """What a step is about: a name, a cell, a pattern of a name, or a meaning in place."""
        if isinstance(raw, dict):
            meaning = self.meaning(raw, at)
            return Target(encode_text(raw), meaning) if meaning else None
        if not isinstance(raw, str):
            self.tell(at, "P0202", f"a target is a name, not {shown(raw)}", "as in `press: send-button`")
            return None
        if raw in self.lexicon:
            return Target(raw, self.lexicon[raw])
        cell = _CELL.fullmatch(raw)
        if cell is not None:
            return self._cell(cell, raw, at)
        if is_pattern(raw):
            words = self.words(raw, at)
            return Target(raw, (Way(name=words),)) if words else None
        self.faults.append(self._no_target(raw, at))
        return None

    def _no_target(self, name: str, at: Place) -> FaultAt:
        near = get_close_matches(name, self.lexicon, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "add it under `lexicon`, or write the words on it: `/words/`"
        return FaultAt(at, "P0213", f"the lexicon has no {shown(name)}", hint, is_key=at[-1:] == (name,))

    def _cell(self, found: re.Match[str], raw: str, at: Place) -> Target | None:
        board, row, column = found[1], int(found[2]), int(found[3])
        size = self.boards.get(board)
        if size is None:
            hint = f"find it first: `grid: {{rows: 3, cols: 3, as: {board}}}`"
            self.tell(at, "P0213", f"there is no grid `{board}` here", hint, is_key=at[-1:] == (raw,))
            return None
        if not (1 <= row <= size[0] and 1 <= column <= size[1]):
            hint = f"rows are 1 to {size[0]}, columns 1 to {size[1]}"
            self.tell(at, "P0212", f"grid `{board}` has no cell {row},{column}", hint, is_key=at[-1:] == (raw,))
            return None
        return Target(raw, cell=Cell(board, row, column))

    def seen(self, raw: Json, at: Place) -> Seen | None:
        """What may be visible: a target, or a text or pattern."""
        if isinstance(raw, dict) and raw.keys() == {"text"}:
            return self.words(raw["text"], (*at, "text"))
        if isinstance(raw, dict) or raw in self.lexicon or (isinstance(raw, str) and _CELL.fullmatch(raw)):
            return self.target(raw, at)
        near = get_close_matches(str(raw), self.lexicon, n=1, cutoff=_NEAR)
        if near or (isinstance(raw, str) and _HYPHENED.fullmatch(raw)):
            fault = self._no_target(str(raw), at)
            hint = f"{fault.hint}; a text is written `{{text: {raw}}}`"
            self.faults.append(FaultAt(at, fault.code, fault.summary, hint, fault.is_key))
            return None
        return self.words(raw, at)


@cache
def shipped() -> Mapping[str, Meaning]:
    """The names that every check knows, read."""
    faults: list[FaultAt] = []
    reading = Meanings(faults, dict.fromkeys(SHIPPED, ()))
    found = {name: reading.meaning(raw, (name,)) for name, raw in SHIPPED.items()}
    assert not faults, faults
    return MappingProxyType(found)


def is_pattern(text: str) -> bool:
    """Whether it stands between slashes."""
    return len(text) > 2 and text[0] == text[-1] == "/"


def is_number(value: Json) -> bool:
    """Whether it is a number, which a truth value is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(value: Json) -> str:
    """A value as it is quoted in a sentence."""
    if value is None or value == "":
        return "nothing" if value is None else "an empty text"
    text = value if isinstance(value, str) else encode_text(value)
    return f"`{text[: limits.VALUE_SHOWN_CHARS]}`"


def listed(names: Iterable[str]) -> str:
    """Names as they stand in a sentence."""
    return ", ".join(f"`{name}`" for name in names)


def unknown(name: str, known: Iterable[str], at: Place, what: str) -> FaultAt:
    """The fault of a name that `what` does not have."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"there are {listed(names)}"
    return FaultAt(at, "P0201", f"{what} has no `{name}`", hint, is_key=at[-1:] == (name,))
