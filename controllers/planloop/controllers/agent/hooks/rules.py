"""Evaluate the rule of a hook: a pure function of the facts and the hook's memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field, replace
from typing import Any, TypeVar

from planloop.controllers.agent.hooks.facts import HookFacts
from planloop.controllers.agent.hooks.rule_conditions import (
    ConditionInput,
    RuleMemory,
    UndecidableRule,
    as_list,
    as_text,
    condition_matches,
    last_name,
    matching_children,
    matching_messages,
    member_at,
    turns_since,
)
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, encode, sha256_of_value
from planloop.schemas.frozen import frozen, mutable, remade
from planloop.schemas.objects.hook import STRICTNESS, Decision, HookRule, HookSpec, HookVerdict
from planloop.schemas.rules.language import RULE_PLACEHOLDER

# The blanks of a rule's texts, `{…}`, filled with what is known: pure. What may stand there is
# `planloop.schemas.rules.language`.


def fill_and_clamp(text: str, when: Json, known: ConditionInput) -> str:
    """`text` with its blanks filled, clamped to what an agent is to read of it."""
    most = limits.RULE_WORDS_CHARS_MAX
    said = fill_text(text, when, known)
    return said if len(said) <= most else said[: most - 1] + "…"


def fill_text(text: str, when: Json, known: ConditionInput) -> str:
    """The same whole. `when` is the condition of the clause, for the children and the message that fitted it."""

    def value(blank: re.Match[str]) -> str:
        if blank[1] is None:
            return blank[0][0]  # `{{` and `}}`.
        found = _value(blank[1], blank[2] or "", when, known)
        return "" if found is None else as_text(found)

    return RULE_PLACEHOLDER.sub(value, text)


def fill_value(value: Json, when: Json, known: ConditionInput) -> Json:
    """A value with the blanks of every text in it filled; a text that is a blank and nothing else keeps its type."""
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
    """The first message, or the names of the children, that fitted the first condition about such."""
    wanted = next(_said(name, when), next(_said("messages", when), {}) if name == "message" else {})
    if name == "children":
        return ", ".join(last_name(child.task) for child in matching_children(wanted, facts))
    return next((one.body for one in matching_messages(wanted, facts)), None)


def _said(name: str, when: Json) -> Iterator[JsonObject]:
    """What a condition says under `name`, however deep in `any` and `all`."""
    if not isinstance(when, dict):
        return
    if isinstance(when.get(name), dict):
        yield when[name]
    for part in (*when.get("all", ()), *when.get("any", ())):
        yield from _said(name, part)


# What a rule answers: a pure function of the facts and the hook's memory. The language is in
# `planloop.schemas.rules.language`.

N = TypeVar("N", bound=float)


def evaluate_rule(hook: HookSpec, memory: Json, facts: HookFacts) -> HookVerdict:
    """The verdict of the rule that is `hook`'s mind, at `facts`. What it cannot make sense of is its `fault`.

    `memory` is what the last verdict of this very hook kept, None at first; the verdict's own is kept from now on.
    """
    assert isinstance(hook.mind, HookRule), "only rules are evaluated"
    return _read(hook, hook.mind.clauses, memory, facts).verdict


@frozen
class FirstClauses:
    """What the clauses before an agent come to. `consults`: the agent is asked, and `verdict` has the memory only."""

    verdict: HookVerdict
    consults: bool = False


def evaluate_first(hook: HookSpec, memory: Json, facts: HookFacts) -> FirstClauses:
    """What the `first` of a hook says; a hook without one always has its agent consulted."""
    return _read(hook, hook.first, memory, facts) if hook.first else FirstClauses(HookVerdict(), consults=True)


def _read(hook: HookSpec, clauses: tuple[JsonObject, ...], memory: Json, facts: HookFacts) -> FirstClauses:
    began = _remembered(memory, facts)
    reading = _Reading(hook, facts, began)
    try:
        for index, clause in enumerate(clauses):
            if reading.takes(index, clause):
                break
    except UndecidableRule as fault:
        return FirstClauses(HookVerdict(fault=str(fault)))
    is_kept = reading.memory != began or (memory is None and _counts_turns(list(clauses)))
    return FirstClauses(reading.verdict(reading.memory.to_json() if is_kept else None), reading.consults)


def holds_outside_rule(when: JsonObject, hook: HookSpec, memory: Json, facts: HookFacts) -> bool:
    """Whether a condition that stands outside of the rule holds, as that of `expires`; not if nobody can tell."""
    try:
        known = ConditionInput(facts, hook.options, _remembered(memory, facts), bool(hook.original), lets_through=True)
        return condition_matches(when, known)
    except UndecidableRule:
        return False


def _remembered(memory: Json, facts: HookFacts) -> RuleMemory:
    """What was kept, as far as it is a rule's: a hook that was edited may have been a program before."""
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
    """Whether a rule counts from its own beginning, so that this has to be kept."""
    if isinstance(rule, dict):
        return "turns-since" in rule or _counts_turns(list(rule.values()))
    if isinstance(rule, list):
        return any(_counts_turns(one) for one in rule)
    return isinstance(rule, str) and "{turns-since." in rule


