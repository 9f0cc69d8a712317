"""Evaluate the rules of hooks: conditions and verdicts, from the facts and the hook's memory. Pure.

`planloop.schemas.rules.language` defines the words. At a point where a fact is unknown, a condition about it is false,
and a `not` around it is true.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, Final, TypeVar

from planloop.controllers.agent.hooks.facts import CallFact, ChildFact, HookFacts
from planloop.schemas import address as addresses
from planloop.schemas import limits, patterns
from planloop.schemas.canonical_json import Json, JsonObject, encode, sha256_of_value
from planloop.schemas.frozen import frozen, mutable, remade
from planloop.schemas.linear_regex import UnsupportedRegex, compile_linear_regex
from planloop.schemas.objects.hook import STRICTNESS, Decision, HookRule, HookSpec, HookVerdict
from planloop.schemas.objects.message import Message
from planloop.schemas.predicates import Vocabulary, is_same, predicate
from planloop.schemas.rules.language import CHILD_TESTS, MESSAGE_TESTS, RULE_PLACEHOLDER

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
    """A rule that cannot be evaluated: it is invalid, or a text is too long to search."""


def passes_test(value: Json, test: Json) -> bool:
    """Whether a value passes a test: an equal value, a list of such values, or a map of comparisons that all hold."""
    is_folded = isinstance(test, dict) and test.get("any-case") is True
    return (_FOLDED_TESTS if is_folded else _TESTS).matches(test, value)


_IN_TEXT: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "like": lambda text, wanted: patterns.star_regex(wanted).fullmatch(text) is not None,
    "contains": operator.contains,
    "starts": str.startswith,
    "ends": str.endswith,
}


def _test_words(*, fold: bool) -> Vocabulary[Json]:
    """The tests of texts and numbers; `fold` ignores case."""

    def folded(text: str) -> str:
        return text.casefold() if fold else text

    def is_in_text(name: str, wanted: Json, value: Json) -> bool:
        text = folded(as_text(value))
        return value is not None and any(_IN_TEXT[name](text, folded(one)) for one in as_texts(wanted))

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
        raise UndecidableRule(f"`matches` cannot search a text of {len(text)} characters; the limit is {most}")
    try:
        return compile_linear_regex(pattern).found_in(text)
    except UnsupportedRegex as error:
        raise UndecidableRule(f"`{pattern}`: {error}") from None


def _is(value: Json, wanted: Json, *, fold: bool) -> bool:
    if isinstance(wanted, list):
        return any(_is(value, one, fold=fold) for one in wanted) or value == wanted
    if fold and isinstance(value, str) and isinstance(wanted, str):
        return value.casefold() == wanted.casefold()
    return is_same(value, wanted)


_TESTS: Final = _test_words(fold=False)
_FOLDED_TESTS: Final = _test_words(fold=True)


def passes_number_test(number: RuleNumber, test: Json) -> bool:
    """Whether a number passes a test of numbers."""
    if not isinstance(test, dict):
        return bool(number == test)
    try:
        return all(COMPARISONS[name](number, wanted) for name, wanted in test.items())
    except (KeyError, TypeError):
        raise UndecidableRule(f"invalid test of a number: {test}") from None


def as_text(value: Json) -> str:
    """A value as text: a string itself, or the JSON of other values."""
    return value if isinstance(value, str) else encode(value).decode()


def as_texts(value: Json) -> list[str]:
    """One text or several, as a list."""
    return [str(one) for one in (value if isinstance(value, list) else [value])]


_SOME: Final[JsonObject] = {">": 0}


@frozen
class RuleMemory:
    """The memory of one hook. `since` is the turn in which it was first asked; `once` are digests by clause.

    `notes` are the newest texts that it stored, oldest first.
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
    """The input of a condition.

    `lets_through`: the condition permits something, so patterns of calls match only what a call certainly does.
    """

    facts: HookFacts
    options: JsonObject
    memory: RuleMemory
    is_copy: bool = False
    lets_through: bool = False


def condition_matches(when: Json, known: ConditionInput) -> bool:
    """Whether all conditions of `when` hold. Raises UndecidableRule."""
    return _CONDITIONS.matches(when, known)


def _undecidable(when: Json, known: ConditionInput) -> bool:
    del known
    if not isinstance(when, dict):
        raise UndecidableRule(f"a condition must be a map, not {when!r}")
    for name in when.keys() - _CONDITIONS.words.keys():
        raise UndecidableRule(f"unknown condition `{name}`")
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
            return _is_like(as_texts(test), call, lets_through=known.lets_through)
        case "effect":
            return passes_test(call.effect, test)
        case "arguments":
            return all(_argument_fits(key, one, call, lets_through=known.lets_through) for key, one in test.items())
    if call.result is None:
        return False
    seen = {"result": call.result.text, "outcome": str(call.result.state).lower(), "error": call.result.error}
    return passes_test(seen[name], test)


