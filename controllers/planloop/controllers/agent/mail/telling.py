"""Why an agent is awake, and what it is told: reasons and messages recomputed from state, each fact told once.

What was told is kept in the status as digests and tokens (`told`), written by the record that starts the turn, so a
crash before that record tells it again and a crash after it does not. Messages of others are in the inbox; these here
are made from levels: an edited goal, a child that ended, a container that is not as it was, a verdict, an answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache
from typing import Final

from planloop.controllers import inside
from planloop.controllers.agent import budget
from planloop.controllers.agent.hooking import watchers
from planloop.controllers.agent.observing import Child, Observed
from planloop.controllers.agent.thinking import transcript
from planloop.schemas import limits
from planloop.schemas.approval import APPROVED, REJECTED
from planloop.schemas.call import CallState
from planloop.schemas.encoding import Json, JsonObject, digest_of
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.message import Message, MessageKind
from planloop.schemas.resource import Resource
from planloop.schemas.task import TaskState

SENDER: Final = "controller:agent"
CALL: Final = "call"  # Why an outside agent has a turn: its client said something.
UNREAD: Final = "Unread"  # The error of a claim that is made over messages that nobody has read.
DIGEST_CHARS: Final = 12
_MADE: Final = re.compile(r"\d+\.\d+\.\d+")  # Incarnation, turn, number: what people and agents send has other ids.


@frozen
class News:
    """`reasons` are words for people and programs; `told` is merged into the status with the turn that tells it.

    `read` are the ids of messages that leave the inbox. `reopens` says that an outstanding claim does not end the
    work: it was rejected, or (`withdraws`) the goal moved under it. `drops` are objects of no more use once told.
    """

    reasons: tuple[str, ...]
    messages: tuple[Message, ...]
    told: JsonObject
    read: tuple[str, ...]
    reopens: bool
    withdraws: bool
    drops: tuple[Resource, ...]


@mutable
class _Gathering:
    seen: Observed
    reasons: list[str]
    messages: list[Message]
    told: JsonObject
    reopens: bool = False
    withdraws: bool = False
    drops: list[Resource] = field(default_factory=list)
    inbox: tuple[Message, ...] = ()

    def tell(self, reason: str, body: Json, *, sender: str = SENDER, kind: MessageKind = "state") -> None:
        """One made message; its id says which turn and which of its facts it is. No `reason`: it wakes nobody."""
        self.reasons += [reason] if reason else []
        status = self.seen.status
        message_id = f"{status.incarnation}.{status.turn + 1}.{len(self.messages)}"
        receiver = self.seen.resource.address
        self.messages.append(Message(message_id, kind, sender, receiver, body, self.seen.now))


@lru_cache(maxsize=limits.SPECS_KEPT_MAX)
def digest(text: str) -> str:
    """A short digest of a told text."""
    return digest_of(text)[:DIGEST_CHARS]


def news(seen: Observed) -> News:
    """Everything that is a reason to take a turn now, in a stable order. No reasons: asleep."""
    inbox = _heard(seen)
    found = _Gathering(seen, [], [], {}, inbox=inbox)
    for gather in _OF_WATCHERS if seen.is_watcher else _OF_A_TASK:
        gather(found)
    if seen.nature.is_guest:
        # Nobody from outside can be woken: it hears what there is when it says something.
        found.reasons[:] = [CALL] if seen.status.said else []
    # A discussion whose call was given up: whoever still answers is heard by nobody.
    found.drops += [each for each in seen.threads.values() if each.spec["call"] and each.spec["call"] not in seen.calls]
    return News(
        tuple(dict.fromkeys(found.reasons)),
        (*inbox, *found.messages),
        found.told,
        tuple(dict.fromkeys((*(each.id for each in inbox), *_void(seen)))),
        found.reopens,
        found.withdraws,
        tuple(found.drops),
    )


def _messages(found: _Gathering) -> None:
    wakes = [message.kind for message in found.inbox if message.wakes]
    found.reasons += ["message"] if wakes else []
    found.reasons += ["conflict"] if "conflict" in wakes else []


def _going_on(found: _Gathering) -> None:
    if found.seen.status.again:
        found.reasons.append("results" if found.seen.status.past else "again")


def _start(found: _Gathering) -> None:
    if found.seen.status.turn == 0:
        found.reasons.insert(0, "start")


def _heard(seen: Observed) -> tuple[Message, ...]:
    """The unread messages that the next turn has.

    A model in the middle of a piece of work gets those that only queue when it would sleep or end; scripts and programs
    say themselves when they look at a message.
    """
    is_at_rest = not seen.status.again or any(call.result.error == UNREAD for call in seen.status.past)
    unread = watchers.hearable(seen.unread, seen.status.asked.values())
    if is_at_rest or not seen.nature.is_model:
        return unread
    is_urgent = [each.delivery != "queue" or each.asks or each.kind not in ("chat", "state") for each in unread]
    return tuple(each for each, urgent in zip(unread, is_urgent, strict=True) if urgent)


def _void(seen: Observed) -> tuple[str, ...]:
    """Messages that have expired or were for an earlier run: they leave with the next turn, unread."""
    live = {each.id for each in seen.unread}
    return tuple(each for each in seen.status.inbox if each not in live)


def rejected_verdict(seen: Observed) -> JsonObject | None:
    """The verdict on the outstanding claim when it was not accepted."""
    claim, verdict = seen.status.claim, seen.verdict
    if claim is None or verdict is None or verdict.get("accepted"):
        return None
    is_ours = verdict.get("claim") == claim.seq and verdict.get("incarnation", claim.incarnation) == claim.incarnation
    return verdict if is_ours else None


def _verdict(found: _Gathering) -> None:
    verdict = rejected_verdict(found.seen)
    if verdict is None:
        return
    found.reopens = True
    if found.seen.status.told.verdict != verdict["claim"]:
        found.told["verdict"] = verdict["claim"]
        found.tell("verdict", {"rejected": verdict})


def has_unheard(seen: Observed) -> bool:
    """Whether messages or the ends of children wait to be told, so that nothing said now can be the last word."""
    told = seen.status.told.children
    if seen.is_watcher:
        return False  # Each question has an answer of its own.
    is_unheard = any(child.is_ended and told.get(child.address) != child.token for child in seen.children)
    return is_unheard or any(each.wakes for each in seen.unread)


def failures(seen: Observed) -> tuple[Child, ...]:
    """The children that have failed and still stand so: not begun anew, and not being taken away."""
    return tuple(each for each in seen.children if each.state == TaskState.FAILED and not each.view.is_removing)


def words_of(failed: Sequence[Child]) -> str:
    """The failed children and why, in one line; empty for none."""
    named = [f"{each.address} failed: {each.view.message or 'it says no more'}" for each in failed]
    more = len(named) - limits.CHILDREN_NAMED_MAX
    return "; ".join(named[: limits.CHILDREN_NAMED_MAX]) + (f"; and {more} more" if more > 0 else "")


def is_redirected(seen: Observed) -> bool:
    """Whether the goal or the notes are other than the mind was told last."""
    spec, told = seen.task_spec, seen.status.told
    if spec is None or seen.is_watcher:
        return False
    return (digest(spec.goal), digest(spec.notes)) != (told.goal, told.notes)


def redirection(seen: Observed) -> tuple[tuple[Message, ...], JsonObject]:
    """What a mind that is being asked is told of an edit of its goal or notes, and the merge into `told` with it."""
    found = _Gathering(seen, [], [], {})
    _edits(found)
    return tuple(found.messages), found.told


def _edits(found: _Gathering) -> None:
    spec, told = found.seen.task_spec, found.seen.status.told
    if spec is None:
        return
    for name, text, before in (("goal", spec.goal, told.goal), ("notes", spec.notes, told.notes)):
        now = digest(text)
        if now == before:
            continue
        found.told[name] = now
        if found.seen.status.turn > 0:
            # The first turn has both in its input; only an edit of what was told is news.
            found.reopens = found.withdraws = True
            found.tell(name, {name: text})


def _children(found: _Gathering) -> None:
    told = found.seen.status.told.children
    tokens = {child.address: child.token for child in found.seen.children if child.is_ended}
    for child in found.seen.children:
        if not child.is_ended or told.get(child.address) == child.token:
            continue
        view = child.view
        facts = {"task": view.task, "state": view.state, "result": view.result, "message": view.message}
        found.tell(f"child {child.state}", facts, sender=child.address.replace("task/", "agent/", 1))
    changed: JsonObject = {address: token for address, token in tokens.items() if told.get(address) != token}
    # A child that is gone or at work again is forgotten, so that its next ending is told.
    changed |= {address: None for address in told if address not in tokens}
    if changed:
        found.told["children"] = changed


def _containers(found: _Gathering) -> None:
    """Containers that it works with and that are not as it knows them. Its first turn begins with those as they are."""
    seen, told = found.seen, found.seen.status.told.containers
    changed: JsonObject = {}
    for container in seen.containers:
        now, before = inside.standing(container), told.get(container.address, "")
        if not now.run or now.run == before:
            continue
        changed[container.address] = now.run
        if before and seen.status.turn > 0:
            # One that is started again and again wakes nobody each time: that is told with the next turn.
            is_urgent = bool({now.run, before} & {inside.ILL, inside.OVER})
            facts = {"container": container.address, "state": now.state, "message": now.since(before)}
            found.tell(f"container {now.state}" if is_urgent else "", facts)
    if changed:
        found.told["containers"] = changed


def _answers(found: _Gathering) -> None:
    """What was asked for and is answered; the object is dropped with the turn that tells it, so it is told once."""
    for approval in found.seen.approvals.values():
        if approval.state in (APPROVED, REJECTED) and approval.spec["kind"] not in ("call", "input"):
            facts = {"answer": approval.state, "reason": approval.status.get("reason", "")}
            found.tell("answer", {**_asked_for(approval), **facts}, kind="approval")
            found.drops.append(approval)
        elif approval.address in found.seen.unanswerable:
            facts = {"answer": "nobody", "reason": "whoever was asked takes no turns any more"}
            found.tell("answer", {**_asked_for(approval), **facts}, kind="approval")
            found.drops.append(approval)
    for call in doubts(found.seen):
        if call.state != CallState.UNKNOWN:
            happened = call.state == CallState.SUCCEEDED
            facts = {"call": _name_of(found.seen, call), "tool": call.spec["tool"], "happened": happened}
            found.tell("answer", facts, kind="approval")
            found.drops.append(call)


def is_made(message: Message) -> bool:
    """Whether it is one of those made here, from levels: nobody sent it."""
    return _MADE.fullmatch(message.id) is not None


def _asked_for(approval: Resource) -> JsonObject:
    """What was asked for, without the revision and the id that a held patch got: they differ from run to run."""
    what: JsonObject = approval.spec["what"]
    if approval.spec["kind"] == "request":
        return {"asked": approval.address, "what": what}
    return {"what": {name: what[name] for name in ("ops", "reason") if name in what}}


def _name_of(seen: Observed, call: Resource) -> str:
    """A call as the mind knows it: models by its place, for they are shown no ids."""
    if not seen.nature.is_model:
        return call.address
    return transcript.call_id(call.spec["turn"], call.spec["index"])


def doubts(seen: Observed) -> Sequence[Resource]:
    """Calls of earlier turns that were told as unknown and wait for somebody's word."""
    turn = seen.status.open
    current = {call.address for call in turn.calls} if turn is not None else set()
    return [call for address, call in seen.calls.items() if address not in current]


