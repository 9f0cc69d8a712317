"""A script: the deterministic mind of examples, tests and benchmarks.

Steps are taken in order; a step with `when` waits until it matches what the agent was told or how its children stand.
`expect` looks at the results of the calls just before it; a call that failed with no `expect` after it ends the script
with `fail`. The end of the script claims `done`; a rejected claim with no step left claims `fail`.

Memory: the index of the next step, messages heard and not yet matched, until when it sleeps, how often it claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final

from planloop.controllers.agent.minds import actions
from planloop.controllers.agent.minds.matching import Facts, expectation_fault, matched
from planloop.controllers.agent.minds.port import ProposedCall, Reply, TurnInput
from planloop.schemas import limits
from planloop.schemas.call import CallState
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen, mutable, remade
from planloop.schemas.message import Message

LEVELS: Final = frozenset({"task", "rejected"})  # Keys of the made messages that tell of a level.
LIVE: Final = frozenset({"", "waiting", "blocked", "running", "checking", "paused", "stopping"})


@frozen
class _Place:
    """Where the script stands."""

    step: int = 0
    heard: tuple[JsonObject, ...] = ()
    is_checked: bool = True
    ended: int = 0
    until: float | None = None

    def to_json(self) -> JsonObject:
        out: JsonObject = {"step": self.step, "heard": list(self.heard), "until": self.until}
        return out | {"is_checked": self.is_checked, "ended": self.ended}


@mutable
class _Walk:
    """One turn through the steps."""

    turn: TurnInput
    place: _Place
    draft: actions.Draft = field(default_factory=actions.Draft)


class ScriptMind:
    """Answers a turn by walking `steps` until one needs a result, a wait or a claim."""

    def __init__(self, steps: Sequence[JsonObject]) -> None:
        self._steps = tuple(steps)

    async def respond(self, turn: TurnInput) -> Reply:
        place = _Place(**_place_of(turn.memory))
        heard = [message.to_json() for message in turn.messages if not _is_level(message)]
        walk = _Walk(turn, remade(place, heard=(*place.heard, *heard)[-limits.INBOX_MESSAGES_MAX :]))
        is_woken = any(message.delivery == "interrupt" for message in turn.messages)
        if place.until is not None and turn.now < place.until and not is_woken:
            # Woken early: the message is kept, the sleep goes on.
            walk.draft.sleep_s = place.until - turn.now
        else:
            walk.place = remade(walk.place, until=None)
            self._walk(walk)
        return remade(walk.draft.reply(), memory=walk.place.to_json())

    def _walk(self, walk: _Walk) -> None:
        while not walk.draft.calls:
            place = walk.place
            step = self._steps[place.step] if place.step < len(self._steps) else None
            if fault := _unexpected(walk, step):
                _claim(walk, "fail", fault)
                return
            if step is None:
                _end(walk)
                return
            if not self._take(walk, step):
                return

    def _take(self, walk: _Walk, step: JsonObject) -> bool:
        """Takes one step; False when the script has to wait."""
        place, turn = walk.place, walk.turn
        facts = Facts(turn.results, turn.children, place.heard, turn.rejected, turn.goal, turn.notes)
        found = matched(step.get("when"), facts)
        if found is None:
            return False
        heard = tuple(message for message in place.heard if message["id"] not in found)
        verb = actions.verb_of(step)
        if verb in ("done", "fail"):
            if verb == "done" and _has_live_children(turn):
                return False
            walk.place = remade(place, heard=heard)
            _claim(walk, verb, step[verb], place.step + 1)
            return False
        walk.place = remade(place, step=place.step + 1, heard=heard, is_checked=True)
        if "expect" in step or verb is None:
            return True
        actions.add(walk.draft, {key: value for key, value in step.items() if key != "when"})
        walk.place = remade(walk.place, is_checked=not walk.draft.calls)
        if verb == "sleep" and walk.draft.sleep_s is not None:
            walk.place = remade(walk.place, until=turn.now + walk.draft.sleep_s)
            return False
        return True


def _is_level(message: Message) -> bool:
    # How a child stands and what a verdict says are matched as they are now, so their news need not be kept.
    return message.kind == "state" and isinstance(message.body, dict) and not LEVELS.isdisjoint(message.body)


def _place_of(memory: object) -> JsonObject:
    if not isinstance(memory, dict):
        return {}
    return {**memory, "heard": tuple(memory["heard"])}


def _unexpected(walk: _Walk, step: JsonObject | None) -> str:
    """Why the results just in are not what the script goes on from; empty when they are."""
    if step is not None and "expect" in step:
        return expectation_fault(step["expect"], walk.turn.results)
    if walk.place.is_checked or (step is not None and _looks_at_results(step)):
        return ""
    failed = [outcome for outcome in walk.turn.results if outcome.result.state is not CallState.SUCCEEDED]
    return "; ".join(f"{each.tool} failed: {each.result.text}" for each in failed)


def _looks_at_results(step: JsonObject) -> bool:
    when = step.get("when")
    return isinstance(when, dict) and "result" in when


def _has_live_children(turn: TurnInput) -> bool:
    return any(child.state in LIVE and not child.is_removing for child in turn.children)


def _end(walk: _Walk) -> None:
    if _has_live_children(walk.turn):
        return
    if walk.turn.rejected is not None and walk.place.ended:
        reason = str(walk.turn.rejected.get("message", "")) or "its checks do not hold"
        _claim(walk, "fail", f"no step is left, and {reason}")
        return
    _claim(walk, "done", "\n".join(walk.draft.texts) or None)


def _claim(walk: _Walk, kind: str, value: object, step: int | None = None) -> None:
    arguments = {"result": value} if kind == "done" else {"reason": str(value)}
    walk.draft.calls.append(ProposedCall(kind, arguments))
    walk.place = remade(
        walk.place, step=walk.place.step if step is None else step, is_checked=True, ended=walk.place.ended + 1
    )