def _argument_fits(key: str, test: Json, call: CallFact, *, lets_through: bool) -> bool:
    """Whether an argument passes: any of its possible values to deny a call, all of them to permit it."""
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
    """The number of turns since the mark was set, or else since the hook was first asked."""
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
    """The children that a `children` condition matches, in order."""
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
    """The messages that a `message` or `messages` condition matches, in order."""
    if not _has_members(wanted):
        return list(facts.messages)
    return [one for one in facts.messages if is_matching_message(one, wanted, facts)]


def is_matching_message(message: Message, wanted: JsonObject, facts: HookFacts) -> bool:
    """Whether one message passes all the tests."""
    body: JsonObject = message.body if isinstance(message.body, dict) else {}
    seen = {
        "text": (as_text(message.body),),
        "from": tuple(_sender_names(message.sender, facts.agent)),
        "kind": (message.kind,),
        "about": (as_text(body.get("request") or _request_kind(body)),),
        "answer": (as_text(body.get("answer", "")),),
    }
    return all(_fits_one_of(seen[name], wanted[name]) for name in MESSAGE_TESTS if name in wanted)


def _request_kind(body: JsonObject) -> Json:
    """The kind of the request that an answer belongs to."""
    what = body.get("what")
    return what.get("kind", "") if isinstance(what, dict) else ""


def _sender_names(sender: str, agent: str) -> Iterable[str]:
    """The names of a sender for the agent that reads the message."""
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
    """The value at `path` in a map: a literal key, or else keys with dots between; None without such a value."""
    return members_at(value, path)[0]


def members_at(value: JsonObject, path: str) -> tuple[Json, ...]:
    """All values that `path` may mean: a key with a dot must not hide a nested value."""
    found: Json = value
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    if path not in value or "." not in path:
        return (found,)
    return (value[path],) if found is None else (value[path], found)


def _fits_one_of(seen: Sequence[Json], test: Json) -> bool:
    """Whether one of several names passes; `not` holds only if it holds for all names."""
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
        "on": predicate(lambda points, known: known.facts.point in as_texts(points)),
        "is-copy": predicate(lambda wanted, known: known.is_copy is wanted),
    },
    predicate(_undecidable),
)


def fill_and_clamp(text: str, when: Json, known: ConditionInput) -> str:
    """`text` with its placeholders filled, cut to the longest text for an agent."""
    most = limits.RULE_WORDS_CHARS_MAX
    filled = fill_text(text, when, known)
    return filled if len(filled) <= most else filled[: most - 1] + "…"


def fill_text(text: str, when: Json, known: ConditionInput) -> str:
    """`text` with its placeholders filled. `when` is the condition of the clause; it selects children and message."""

    def value(blank: re.Match[str]) -> str:
        if blank[1] is None:
            return blank[0][0]  # `{{` and `}}`.
        found = _value(blank[1], blank[2] or "", when, known)
        return "" if found is None else as_text(found)

    return RULE_PLACEHOLDER.sub(value, text)


def fill_value(value: Json, when: Json, known: ConditionInput) -> Json:
    """A value with the placeholders in all its texts filled; a text that is one placeholder becomes that value."""
    if isinstance(value, dict):
        return {key: fill_value(one, when, known) for key, one in value.items()}
    if isinstance(value, list):
        return [fill_value(one, when, known) for one in value]
    if not isinstance(value, str):
        return value
    whole = RULE_PLACEHOLDER.fullmatch(value)
    if whole is not None and whole[1] is not None:
        return _value(whole[1], whole[2] or "", when, known)
    return fill_text(value, when, known)


def _value(name: str, key: str, when: Json, known: ConditionInput) -> Json:
    facts, memory = known.facts, known.memory
    match name:
        case "arguments":
            return member_at(facts.arguments, key) if key else facts.arguments
        case "setting":
            return member_at(known.options, key)
        case "count":
            return memory.counts.get(key, 0)
        case "turns-since":
            return turns_since(known, key)
        case "message" | "children":
            return _fitting(name, when, facts)
        case "result":
            return None if facts.result is None else facts.result.text
        case "changed" | "versions":
            changed = {path: facts.files_changed[path] for path in sorted(facts.files_changed)}
            return ", ".join(changed) if name == "changed" else encode(changed).decode()
        case _:
            return getattr(facts, name)