@mutable
class _Reading:
    """One reading of the clauses, from the top. What a clause counts the next one sees."""

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
        """Lets a clause have its effects if it holds. True when it is the last that is read."""
        when = clause.get("when", {})
        known = remade(self._known, lets_through=_lets_through(clause))
        if not condition_matches(when, known) or self._is_repeated(str(index), clause, when):
            return False
        added = self._added(clause, when)
        gone, marked = self._names(clause.get("reset", []), when), self._names(clause.get("mark", []), when)
        self._count(added)
        is_last = self._say(clause, when)
        self._set_back(gone, added, marked)  # Only now: what the clause says is of the turns and counts until here.
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
                said = clause[name]
                self.decision = name
                self.reason = fill_and_clamp(said, when, self._known) if isinstance(said, str) else ""
                return True
        self.consults = clause.get("consult") is True
        return self.consults

    def verdict(self, memory: Json) -> HookVerdict:
        changed = None if self.arguments == self.facts.arguments else self.arguments
        said = "\n".join(self.comments)
        return HookVerdict(self.decision, self.reason, changed, said, memory, self.is_last)

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
        """What the clause adds to which counters."""
        counted = clause.get("count", [])
        return counted if isinstance(counted, dict) else dict.fromkeys(self._names(counted, when), 1)

    def _count(self, added: dict[str, float]) -> None:
        for name, number in added.items():
            raised = _finite(self.memory.counts.get(name, 0) + number)
            self.memory = replace(self.memory, counts=self._bounded({**self.memory.counts, name: raised}))

    def _set_back(self, gone: list[str], added: dict[str, float], marked: list[str]) -> None:
        """Forgets what is reset, but for what the same clause adds to it, and sets marks at this turn."""
        if gone:
            counts = {name: number for name, number in self.memory.counts.items() if name not in gone}
            counts |= {name: _finite(number) for name, number in added.items() if name in gone}
            marks = {name: turn for name, turn in self.memory.marks.items() if name not in gone}
            self.memory = replace(self.memory, counts=counts, marks=marks)
        for name in marked:
            self.memory = replace(self.memory, marks=self._bounded({**self.memory.marks, name: self.facts.turn}))

    def _names(self, written: Json, when: Json) -> list[str]:
        return [_name(one, fill_text(one, when, self._known)) for one in as_list(written)]

    def _bounded(self, named: dict[str, N]) -> dict[str, N]:
        """Without the oldest names over the bound; only those with blanks go, for an agent may make them up."""
        surplus = max(0, len(named) - limits.RULE_NAMES_MAX)
        if not surplus:
            return named
        clauses = self.hook.mind.clauses if isinstance(self.hook.mind, HookRule) else self.hook.first
        effects = [clause.get(effect, []) for clause in clauses for effect in ("count", "mark")]
        stated = {name for written in effects for name in (written if isinstance(written, dict) else as_list(written))}
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
    """Whether a clause permits: then a call that may be another than it seems is not meant by it."""
    return ("allow" in clause or "quit" in clause) and clause.keys().isdisjoint(("deny", "defer", "ask"))


def _finite(number: float) -> float:
    """A count that JSON can hold, however large what is added to it."""
    return max(-limits.RULE_COUNT_MAX, min(limits.RULE_COUNT_MAX, number))


def _name(written: str, filled: str) -> str:
    """The name of a counter or mark; where blanks make it a long one, its beginning and a digest."""
    most = limits.RULE_NAME_CHARS_MAX
    if filled == written or len(filled) <= most:
        return filled
    return f"{filled[: most // 2]}…{sha256_of_value(filled)[: most // 4]}"
