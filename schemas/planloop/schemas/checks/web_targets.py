"""Names of page elements: the built-in lexicon, and parsing of the targets and texts of web steps."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType
from typing import Final

from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, encode_text
from planloop.schemas.checks.web_check import CellTarget, ElementQuery, Meaning, Seen, TextPattern, WebTarget
from planloop.schemas.checks.web_check import RelativePlace as Where
from planloop.schemas.diagnostic import ValuePath, ValueProblem
from planloop.schemas.predicates import is_number

# The names of targets that every web check knows, as a check writes them: data, to which a suite adds its own.
#
# Each is what people call such a thing; a pattern asks for the words that stand on it, whatever it is made of.

_FIELD: Final = ["textbox", "searchbox", "combobox"]
_BUTTON: Final = ["button", "link", "menuitem", "tab"]
_ENTER: Final = {"key": "Enter"}
# Links that help with logging in ("Can't log in?", "No account?", "Forgot password?") are no refusal, so none of
# their words alone is in this list.
_REFUSALS: Final = (
    r"\b(wrong|invalid|incorrect|denied|refused|rejected|declined|fail(ed|ure)?|unsuccessful(ly)?|bad|error|unknown)\b",
    r"\b(forbidden|unauthori[sz]ed|unrecogni[sz]ed|mismatch|sorry|oops|try again|no such|no match(es)?)\b",
    r"(\bnot|n['’]t) ((a|an|the|your) )?"
    r"(valid|match|recogni[sz]ed|found|allowed|correct|authori[sz]ed|right|accepted|permitted|known|possible)\b",
    r"\b(does|do|did) ?n[o'’]t (match|work|exist|fit)\b|\bwe do ?n[o'’]t know\b",
    r"\b(could ?n[o'’]t|(can ?not|can['’]t|unable to) (log|sign|let) you in)\b|\bcheck (your|the) credentials\b",
    r"\bno (user|account|one|person) ((was|is) )?(found|called|named|with (that|this|such|these))\b|\bno(pe)?[.!]*$",
)

BUILTIN_NAMES: Final[Mapping[str, JsonObject]] = MappingProxyType(
    {
        "user-field": {
            "role": _FIELD,
            "name": r"/\b(user|e-?mail|account|login|nick|handle|who)|\bname\b/",
            "autocomplete": ["username", "email", "nickname"],
            "place": {"before": "pass-field"},
            "or": {"type": "email"},
        },
        "pass-field": {"type": "password", "or": {"role": _FIELD, "name": r"/pass|\bpin\b|secret/"}},
        "email-field": {
            "role": _FIELD,
            "name": "/e-?mail/",
            "autocomplete": "email",
            "or": {"type": "email"},
        },
        "name-field": {
            "role": _FIELD,
            "name": r"/\b(name|nick|handle|user|alias|call you)/",
            "autocomplete": ["name", "nickname", "username"],
            "place": "only",
        },
        "message-field": {
            "role": _FIELD,
            "name": r"/message|\bmsg\b|chat|\bsay\b|\btext\b|write|type|reply|talk/",
            "place": "last",
        },
        "search-field": {
            "role": ["searchbox", *_FIELD],
            "name": "/search|find|filter|query/",
            "place": "only",
            "or": {"type": "search"},
        },
        "text-field": {"role": _FIELD, "name": "/./", "place": "only"},
        "number-field": {"role": ["spinbutton", *_FIELD], "name": "/number|guess|amount|count/", "place": "only"},
        "login-button": {
            "role": _BUTTON,
            "name": r"/\b(log|sign) ?-?in\b|^(login|enter|continue|submit|go|next|ok|let me in|unlock)\b/",
            "place": "only",
            "or": _ENTER,
        },
        "logout-button": {"role": _BUTTON, "name": r"/\b(log|sign) ?-?(out|off)\b|^(exit|leave|bye)\b/"},
        "register-button": {
            "role": _BUTTON,
            "name": r"/\bsign ?-?up\b|register|create (an |your )?account|^join\b/",
            "or": _ENTER,
        },
        "join-button": {
            "role": _BUTTON,
            "name": "/join|enter|connect|start|continue|^(go|ok|set|save|submit)$/",
            "place": "only",
            "or": _ENTER,
        },
        "send-button": {
            "role": _BUTTON,
            "name": r"/\b(send|post|submit|say|reply|publish)\b|^(go|ok|➤|➢|→|▶|✈|📨|📤)$/",
            "place": {"after": "message-field"},
            "or": _ENTER,
        },
        "search-button": {"role": _BUTTON, "name": "/search|find|go/", "or": _ENTER},
        "start-button": {"role": _BUTTON, "name": r"/\b(start|play|begin|new game|go)\b|▶/"},
        "pause-button": {"role": _BUTTON, "name": r"/\b(pause|stop|hold)\b|⏸/"},
        "reset-button": {
            "role": _BUTTON,
            "name": r"/\b(reset|restart|new game|play again|again|clear|start over)\b|↻|⟳/",
        },
        "add-button": {"role": _BUTTON, "name": r"/\b(add|create|new|save)\b|^[+＋]$/", "or": _ENTER},
        "delete-button": {"role": _BUTTON, "name": r"/\b(delete|remove|discard|trash)\b|^[x×✕✖🗑]$/"},
        "save-button": {"role": _BUTTON, "name": r"/\b(save|apply|update|ok|done)\b/", "or": _ENTER},
        "plus-button": {
            "role": _BUTTON,
            "name": r"/^[+＋▲⬆➕]|\+ ?1|\b(plus|increment|increase|add|up|more|count)\b/",
            "place": "only",
        },
        "minus-button": {
            "role": _BUTTON,
            "name": r"/^[-−–▼⬇➖]|[-−] ?1|\b(minus|decrement|decrease|subtract|down|less|fewer)\b/",
        },
        "refusal": {
            "text": f"/{'|'.join(_REFUSALS)}/",
            "or": {"role": "alert"},
        },
        "alert": {"role": "alert"},
        "dialog": {"role": ["dialog", "alertdialog"]},
        "heading": {"role": "heading"},
        "message": {"role": ["listitem", "article", "comment"]},
        "picture": {"role": ["canvas", "img", "graphics-document"], "place": "first"},
        "main": {"role": "main", "or": {"role": "RootWebArea"}},
        "counter": {
            "role": ["status", "spinbutton", "timer", "meter"],
            "place": "first",
            "or": {"text": r"/^\D{0,20}-?\d+\D{0,20}$/"},
        },
    }
)


# Parses the names that a web check gives to elements: the entries of its lexicon, and the targets and texts of steps.

_CELL: Final = re.compile(r"([A-Za-z][\w-]*)\[\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\]")
_HYPHENED: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")
_PARTS: Final = ("role", "name", "type", "autocomplete", "text", "place", "key", "or")
_NEAR: Final = 0.85


class Lexicon:
    """The names of one check. Problems found while parsing are added to `faults`."""

    def __init__(self, faults: list[ValueProblem], lexicon: Mapping[str, Meaning]) -> None:
        self.faults = faults
        self.lexicon = dict(lexicon)
        self.boards: dict[str, tuple[int, int]] = {}

    def add(self, own: Json) -> None:
        """Takes in names of the check's own, of which a place may be beside any other."""
        if not isinstance(own, dict):
            self.tell(
                ("lexicon",), "P0202", f"`lexicon` is a map, not {quote_value(own)}", "as in `{roll: {role: button}}`"
            )
            return
        self.lexicon.update(dict.fromkeys(own, ()))
        self.lexicon.update({name: self.meaning(raw, ("lexicon", name)) for name, raw in own.items()})

    def tell(self, at: ValuePath, code: str, summary: str, hint: str, *, is_key: bool = False) -> None:
        """Add a problem."""
        self.faults.append(ValueProblem(at, code, summary, hint, is_key))

    def meaning(self, raw: Json, at: ValuePath) -> Meaning:
        """The ways of `{role: …, name: …, or: …}`, in order."""
        if not isinstance(raw, dict):
            self.tell(
                at, "P0202", f"a meaning is a map, not {quote_value(raw)}", "as in `{role: button, name: /roll/}`"
            )
            return ()
        for name in raw:
            if name not in _PARTS:
                self.faults.append(unknown_name_problem(name, _PARTS, (*at, name), "a meaning"))
        if raw.keys() <= {"or", "place"}:
            self.tell(at, "P0210", "a meaning that says nothing", "as in `{role: button, name: /roll/}`")
        if "key" in raw and len(raw.keys() - {"or"}) > 1:
            self.tell((*at, "key"), "P0211", "`key` beside others", "put it under `or: {key: Enter}`", is_key=True)
        others = raw.get("or", [])
        several = others if isinstance(others, list) else [others]
        places = [(*at, "or", str(index)) if isinstance(others, list) else (*at, "or") for index in range(len(several))]
        rest = (way for one, place in zip(several, places, strict=True) for way in self.meaning(one, place))
        return (self._way(raw, at), *rest)

    def _way(self, raw: dict[str, Json], at: ValuePath) -> ElementQuery:
        return ElementQuery(
            roles=self.texts(raw.get("role", ()), (*at, "role")),
            name=self.words(raw["name"], (*at, "name")) if "name" in raw else None,
            types=self.texts(raw.get("type", ()), (*at, "type")),
            autocomplete=self.texts(raw.get("autocomplete", ()), (*at, "autocomplete")),
            text=self.words(raw["text"], (*at, "text")) if "text" in raw else None,
            place=self._place(raw["place"], (*at, "place")) if "place" in raw else None,
            key=self.text(raw.get("key", ""), (*at, "key")),
        )

    def _place(self, raw: Json, at: ValuePath) -> Where | None:
        match raw:
            case "only" | "first" | "last":
                return Where(raw)
            case {"before": str(of), **rest} if not rest:
                return self._beside("before", of, (*at, "before"))
            case {"after": str(of), **rest} if not rest:
                return self._beside("after", of, (*at, "after"))
        hint = "`only`, `first`, `last`, `{before: name}` or `{after: name}`"
        self.tell(at, "P0202", f"{quote_value(raw)} is not a position", hint)
        return None

    def _beside(self, kind: str, of: str, at: ValuePath) -> Where | None:
        if of not in self.lexicon:
            self.faults.append(self._no_target(of, at))
            return None
        return Where("before" if kind == "before" else "after", of)

    def text(self, raw: Json, at: ValuePath) -> str:
        """A text, which may have been written as a number."""
        if isinstance(raw, str) or is_number(raw):
            return raw if isinstance(raw, str) else encode_text(raw)
        self.tell(at, "P0202", f"`{at[-1]}` is a text, not {quote_value(raw)}", "put it in quotes")
        return ""

    def texts(self, raw: Json, at: ValuePath) -> tuple[str, ...]:
        """A text or several."""
        if isinstance(raw, list | tuple):
            return tuple(self.text(one, (*at, str(index))) for index, one in enumerate(raw))
        return (self.text(raw, at),)

    def words(self, raw: Json, at: ValuePath) -> TextPattern | None:
        """A text or a pattern."""
        text = self.text(raw, at)
        if not text:
            self.tell(at, "P0210", f"`{at[-1]}` is empty", "say what to look for")
            return None
        if not is_regex_text(text):
            return TextPattern(text)
        pattern = text[1:-1]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                re.compile(pattern)
        except re.error as error:
            self.tell(
                at, "P0223", f"`{pattern}` is not a regular expression: {error}", "escape literal characters: `\\(`"
            )
            return None
        return TextPattern(pattern, is_pattern=True)

    def target(self, raw: Json, at: ValuePath) -> WebTarget | None:
        """What a step is about: a name, a cell, a pattern of a name, or a meaning in place."""
        if isinstance(raw, dict):
            meaning = self.meaning(raw, at)
            return WebTarget(encode_text(raw), meaning) if meaning else None
        if not isinstance(raw, str):
            self.tell(at, "P0202", f"a target is a name, not {quote_value(raw)}", "as in `press: send-button`")
            return None
        if raw in self.lexicon:
            return WebTarget(raw, self.lexicon[raw])
        cell = _CELL.fullmatch(raw)
        if cell is not None:
            return self._cell(cell, raw, at)
        if is_regex_text(raw):
            words = self.words(raw, at)
            return WebTarget(raw, (ElementQuery(name=words),)) if words else None
        self.faults.append(self._no_target(raw, at))
        return None

    def _no_target(self, name: str, at: ValuePath) -> ValueProblem:
        near = get_close_matches(name, self.lexicon, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "add it under `lexicon`, or write the words on it: `/words/`"
        return ValueProblem(at, "P0213", f"the lexicon has no {quote_value(name)}", hint, is_key=at[-1:] == (name,))

    def _cell(self, found: re.Match[str], raw: str, at: ValuePath) -> WebTarget | None:
        board, row, column = found[1], int(found[2]), int(found[3])
        size = self.boards.get(board)
        if size is None:
            hint = f"find it first: `grid: {{rows: 3, cols: 3, as: {board}}}`"
            self.tell(at, "P0213", f"unknown grid `{board}`", hint, is_key=at[-1:] == (raw,))
            return None
        if not (1 <= row <= size[0] and 1 <= column <= size[1]):
            hint = f"rows are 1 to {size[0]}, columns 1 to {size[1]}"
            self.tell(at, "P0212", f"grid `{board}` has no cell {row},{column}", hint, is_key=at[-1:] == (raw,))
            return None
        return WebTarget(raw, cell=CellTarget(board, row, column))

    def seen(self, raw: Json, at: ValuePath) -> Seen | None:
        """What may be visible: a target, or a text or pattern."""
        if isinstance(raw, dict) and raw.keys() == {"text"}:
            return self.words(raw["text"], (*at, "text"))
        if isinstance(raw, dict) or raw in self.lexicon or (isinstance(raw, str) and _CELL.fullmatch(raw)):
            return self.target(raw, at)
        near = get_close_matches(str(raw), self.lexicon, n=1, cutoff=_NEAR)
        if near or (isinstance(raw, str) and _HYPHENED.fullmatch(raw)):
            fault = self._no_target(str(raw), at)
            hint = f"{fault.hint}; for a literal text write `{{text: {raw}}}`"
            self.faults.append(ValueProblem(at, fault.code, fault.summary, hint, fault.is_key))
            return None
        return self.words(raw, at)


@cache
def builtin_lexicon() -> Mapping[str, Meaning]:
    """The names that every check knows, read."""
    faults: list[ValueProblem] = []
    reading = Lexicon(faults, dict.fromkeys(BUILTIN_NAMES, ()))
    found = {name: reading.meaning(raw, (name,)) for name, raw in BUILTIN_NAMES.items()}
    assert not faults, faults
    return MappingProxyType(found)


def is_regex_text(text: str) -> bool:
    """Whether it stands between slashes."""
    return len(text) > 2 and text[0] == text[-1] == "/"


def quote_value(value: Json) -> str:
    """A value as it is quoted in a sentence."""
    if value is None or value == "":
        return "nothing" if value is None else "an empty text"
    text = value if isinstance(value, str) else encode_text(value)
    return f"`{text[: limits.VALUE_SHOWN_CHARS]}`"


def list_names(names: Iterable[str]) -> str:
    """Names as they stand in a sentence."""
    return ", ".join(f"`{name}`" for name in names)


def unknown_name_problem(name: str, known: Iterable[str], at: ValuePath, what: str) -> ValueProblem:
    """Return the problem of a name that `what` does not have."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"there are {list_names(names)}"
    return ValueProblem(at, "P0201", f"{what} has no `{name}`", hint, is_key=at[-1:] == (name,))