def _fitting(name: str, when: Json, facts: HookFacts) -> Json:
    """The first message, or the names of the children, that the first condition of that kind matches."""
    wanted = next(_conditions(name, when), next(_conditions("messages", when), {}) if name == "message" else {})
    if name == "children":
        return ", ".join(last_name(child.task) for child in matching_children(wanted, facts))
    return next((one.body for one in matching_messages(wanted, facts)), None)


def _conditions(name: str, when: Json) -> Iterator[JsonObject]:
    """The conditions with the name `name`, at any depth of `any` and `all`."""
    if not isinstance(when, dict):
        return
    if isinstance(when.get(name), dict):
        yield when[name]
    for part in (*when.get("all", ()), *when.get("any", ())):
        yield from _conditions(name, part)


N = TypeVar("N", bound=float)


def evaluate_rule(hook: HookSpec, memory: Json, facts: HookFacts) -> HookVerdict:
    """The verdict of the rule of `hook` for `facts`; a failed verdict if the rule cannot be evaluated.

    `memory` is the memory in the hook's last verdict, None at first; the verdict has the new one.
    """
    assert isinstance(hook.mind, HookRule), "only rules are evaluated"
    return _read(hook, hook.mind.clauses, memory, facts).verdict


@frozen
class FirstClauses:
    """The result of the clauses before an agent. `consults`: the agent is asked, and `verdict` has only the memory."""

    verdict: HookVerdict
    consults: bool = False


def evaluate_first(hook: HookSpec, memory: Json, facts: HookFacts) -> FirstClauses:
    """Evaluate the `first` clauses of a hook; a hook without any always asks its agent."""
    return _read(hook, hook.first, memory, facts) if hook.first else FirstClauses(HookVerdict(), consults=True)


def _read(hook: HookSpec, clauses: tuple[JsonObject, ...], memory: Json, facts: HookFacts) -> FirstClauses:
    began = _remembered(memory, facts)
    reading = _Reading(hook, facts, began)
    try:
        for index, clause in enumerate(clauses):
            if reading.takes(index, clause):
                break
    except UndecidableRule as error:
        return FirstClauses(HookVerdict(fault=str(error)))
    is_kept = reading.memory != began or (memory is None and _counts_turns(list(clauses)))
    return FirstClauses(reading.verdict(reading.memory.to_json() if is_kept else None), reading.consults)


def holds_outside_rule(when: JsonObject, hook: HookSpec, memory: Json, facts: HookFacts) -> bool:
    """Whether a condition outside a rule holds, such as `expires`; False if it cannot be evaluated."""
    try:
        known = ConditionInput(facts, hook.options, _remembered(memory, facts), bool(hook.original), lets_through=True)
        return condition_matches(when, known)
    except UndecidableRule:
        return False


def _remembered(memory: Json, facts: HookFacts) -> RuleMemory:
    """The stored memory, as far as it is valid for a rule: an edited hook may have been a program before."""
    if not isinstance(memory, dict) or not isinstance(memory.get("since"), int):
        return RuleMemory(facts.turn)
    return RuleMemory(
        since=memory["since"],
        counts=_of_kind(memory.get("counts"), (int, float)),
        marks=_of_kind(memory.get("marks"), int),
        once=_of_kind(memory.get("once"), str),
        notes=tuple(str(note) for note in notes) if isinstance(notes := memory.get("notes"), list) else (),
    )


def _of_kind(kept: Json, kind: type | tuple[type, ...]) -> dict[str, Any]:
    return {key: value for key, value in kept.items() if isinstance(value, kind)} if isinstance(kept, dict) else {}


def _counts_turns(rule: Json) -> bool:
    """Whether a rule uses `turns-since`, so that the turn of its first question must be stored."""
    if isinstance(rule, dict):
        return "turns-since" in rule or _counts_turns(list(rule.values()))
    if isinstance(rule, list):
        return any(_counts_turns(one) for one in rule)
    return isinstance(rule, str) and "{turns-since." in rule


