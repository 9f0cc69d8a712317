"""The records of verdicts, and what they do to calls. Pure.

A verdict is written into the open turn, where everything that follows from it is computed; the hook's own status gets
what it remembers and how often it fired, in the same append. The original of a call stays in the reply as it was
written; the arguments that a hook gave it stand beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planloop.controllers.agent import turn
from planloop.controllers.agent.calling import waiting
from planloop.controllers.agent.hooking import moments
from planloop.controllers.agent.hooking.moments import Question, Standing
from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.status import Fired, boxed, unboxed
from planloop.schemas.call import CallResult, CallState, as_map
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.hook import ACTIVE, OVER, HookSpec, Verdict
from planloop.schemas.record import Change, Draft, SetStatus
from planloop.schemas.resource import Resource

ACTOR = "controller:agent"
DEFERRED = "Deferred"
"""The error of a call that a hook said a no for now to."""


def memory_of(hook: Resource, spec: HookSpec, seen: Observed, originals: Mapping[str, Resource]) -> Json:
    """What the hook remembers: nothing in a new run of its agent; a read-only copy what its original does."""
    if spec.is_read_only and spec.original in originals:
        return unboxed(originals[spec.original].status.get("memory"))
    if hook.status.get("incarnation") != seen.status.incarnation:
        return None
    return unboxed(hook.status.get("memory"))


def fired(seen: Observed, given: Sequence[tuple[Question, Verdict]], cost: JsonObject | None = None) -> Draft:
    """The record of verdicts, each with its question; `cost` is what they took beside the agent's own steps."""
    made = [_fired(question, verdict) for question, verdict in given]
    opened = seen.status.open
    waited = {} if opened is None else waiting.waited(seen, opened)
    merge: JsonObject = {"open": {"fired": {one.key: boxed(one.to_json()) for one in made}, **waited}}
    if seen.resource.status.get("why"):
        merge["why"] = None  # Whom it asked; if there is somebody left, that is said anew.
    changes: list[Change] = [SetStatus(seen.resource.address, seen.resource.uid, merge)]
    changes += [_remembered(seen, question, verdict) for question, verdict in given]
    told = [_told(question, one) for (question, _), one in zip(given, made, strict=True)]
    data: JsonObject = {"turn": 0 if opened is None else opened.turn, "fired": told}
    if cost:
        data["cost"] = cost
    return Draft("hook.fired", ACTOR, seen.resource.address, tuple(changes), data)


def asking(seen: Observed, why: str) -> Draft:
    """The record of whom the agent waits for while programs think."""
    return Draft("object.updated", ACTOR, seen.resource.address, (turn.change(seen, {"why": why}),), {"why": why})


def _fired(question: Question, verdict: Verdict) -> Fired:
    version = moments.version_of(question.hook)
    return Fired(question.spec.name, question.point, question.index, question.rewrites, verdict, version)


def _remembered(seen: Observed, question: Question, verdict: Verdict) -> SetStatus:
    """What the verdict leaves in the hook: its memory, that it quits, how often it fired, and where it broke."""
    hook, merge = question.hook, _begun(seen, question.hook)
    now = {**hook.status, **merge}
    merge["fired"] = 1 + int(now.get("fired") or 0)
    if verdict.fault:
        broke: JsonObject = unboxed(now.get("faults")) or {}
        count = 1 + int(broke.get(question.point, {}).get("count", 0))
        merge["faults"] = boxed(broke | {question.point: {"count": count, "last": verdict.fault}})
    if not question.spec.is_read_only:
        if verdict.memory is not None:
            merge["memory"] = boxed(verdict.memory)
        if verdict.is_last:
            merge |= {"state": OVER, "why": verdict.reason or "it has quit", "signal": OVER}
    return SetStatus(hook.address, hook.uid, merge)


def _begun(seen: Observed, hook: Resource) -> JsonObject:
    """What the status of a hook begins with in a run of its agent in which it has done nothing; empty once it has."""
    if hook.status.get("incarnation") == seen.status.incarnation:
        return {}
    forgotten: JsonObject = {name: None for name in ("memory", "why", "faults") if hook.status.get(name) is not None}
    since_turn = max(0, seen.status.turn - 1)
    begun: JsonObject = {"incarnation": seen.status.incarnation, "state": ACTIVE, "fired": 0, "since": None}
    return begun | {"since_turn": since_turn} | forgotten


def noted(seen: Observed, question: Question, memory: Json) -> SetStatus:
    """The hook remembers something though it has not given its verdict yet."""
    merge = _begun(seen, question.hook) | {"memory": boxed(memory)}
    return SetStatus(question.hook.address, question.hook.uid, merge)


def _told(question: Question, one: Fired) -> JsonObject:
    """A verdict as its record has it, with enough to put it back into a turn."""
    out: JsonObject = {"key": one.key, "hook": question.hook.address, "point": one.point}
    if question.call is not None:
        out |= {"call": question.call.address, "tool": question.call.tool}
    return out | {"verdict": one.verdict.to_json()}


def late(question: Question, agent: str, turn: int, verdict: Verdict) -> Draft:
    """Evidence of a verdict that nobody waits for any more; it changes nothing."""
    told = _told(question, _fired(question, verdict))
    return Draft("hook.fired", ACTOR, agent, (), {"turn": turn, "fired": [told], "late": True})


def forbidden(standing: Standing) -> CallResult:
    """The result of a call to which a hook gave arguments that the rights forbid."""
    return CallResult(CallState.DENIED, standing.refused, "Denied")


def refusal(seen: Observed, standing: Standing) -> CallResult | None:
    """The result of a call that its hooks do not let start; None: they do, perhaps after somebody's yes."""
    ends = standing.merged
    if ends.decision == "deny":
        return CallResult(CallState.DENIED, ends.words, "Denied")
    if ends.decision == "defer":
        return CallResult(CallState.DENIED, f"not now, do what is asked first. {ends.words}", DEFERRED)
    opened = seen.status.open
    if opened is not None and moments.is_final(seen, opened):
        back = moments.sent_back(seen, opened)
        if back.decision != "allow":
            return CallResult(CallState.DENIED, f"your answer was sent back, go on. {back.words}", "Denied")
    return None


def given_to(standing: Standing, original: Json) -> JsonObject | None:
    """The arguments that hooks gave the call; None when they left it as it was."""
    arguments = as_map(standing.call.arguments)
    return arguments if standing.by and arguments != as_map(original) else None
