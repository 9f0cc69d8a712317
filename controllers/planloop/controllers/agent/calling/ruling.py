"""The records that move calls before and after they run: ruled on, answered by a person, ended elsewhere. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planloop.controllers.agent import seating, turn
from planloop.controllers.agent.calling import calls, running, waiting
from planloop.controllers.agent.calling.approving import asked_for_yes
from planloop.controllers.agent.calling.calls import Tools
from planloop.controllers.agent.hooking import hearing, lattice, moments
from planloop.controllers.agent.hooking.hearing import Heard
from planloop.controllers.agent.mail import answering
from planloop.controllers.agent.mail.telling import redirection
from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.status import OpenTurn, boxed
from planloop.schemas.approval import APPROVED
from planloop.schemas.call import CallResult, CallState, result_from_json
from planloop.schemas.encoding import JsonObject
from planloop.schemas.record import Change, Draft, Drop, SetStatus
from planloop.schemas.resource import Resource

YES_TO: Final = "yes_to"
"""In a call's status: the late verdicts for which a person's yes was asked."""


def authorised(seen: Observed, tools: Tools, approve: Sequence[str]) -> Draft:
    """Rules on every call of the reply in one append: refused ones have their result with it."""
    opened = seen.status.open
    assert opened is not None, "calls are ruled on inside a turn"
    results: JsonObject = {}
    changes: list[Change] = []
    data: JsonObject = {}
    rulings = calls.rulings(seen, tools, approve)
    heard = hearing.heard(seen, tools, approve, rulings) if seen.hooks or opened.fired else Heard(rulings)
    for call, ruled in zip(opened.calls, heard.rulings, strict=True):
        made = heard.made(seen, call.address)
        match ruled:
            case calls.Allowed():
                changes.append(running.status(made, CallState.AUTHORIZED))
                data[call.address] = "allowed"
            case calls.NeedsYes(pattern=pattern, why=why):
                changes += asked_for_yes(seen, made, pattern, why)
                data[call.address] = why or f"needs a yes to {pattern}"
            case calls.Refused(result=result):
                results[call.address] = boxed(result.to_json())
                changes.append(Drop(made.address, made.uid))
                data[call.address] = f"{result.state}: {result.text}"
    merge: JsonObject = {"open": {"results": results}} if results else {"state": "running"}
    changes[:0] = [turn.change(seen, merge), *heard.changes]
    return Draft("call.authorized", turn.ACTOR, seen.resource.address, tuple(changes), data)


def answered(seen: Observed, asking: Sequence[Resource]) -> Draft:
    """Calls that waited for a yes go on, or get a no as their result; the approvals are of no more use."""
    opened = seen.status.open
    assert opened is not None, "calls wait inside a turn"
    changes: list[Change] = []
    results: JsonObject = {}
    for call in asking:
        approval = seen.approvals.get(str(call.status.get("approval")))
        if approval is not None and approval.state == APPROVED:
            changes.append(running.status(call, CallState.AUTHORIZED, approval=None))
        else:
            results[call.address] = boxed(_rejected(approval).to_json())
            changes.append(Drop(call.address, call.uid))
        if approval is not None:
            changes.append(Drop(approval.address, approval.uid))
    merge: JsonObject = {"open": {"results": results, **waiting.waited(seen, opened)}}
    changes.insert(0, turn.change(seen, merge))
    return Draft("call.authorized", turn.ACTOR, seen.resource.address, tuple(changes))


def reruled(seen: Observed, startable: Sequence[Resource]) -> Draft | None:
    """What hooks say to calls about to start that were not asked about them as they are now; None: nothing against it.

    One that wants other arguments denies these: the call is made again, and goes through all hooks.
    """
    opened = seen.status.open
    assert opened is not None, "calls start inside a turn"
    if not opened.fired:
        return None
    for call in startable:
        if call.state != CallState.AUTHORIZED or not (late := moments.late(seen, call.address)):
            continue
        said = lattice.counted(late, tuple(seen.hooks))
        merged, wanted = lattice.merged(said), lattice.rewritten(said, call.spec["arguments"])
        if merged.decision in ("deny", "defer") or wanted is not None:
            words = merged.words or f"hook {wanted[0] if wanted else ''} gives it other arguments by now: do it again"
            result = CallResult(CallState.DENIED, words, "Denied")
            merge: JsonObject = {"open": {"results": {call.address: boxed(result.to_json())}}}
            changes: tuple[Change, ...] = (turn.change(seen, merge), Drop(call.address, call.uid))
            data: JsonObject = {call.address: f"{result.state}: {result.text}"}
            return Draft("call.authorized", turn.ACTOR, seen.resource.address, changes, data)
        asks = [one.key for one in late if one.verdict.decision == "ask"]
        if merged.decision == "ask" and set(asks) - set(call.status.get(YES_TO) or ()):
            why = f"asks for a person's yes: {merged.words}"
            yes = SetStatus(call.address, call.uid, {YES_TO: [*asks]})
            changes = (turn.change(seen, {}), *asked_for_yes(seen, call, "", why), yes)
            return Draft("call.authorized", turn.ACTOR, seen.resource.address, changes, {call.address: why})
    return None


def _rejected(approval: Resource | None) -> CallResult:
    reason = "" if approval is None else str(approval.status.get("reason") or "")
    return CallResult(CallState.DENIED, f"refused by a person{': ' if reason else ''}{reason}", "Rejected")


def interrupted(seen: Observed) -> Draft:
    """The step in flight is given up for a message or an edit.

    A mind that was being asked is asked again with the message; calls that have not ended are cancelled, those in doubt
    stay in doubt.
    """
    opened = seen.status.open
    assert opened is not None, "a step in flight belongs to a turn"
    if not opened.is_replied:
        return _told_before_the_reply(seen, opened)
    made = [seen.calls[call.address] for call in opened.calls if call.address not in opened.results]
    left = [call for call in made if call.state != CallState.UNKNOWN]
    result = CallResult(CallState.CANCELLED, f"given up {_cause(seen)}", "Interrupted")
    results: JsonObject = {call.address: boxed(result.to_json()) for call in left}
    asked = {call.status.get("approval") for call in left}
    gone = (*left, *(each for each in seen.approvals.values() if each.address in asked))
    drops = tuple(Drop(each.address, each.uid) for each in gone)
    merge: JsonObject = {"open": {"results": results, **waiting.waited(seen, opened)}}
    changes: tuple[Change, ...] = (turn.change(seen, merge), *drops)
    return Draft("call.settled", turn.ACTOR, seen.resource.address, changes, {"tool": "", "result": result.to_json()})


def _cause(seen: Observed) -> str:
    if seating.is_given_up(seen):
        return "by its client"
    return "for a message" if seen.interrupts else "for news"


def _told_before_the_reply(seen: Observed, opened: OpenTurn) -> Draft:
    """What stopped the request becomes part of the turn, so that the mind is asked again with it."""
    if not seen.nature.is_model:
        read = seen.interrupts
    elif opened.failure is not None:
        read = seen.unread  # Nobody is being asked: whatever it is, it is worth another try.
    else:
        read = tuple(message for message in seen.unread if message.delivery != "queue")
    news, told = redirection(seen) if seen.nature.is_redirected else ((), {})
    merge: JsonObject = {
        "open": {"messages": [message.to_json() for message in (*opened.messages, *read, *news)]},
        "inbox": dict.fromkeys(message.id for message in read),
        "asked": answering.owed(read),
    }
    if told:
        merge["told"] = told
    if opened.failure is not None:
        merge["open"] |= {"failure": None, "tries": 0, **waiting.waited(seen, opened)}
    data: JsonObject = {"read": [message.id for message in read]}
    return Draft("message.read", turn.ACTOR, seen.resource.address, (turn.change(seen, merge),), data)


def collected(seen: Observed, call: Resource) -> Draft:
    """The result of a call that ended elsewhere: found unknown after a crash, or settled by a person's word."""
    raw = call.status.get("result")
    if raw is not None:
        return turn.settled(seen, turn.Outcome(call, result_from_json(raw)))
    state = CallState(call.state)
    error = "" if state is CallState.SUCCEEDED else str(state)
    return turn.settled(seen, turn.Outcome(call, CallResult(state, str(call.status.get("why") or state), error)))