def _timers(found: _Gathering) -> None:
    seen = found.seen
    if seen.status.wake_at is not None and seen.status.wake_at <= seen.now:
        found.reasons.append("timer")
    every, ended_at = seen.spec.wake_every_s, seen.status.ended_at
    has_live = any(child.is_live for child in seen.children)
    if every is not None and ended_at is not None and has_live and ended_at + every <= seen.now:
        found.reasons.append("watchdog")


def _low_budget(found: _Gathering) -> None:
    seen = found.seen
    if not found.reasons:
        return  # Nobody is woken by that alone.
    own = seen.task_spec.budget if seen.task_spec is not None else seen.spec.budget
    is_low = any(budget.is_low(seen.left, bounds) for bounds in (own, seen.spec.budget, seen.spec.cap.budget))
    if is_low and not seen.status.told.budget:
        found.told["budget"] = True
        found.tell("budget", {"budget_left": dict(seen.left)})
    elif seen.status.told.budget and not is_low:
        found.told["budget"] = False


_OF_WATCHERS: Final = (_answers, _messages, _going_on)
"""What can be news to an agent that was made for a hook: nothing that is about a task, for it has none."""

_OF_A_TASK: Final = (
    _verdict,
    _edits,
    _children,
    _containers,
    _answers,
    _timers,
    _messages,
    _going_on,
    _start,
    _low_budget,
)
"""What can be news to any other agent, in the order in which it is told."""