@mutable
class _Reading:
    """One evaluation of the clauses, in order. Counters that a clause changes are visible to the next one."""

    hook: HookSpec
    facts: HookFacts
    memory: RuleMemory
    decision: Decision = "allow"
    reason: str = ""
    comments: list[str] = field(default_factory=list)
    arguments: JsonObject | None = None
    is_last: bool = False
    consults: bool = False

    def takes(self, index: int, clause: JsonObject) -> bool:
        """Apply a clause if its condition holds. Returns True if it ends the evaluation."""
        when = clause.get("when", {})
        known = remade(self._known, lets_through=_lets_through(clause))
        if not condition_matches(when, known) or self._is_repeated(str(index), clause, when):
            return False
        added = self._added(clause, when)
        gone, marked = self._names(clause.get("reset", []), when), self._names(clause.get("mark", []), when)
        self._count(added)
        is_last = self._say(clause, when)
        self._set_back(gone, added, marked)  # Last, because the texts of the clause use the counters before the reset.
        return is_last

    def _say(self, clause: JsonObject, when: Json) -> bool:
        if "note" in clause:
            notes = [*self.memory.notes, fill_and_clamp(clause["note"], when, self._known)]
            self.memory = replace(self.memory, notes=tuple(notes[-limits.RULE_NOTES_MAX :]))
        if "comment" in clause:
            self.comments.append(fill_and_clamp(clause["comment"], when, self._known))
        if "rewrite" in clause:
            self._rewrite(clause["rewrite"], when)
        self.is_last = self.is_last or clause.get("quit") is True
        for name in STRICTNESS:
            if name in clause:
                reason = clause[name]
                self.decision = name
                self.reason = fill_and_clamp(reason, when, self._known) if isinstance(reason, str) else ""
                return True
        self.consults = clause.get("consult") is True
        return self.consults

    def verdict(self, memory: Json) -> HookVerdict:
        changed = None if self.arguments == self.facts.arguments else self.arguments
        return HookVerdict(self.decision, self.reason, changed, "\n".join(self.comments), memory, self.is_last)

    @property
    def _known(self) -> ConditionInput:
        return ConditionInput(self.facts, self.hook.options, self.memory, bool(self.hook.original))

    def _is_repeated(self, index: str, clause: JsonObject, when: Json) -> bool:
        if "once" not in clause:
            return False
        now = sha256_of_value(fill_text(clause["once"], when, self._known))
        if self.memory.once.get(index) == now:
            return True
        self.memory = replace(self.memory, once={**self.memory.once, index: now})
        return False

    def _added(self, clause: JsonObject, when: Json) -> dict[str, float]:
        """The amounts that the clause adds to counters, by name."""
        counted = clause.get("count", [])
        return counted if isinstance(counted, dict) else dict.fromkeys(self._names(counted, when), 1)

    def _count(self, added: dict[str, float]) -> None:
        for name, number in added.items():
            raised = _finite(self.memory.counts.get(name, 0) + number)
            self.memory = replace(self.memory, counts=self._bounded({**self.memory.counts, name: raised}))

    def _set_back(self, gone: list[str], added: dict[str, float], marked: list[str]) -> None:
        """Remove what the clause resets, except what it adds itself, and set its marks to this turn."""
        if gone:
            counts = {name: number for name, number in self.memory.counts.items() if name not in gone}
            counts |= {name: _finite(number) for name, number in added.items() if name in gone}
            marks = {name: turn for name, turn in self.memory.marks.items() if name not in gone}
            self.memory = replace(self.memory, counts=counts, marks=marks)
        for name in marked:
            self.memory = replace(self.memory, marks=self._bounded({**self.memory.marks, name: self.facts.turn}))

    def _names(self, written: Json, when: Json) -> list[str]:
        return [_name(one, fill_text(one, when, self._known)) for one in as_texts(written)]

    def _bounded(self, named: dict[str, N]) -> dict[str, N]:
        """The counters without the oldest ones above the limit; only names with placeholders are removed."""
        surplus = max(0, len(named) - limits.RULE_NAMES_MAX)
        if not surplus:
            return named
        clauses = self.hook.mind.clauses if isinstance(self.hook.mind, HookRule) else self.hook.first
        effects = [clause.get(effect, []) for clause in clauses for effect in ("count", "mark")]
        stated = {name for written in effects for name in (written if isinstance(written, dict) else as_texts(written))}
        gone = set([name for name in named if name not in stated][:surplus])
        return {name: value for name, value in named.items() if name not in gone}

    def _rewrite(self, changes: JsonObject, when: Json) -> None:
        arguments = dict(self.facts.arguments if self.arguments is None else self.arguments)
        for name, value in changes.items():
            if value is None:
                arguments.pop(name, None)
            else:
                arguments[name] = fill_value(value, when, self._known)
        self.arguments = arguments


def _lets_through(clause: JsonObject) -> bool:
    """Whether a clause permits something, so that it must match only what a call certainly does."""
    return ("allow" in clause or "quit" in clause) and clause.keys().isdisjoint(("deny", "defer", "ask"))


def _finite(number: float) -> float:
    """A count limited to the range of JSON numbers."""
    return max(-limits.RULE_COUNT_MAX, min(limits.RULE_COUNT_MAX, number))


def _name(written: str, filled: str) -> str:
    """The name of a counter or mark; if filled placeholders make it too long, its beginning and a digest."""
    most = limits.RULE_NAME_CHARS_MAX
    if filled == written or len(filled) <= most:
        return filled
    return f"{filled[: most // 2]}…{sha256_of_value(filled)[: most // 4]}"
