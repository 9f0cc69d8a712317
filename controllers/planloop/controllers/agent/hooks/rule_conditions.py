"""Conditions of hook rules: whether one holds, given the facts and the hook's memory. Pure.

`planloop.schemas.rules.language` says what each word means. A condition about something that is unknown at a point is
false there, and a `not` around it is true.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Final

from planloop.controllers.agent.hooks.facts import CallFact, ChildFact, HookFacts
from planloop.schemas import address as addresses
from planloop.schemas import limits, patterns
from planloop.schemas.canonical_json import Json, JsonObject, encode
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.linear_regex import UnsupportedRegex, compile_linear_regex
from planloop.schemas.objects.message import Message
from planloop.schemas.predicates import Vocabulary, is_same, predicate
from planloop.schemas.rules.language import CHILD_TESTS, MESSAGE_TESTS

RuleNumber = float | int

COMPARISONS: Final[Mapping[str, Callable[[RuleNumber, RuleNumber], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


class UndecidableRule(Exception):
    """A rule that cannot be judged: it says what rules cannot say, or a text is too long to look through."""


def passes_test(value: Json, test: Json) -> bool:
    """Whether a value passes a test: an equal value, a list of them, or a map of comparisons that all hold."""
    is_folded = isinstance(test, dict) and test.get("any-case") is True
    return (_FOLDED_TESTS if is_folded else _TESTS).matches(test, value)


_IN_TEXT: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "like": lambda text, wanted: patterns.star_regex(wanted).fullmatch(text) is not None,
    "contains": operator.contains,
    "starts": str.startswith,
    "ends": str.endswith,
}


def _test_words(*, fold: bool) -> Vocabulary[Json]:
    """The tests of texts and numbers; `fold`: the case of letters does not count."""

    def folded(text: str) -> str:
        return text.casefold() if fold else text

    def is_in_text(name: str, wanted: Json, value: Json) -> bool:
        text = folded(as_text(value))
        return value is not None and any(_IN_TEXT[name](text, folded(one)) for one in as_list(wanted))

    def compares(sign: str, wanted: Json, value: Json) -> bool:
        return isinstance(value, int | float) and passes_number_test(value, {sign: wanted})

    def matches(wanted: Json, value: Json) -> bool:
        expression = f"(?i){wanted}" if fold and not wanted.startswith("(?i)") else wanted
        return value is not None and _matches(as_text(value), expression)

    def is_equal(wanted: Json, value: Json) -> bool:
        return wanted == {} or _is(value, wanted, fold=fold)

    words: dict[str, Callable[[Json, Json], bool]] = {
        **{sign: partial(compares, sign) for sign in COMPARISONS},
        **{name: partial(is_in_text, name) for name in _IN_TEXT},
        "matches": matches,
        "is": lambda wanted, value: _is(value, wanted, fold=fold),
        "not": lambda wanted, value: not _is(value, wanted, fold=fold),
        "given": lambda wanted, value: (value is not None and value != "") is wanted,
        "length": lambda wanted, value: isinstance(value, str | list | dict) and passes_number_test(len(value), wanted),
        "any-case": lambda _wanted, _value: True,
    }
    return Vocabulary({name: predicate(holds) for name, holds in words.items()}, predicate(is_equal))


def _matches(text: str, pattern: str) -> bool:
    if len(text) > limits.RULE_TEXT_CHARS_MAX:
        most = limits.RULE_TEXT_CHARS_MAX
        raise UndecidableRule(f"a text of {len(text)} characters is longer than `matches` looks through ({most})")
    try:
        return compile_linear_regex(pattern).found_in(text)
    except UnsupportedRegex as fault:
        raise UndecidableRule(f"`{pattern}`: {fault}") from None


def _is(value: Json, wanted: Json, *, fold: bool) -> bool:
    if isinstance(wanted, list):
        return any(_is(value, one, fold=fold) for one in wanted) or value == wanted
    if fold and isinstance(value, str) and isinstance(wanted, str):
        return value.casefold() == wanted.casefold()
    return is_same(value, wanted)


_TESTS: Final = _test_words(fold=False)
_FOLDED_TESTS: Final = _test_words(fold=True)


def passes_number_test(number: RuleNumber, test: Json) -> bool:
    """Whether a number is as a test of numbers says."""
    if not isinstance(test, dict):
        return bool(number == test)
    try:
        return all(COMPARISONS[name](number, wanted) for name, wanted in test.items())
    except (KeyError, TypeError):
        raise UndecidableRule(f"numbers cannot be tested with {test}") from None


def as_text(value: Json) -> str:
    """A value as text: itself, or its JSON."""
    return value if isinstance(value, str) else encode(value).decode()


def as_list(value: Json) -> list[str]:
    """One text or several, as a list."""
    return [str(one) for one in (value if isinstance(value, list) else [value])]


_SOME: Final[JsonObject] = {">": 0}


@frozen
class RuleMemory:
    """What one hook remembers. `since` is the turn in which it was first asked; `once` are digests by clause.

    `notes` are the newest texts that it kept, oldest first.
    """

    since: int
    counts: Mapping[str, RuleNumber] = field(default_factory=dict)
    marks: Mapping[str, int] = field(default_factory=dict)
    once: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def to_json(self) -> JsonObject:
        named = {"counts": self.counts, "marks": self.marks, "once": self.once}
        out: JsonObject = {"since": self.since} | {name: dict(kept) for name, kept in named.items() if kept}
        return out | ({"notes": list(self.notes)} if self.notes else {})


@frozen
class ConditionInput:
    """All that a condition is judged by.

    `lets_through`: what holds would permit something, so patterns of calls cover too little rather than too much.
    """

    facts: HookFacts
    options: JsonObject
    memory: RuleMemory
    is_copy: bool = False
    lets_through: bool = False


def condition_matches(when: Json, known: ConditionInput) -> bool:
    """Whether everything that `when` says holds. Raises UndecidableRule."""
    return _CONDITIONS.matches(when, known)


def _undecidable(when: Json, known: ConditionInput) -> bool:
    del known
    if not isinstance(when, dict):
        raise UndecidableRule(f"a condition is a map, not {when!r}")
    for name in when.keys() - _CONDITIONS.words.keys():
        raise UndecidableRule(f"rules have no condition `{name}`")
    return True  # `{}` always holds.


def _some_text(name: str, test: Json, known: ConditionInput) -> bool:
    text = getattr(known.facts, name)
    return bool(text) and passes_test(text, test)


def _of_call(name: str, test: Json, known: ConditionInput) -> bool:
    call = known.facts.call
    if call is None:
        return False
    match name:
        case "call":
            return _is_like(as_list(test), call, lets_through=known.lets_through)
        case "effect":
            return passes_test(call.effect, test)
        case "arguments":
            return all(_argument_fits(key, one, call, lets_through=known.lets_through) for key, one in test.items())
    if call.result is None:
        return False
    seen = {"result": call.result.text, "outcome": str(call.result.state).lower(), "error": call.result.error}
    return passes_test(seen[name], test)


def _argument_fits(key: str, test: Json, call: CallFact, *, lets_through: bool) -> bool:
    """Whether an argument passes: to hold back by any of its readings, to let through by all that it comes to."""
    found = members_at(call.arguments, key)
    if lets_through:
        return all(passes_test(one, test) for one in (call.places if key == "path" and call.places else found))
    return _fits_one_of((*found, *(call.places if key == "path" else ())), test)


def _is_like(written: Sequence[str], call: CallFact, *, lets_through: bool) -> bool:
    server, dot, _ = call.tool.partition(".")
    names = (call.tool, server) if dot else (call.tool,)
    if lets_through:
        return any(patterns.is_allowed_by(written, name, call.exact) for name in names)
    return any(patterns.find_denial(written, name, call.subjects) for name in names)


def _by_name(name: str, tests: JsonObject, known: ConditionInput) -> bool:
    return all(_named(name, key, test, known) for key, test in tests.items())


def _named(name: str, key: str, test: Json, known: ConditionInput) -> bool:
    memory, facts = known.memory, known.facts
    match name:
        case "setting":
            return passes_test(member_at(known.options, key), test)
        case "count":
            return passes_number_test(memory.counts.get(key, 0), test)
        case "turns-since":
            return passes_number_test(turns_since(known, key), test)
        case "calls":
            return passes_number_test(facts.turn_calls.get(key, 0), test)
        case _:
            left = facts.budget_left.get(key)
            return left is not None and passes_number_test(left, test)


def turns_since(known: ConditionInput, mark: str) -> int:
    """Turns of the agent since the mark was set; if never, since the hook was first asked."""
    return known.facts.turn - known.memory.marks.get(mark, known.memory.since)


_NUMBERS: Final[Mapping[str, Callable[[HookFacts], int]]] = {
    "changed": lambda facts: len(facts.files_changed),
    "children-then": lambda facts: sum(child.is_live for child in facts.children) + facts.begins,
    "turn": lambda facts: facts.turn,
    "depth": lambda facts: facts.depth,
    "requests": lambda facts: len(facts.requests),
    "nudges": lambda facts: facts.nudges,
    "sent-back": lambda facts: facts.sent_back,
}


def _number(name: str, test: Json, known: ConditionInput) -> bool:
    return passes_number_test(_NUMBERS[name](known.facts), test)


def _counted(name: str, wanted: Json, known: ConditionInput) -> bool:
    facts = known.facts
    found = matching_children(wanted, facts) if name == "children" else matching_messages(wanted, facts)
    test = wanted.get("count", _SOME) if _has_members(wanted) else wanted
    return passes_number_test(len(found), test)


def _has_members(wanted: Json) -> bool:
    return isinstance(wanted, dict) and not (wanted and wanted.keys() <= COMPARISONS.keys())


def matching_children(wanted: Json, facts: HookFacts) -> list[ChildFact]:
    """The children that a `children` condition is about, in order."""
    if not _has_members(wanted):
        return list(facts.children)
    return [child for child in facts.children if _is_child(child, wanted)]


def _is_child(child: ChildFact, wanted: JsonObject) -> bool:
    seen = {"state": (child.state,), "name": (last_name(child.task), child.task), "agent": (child.agent_state,)}
    return (
        all(_fits_one_of(seen[name], wanted[name]) for name in CHILD_TESTS if name in wanted)
        and wanted.get("live", child.is_live) is child.is_live
        and passes_number_test(child.turns_silent, wanted.get("quiet", {">=": 0}))
    )


def matching_messages(wanted: Json, facts: HookFacts) -> list[Message]:
    """The messages that a `message` or `messages` condition is about, in order."""
    if not _has_members(wanted):
        return list(facts.messages)
    return [one for one in facts.messages if is_matching_message(one, wanted, facts)]


def is_matching_message(message: Message, wanted: JsonObject, facts: HookFacts) -> bool:
    """Whether one message passes all the tests."""
    body: JsonObject = message.body if isinstance(message.body, dict) else {}
    seen = {
        "text": (as_text(message.body),),
        "from": tuple(_who(message.sender, facts.agent)),
        "kind": (message.kind,),
        "about": (as_text(body.get("request") or _asked(body)),),
        "answer": (as_text(body.get("answer", "")),),
    }
    return all(_fits_one_of(seen[name], wanted[name]) for name in MESSAGE_TESTS if name in wanted)


def _asked(body: JsonObject) -> Json:
    """The kind of request that an answer answers."""
    what = body.get("what")
    return what.get("kind", "") if isinstance(what, dict) else ""


def _who(sender: str, agent: str) -> Iterable[str]:
    """What a sender can be called by the agent that reads it."""
    yield sender
    kind, _, rest = sender.partition("/")
    if sender.startswith("human:"):
        yield "person"
    if kind == "agent":
        mine, other = addresses.parse_address(agent), addresses.parse_address(sender)
        yield last_name(rest)
        yield "child" if other.is_within(mine) else "parent" if mine.is_within(other) else "other"


def last_name(address: str) -> str:
    """The last name in an address or path."""
    return address.rpartition("/")[2]


def member_at(value: JsonObject, path: str) -> Json:
    """What is at `path` in a map: a key as it stands, else keys with dots between; None if nothing is."""
    return members_at(value, path)[0]


def members_at(value: JsonObject, path: str) -> tuple[Json, ...]:
    """All that may be meant by `path`: who makes up a key with a dot in it does not hide what is within another."""
    found: Json = value
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    if path not in value or "." not in path:
        return (found,)
    return (value[path],) if found is None else (value[path], found)


def _fits_one_of(seen: Sequence[Json], test: Json) -> bool:
    """Whether one of several names of a thing passes; what it is not to be, none of them may be."""
    if not isinstance(test, dict) or "not" not in test:
        return any(passes_test(one, test) for one in seen)
    case = {"any-case": test["any-case"]} if "any-case" in test else {}
    if any(passes_test(one, {"is": test["not"], **case}) for one in seen):
        return False
    rest = {key: value for key, value in test.items() if key != "not"}
    return any(passes_test(one, rest) for one in seen)


def _none_of(one: Json, known: ConditionInput) -> bool:
    return not condition_matches(one, remade(known, lets_through=not known.lets_through))


_READERS: Final[Mapping[Callable[[str, Json, ConditionInput], bool], Iterable[str]]] = {
    _of_call: ("call", "effect", "arguments", "result", "outcome", "error"),
    _counted: ("message", "messages", "children"),
    _by_name: ("setting", "budget", "count", "turns-since", "calls"),
    _some_text: ("reply", "prompt", "claim"),
    _number: _NUMBERS,
}
_CONDITIONS: Final = Vocabulary[ConditionInput](
    {
        **{name: predicate(partial(reader, name)) for reader, names in _READERS.items() for name in names},
        "any": predicate(lambda ways, known: any(condition_matches(one, known) for one in ways)),
        "all": predicate(lambda parts, known: all(condition_matches(one, known) for one in parts)),
        "not": predicate(_none_of),
        "on": predicate(lambda points, known: known.facts.point in as_list(points)),
        "is-copy": predicate(lambda wanted, known: known.is_copy is wanted),
    },
    predicate(_undecidable),
)
