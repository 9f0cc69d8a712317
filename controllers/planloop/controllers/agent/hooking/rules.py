"""What a rule answers: a pure function of the facts and the hook's memory. The language is in
`planloop.schemas.rule`."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any, TypeVar

from planloop.controllers.agent.hooking import blanks
from planloop.controllers.agent.hooking.comparing import CannotTell, many
from planloop.controllers.agent.hooking.conditions import Known, Memory, holds
from planloop.controllers.agent.hooking.facts import Facts
from planloop.schemas import limits
from planloop.schemas.encoding import Json, JsonObject, digest_of
from planloop.schemas.frozen import frozen, mutable, remade
from planloop.schemas.hook import STRICTNESS, Decision, HookSpec, Rule, Verdict

N = TypeVar("N", bound=float)


def evaluate(hook: HookSpec, memory: Json, facts: Facts) -> Verdict:
    """The verdict of the rule that is `hook`'s mind, at `facts`. What it cannot make sense of is its `fault`.

    `memory` is what the last verdict of this very hook kept, None at first; the verdict's own is kept from now on.
    """
    assert isinstance(hook.mind, Rule), "only rules are evaluated"
    return _read(hook, hook.mind.clauses, memory, facts).verdict


@frozen
class First:
    """What the clauses before an agent come to. `consults`: the agent is asked, and `verdict` has the memory only."""

    verdict: Verdict
    consults: bool = False


def first(hook: HookSpec, memory: Json, facts: Facts) -> First:
    """What the `first` of a hook says; a hook without one always has its agent consulted."""
    return _read(hook, hook.first, memory, facts) if hook.first else First(Verdict(), consults=True)


def _read(hook: HookSpec, clauses: tuple[JsonObject, ...], memory: Json, facts: Facts) -> First:
    began = _remembered(memory, facts)
    reading = _Reading(hook, facts, began)
    try:
        for index, clause in enumerate(clauses):
            if reading.takes(index, clause):
                break
    except CannotTell as fault:
        return First(Verdict(fault=str(fault)))
    is_kept = reading.memory != began or (memory is None and _counts_turns(list(clauses)))
    return First(reading.verdict(reading.memory.to_json() if is_kept else None), reading.consults)


def condition_holds(when: JsonObject, hook: HookSpec, memory: Json, facts: Facts) -> bool:
    """Whether a condition that stands outside of the rule holds, as that of `expires`; not if nobody can tell."""
    try:
        known = Known(facts, hook.options, _remembered(memory, facts), bool(hook.original), lets_through=True)
        return holds(when, known)
    except CannotTell:
        return False


def _remembered(memory: Json, facts: Facts) -> Memory:
    """What was kept, as far as it is a rule's: a hook that was edited may have been a program before."""
    if not isinstance(memory, dict) or not isinstance(memory.get("since"), int):
        return Memory(facts.turn)
    return Memory(
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
    facts: Facts
    memory: Memory
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
        if not holds(when, known) or self._is_repeated(str(index), clause, when):
            return False
        added = self._added(clause, when)
        gone, marked = self._names(clause.get("reset", []), when), self._names(clause.get("mark", []), when)
        self._count(added)
        is_last = self._say(clause, when)
        self._set_back(gone, added, marked)  # Only now: what the clause says is of the turns and counts until here.
        return is_last

    def _say(self, clause: JsonObject, when: Json) -> bool:
        if "note" in clause:
            notes = [*self.memory.notes, blanks.shown(clause["note"], when, self._known)]
            self.memory = replace(self.memory, notes=tuple(notes[-limits.RULE_NOTES_MAX :]))
        if "comment" in clause:
            self.comments.append(blanks.shown(clause["comment"], when, self._known))
        if "rewrite" in clause:
            self._rewrite(clause["rewrite"], when)
        self.is_last = self.is_last or clause.get("quit") is True
        for name in STRICTNESS:
            if name in clause:
                said = clause[name]
                self.decision = name
                self.reason = blanks.shown(said, when, self._known) if isinstance(said, str) else ""
                return True
        self.consults = clause.get("consult") is True
        return self.consults

    def verdict(self, memory: Json) -> Verdict:
        changed = None if self.arguments == self.facts.arguments else self.arguments
        said = "\n".join(self.comments)
        return Verdict(self.decision, self.reason, changed, said, memory, self.is_last)

    @property
    def _known(self) -> Known:
        return Known(self.facts, self.hook.options, self.memory, bool(self.hook.original))

    def _is_repeated(self, index: str, clause: JsonObject, when: Json) -> bool:
        if "once" not in clause:
            return False
        now = digest_of(blanks.filled(clause["once"], when, self._known))
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
        return [_name(one, blanks.filled(one, when, self._known)) for one in many(written)]

    def _bounded(self, named: dict[str, N]) -> dict[str, N]:
        """Without the oldest names over the bound; only those with blanks go, for an agent may make them up."""
        surplus = max(0, len(named) - limits.RULE_NAMES_MAX)
        if not surplus:
            return named
        clauses = self.hook.mind.clauses if isinstance(self.hook.mind, Rule) else self.hook.first
        effects = [clause.get(effect, []) for clause in clauses for effect in ("count", "mark")]
        stated = {name for written in effects for name in (written if isinstance(written, dict) else many(written))}
        gone = set([name for name in named if name not in stated][:surplus])
        return {name: value for name, value in named.items() if name not in gone}

    def _rewrite(self, changes: JsonObject, when: Json) -> None:
        arguments = dict(self.facts.arguments if self.arguments is None else self.arguments)
        for name, value in changes.items():
            if value is None:
                arguments.pop(name, None)
            else:
                arguments[name] = blanks.filled_value(value, when, self._known)
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
    return f"{filled[: most // 2]}…{digest_of(filled)[: most // 4]}"
