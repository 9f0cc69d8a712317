"""What an agent owes: questions it has been asked, and how each gets its one answer.

Pure. A question is a message that `asks`. Read, it moves from the inbox to `asked`; the answer takes it away there and
writes itself into the thread in the same record, so that it is given once. While the task lives a claim is no answer
yet: the verdict on it is. When the task is over a question is a reason for a turn of its own, which changes no verdict.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.status import OpenTurn, boxed
from planloop.reconciler.effects.clamping import clamped
from planloop.schemas import limits, thread
from planloop.schemas.agent import NO_MODEL, AgentState
from planloop.schemas.encoding import Json, JsonObject, encode
from planloop.schemas.message import Message
from planloop.schemas.record import Change, SetStatus
from planloop.schemas.resource import Resource
from planloop.schemas.task import ENDED, TaskState
from planloop.schemas.thread import Answer

FAILURES: Final = {
    "AwaitingApproval": "Blocked",
    "AwaitingInput": "Blocked",
    "InDoubt": "Blocked",
    NO_MODEL: NO_MODEL,
}
"""The error of a question whose agent cannot go on, by the condition that blocks it. Not here: a lock is soon free; and
who asks sees for itself that an agent is paused, for when both are paused both are to go on later."""


VERDICT: Final = "verdict"
"""The kind of a claim that is none: it ends the turn with the answer to the question of a hook, and no work with it."""


def questions(seen: Observed) -> tuple[Message, ...]:
    """Every question that waits for this agent's answer, read or not, oldest first."""
    unread = (message for message in seen.unread if message.asks)
    return tuple(sorted((*seen.status.asked.values(), *unread), key=lambda each: (each.sent_at, each.id)))


def owed(messages: Iterable[Message]) -> JsonObject:
    """The merge into `asked` for the messages that a turn reads."""
    return {message.id: message.to_json() for message in messages if message.asks}


def asked_again(seen: Observed) -> JsonObject:
    """The merge into the inbox for a new incarnation: what the old one was asked and did not answer."""
    return {message.id: message.to_json() for message in seen.status.asked.values()}


def given(seen: Observed, answer: Answer, to: Iterable[Message]) -> tuple[JsonObject, tuple[Change, ...]]:
    """The merge into the agent's status and the changes that give `answer` to the questions `to`."""
    merge: JsonObject = {"asked": {}, "inbox": {}}
    changes: list[Change] = []
    for message in to:
        merge["asked" if message.id in seen.status.asked else "inbox"][message.id] = None
        if message.thread:
            said: JsonObject = {"answers": {message.id: boxed(answer.to_json())}}
            changes.append(SetStatus(message.thread, thread.uid_of(message.thread), said))
    return {name: value for name, value in merge.items() if value}, tuple(changes)


def of_turn(seen: Observed, turn: OpenTurn) -> Answer | None:
    """What a turn that ends says to the open questions; None while the work on an answer goes on."""
    if not seen.status.asked:
        return None
    if turn.claim is not None:
        is_answer = turn.is_answer or turn.claim["kind"] == VERDICT
        return of_claim(turn.claim["kind"], turn.claim["result"]) if is_answer else None
    if turn.calls or turn.then == "again":
        return None
    # Whoever is asked as a hook and says nothing has nothing against it.
    is_owed = turn.is_answer or any(each.kind == "hook" for each in seen.status.asked.values())
    return _of_text(turn.text) if turn.text or is_owed else None


def of_claim(kind: str, result: Json) -> Answer:
    """The answer that a claim is."""
    if kind == "fail":
        return Answer(clamped(_text(result).encode(), limits.ANSWER_BYTES_MAX), "Failed")
    return Answer(_of_text(_text(result)).text, value=None if isinstance(result, str) else result)


def of_task(seen: Observed) -> Answer:
    """The answer to what was asked while the task was at work, now that it is over."""
    assert seen.task is not None, "a task that is over is there"
    return of_end(seen.task)


def of_end(task: Resource) -> Answer:
    """The answer that a task which is over is by itself: its result, or why it failed and the class of that."""
    if task.state == TaskState.DONE or (task.state not in ENDED and task.status.get("stage") == "done"):
        return of_claim("done", (task.status.get("result") or {}).get("text"))
    ready = task.status.get("conditions", {}).get("Ready") or {}
    return Answer(str(ready.get("message") or f"its task is {task.state}"), str(ready.get("reason") or "Failed"))


def unable(seen: Observed, state: AgentState, condition: str, why: str) -> Answer | None:
    """What is said for an agent that rests and cannot answer as things stand; None when it may still do so.

    A person who asks can also give the yes or the input that it waits for, so nobody gives up for them.
    """
    asked = questions(seen)
    if not asked or (condition in FAILURES and all(each.sender.startswith("human:") for each in asked)):
        return None
    match state:
        case AgentState.PARKED:
            return Answer(why, "Parked")
        case AgentState.BLOCKED:
            return _failing(condition, why)
        case AgentState.ENDED:
            return Answer(why, "Cancelled")
        case AgentState.IDLE if seen.task_state == TaskState.BLOCKED:
            return Answer("its task is blocked" if seen.task is None else ready(seen.task), "Blocked")
        case _:
            return None


def blocked(agent: Resource) -> Answer | None:
    """The same, of an agent as others see it."""
    why = str(agent.status.get("why") or "")
    match agent.state:
        case AgentState.PARKED:
            return Answer(why, "Parked")
        case AgentState.BLOCKED:
            return next((_failing(name, why) for name in agent.status.get("conditions", {}) if name in FAILURES), None)
        case _:
            return None


def _failing(condition: str, why: str) -> Answer | None:
    error = FAILURES.get(condition)
    return Answer(why, error) if error else None


def ready(task: Resource) -> str:
    """Why a task is not ready, as its controller says it."""
    condition = task.status.get("conditions", {}).get("Ready") or {}
    return f"its task is {task.state}: {condition.get('message') or 'it cannot start'}"


def _of_text(text: str) -> Answer:
    return Answer(clamped(text.encode(), limits.ANSWER_BYTES_MAX) if text else "(it said nothing)")


def _text(result: Json) -> str:
    if result is None:
        return ""
    return result if isinstance(result, str) else encode(result).decode()
