"""Why an agent starts a turn: messages, goal edits, ended children, containers, verdicts; the answers it owes. Pure.

Reasons and messages are computed from state, each fact once: an edited goal, an ended child, a changed container, a
verdict, an answer. The record that starts the turn writes digests and tokens of them to the status (`told`). After a
crash before that record they are computed again; after a later crash they are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Final

from planloop.controllers.agent import budget
from planloop.controllers.agent.hooks import watchers
from planloop.controllers.agent.models import chat_request
from planloop.controllers.agent.observe import ObservedAgent, ObservedChild
from planloop.controllers.agent.status import AGENT_ACTOR, OpenTurn, wrap_value
from planloop.controllers.shared import container_exec
from planloop.reconciler.effects.truncate import truncate_output
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, encode, sha256_of_value
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.log.record import Change, SetStatus
from planloop.schemas.objects import message as objects_message
from planloop.schemas.objects.agent import NO_MODEL, AgentState
from planloop.schemas.objects.approval import APPROVED, REJECTED
from planloop.schemas.objects.call import CallState
from planloop.schemas.objects.message import Message, MessageKind, ThreadAnswer
from planloop.schemas.objects.task import ENDED, TaskState
from planloop.schemas.resource import Resource

# A question is a message that `asks`. When the agent reads it, it moves from the inbox to `asked`. The record of the
# answer removes it there and writes the answer into the thread, so a question gets one answer. A claim answers only
# when its verdict is in. If the task has ended, a question starts a turn that does not change the verdict.

FAILURE_CONDITIONS: Final = {
    "AwaitingApproval": "Blocked",
    "AwaitingInput": "Blocked",
    "InDoubt": "Blocked",
    NO_MODEL: NO_MODEL,
}
"""The error of a question to an agent that cannot continue, by the condition that blocks it.

A wait for a lock is not in it, because it ends soon. Neither is a pause: the asking call checks that itself, because
when both agents are paused, both should continue later.
"""


VERDICT_CLAIM: Final = "verdict"
"""The kind of a claim that answers the question of a hook. It ends the turn, not the task."""


def unanswered_questions(agent: ObservedAgent) -> tuple[Message, ...]:
    """Return all questions that wait for this agent's answer, read or unread, oldest first."""
    unread = (message for message in agent.unread if message.asks)
    return tuple(sorted((*agent.status.mail.asked.values(), *unread), key=lambda each: (each.sent_at, each.id)))


def owed_merge(messages: Iterable[Message]) -> JsonObject:
    """Return the merge into `asked` for the messages that a turn reads."""
    return {message.id: message.to_json() for message in messages if message.asks}


def unanswered_merge(agent: ObservedAgent) -> JsonObject:
    """Return the merge into the inbox for a new incarnation: the questions that the old one did not answer."""
    return {message.id: message.to_json() for message in agent.status.mail.asked.values()}


def thread_answer_changes(
    agent: ObservedAgent, answer: ThreadAnswer, to: Iterable[Message]
) -> tuple[JsonObject, tuple[Change, ...]]:
    """Return the merge into the agent's status and the changes that answer the questions `to` with `answer`."""
    merge: JsonObject = {"asked": {}, "inbox": {}}
    changes: list[Change] = []
    for message in to:
        merge["asked" if message.id in agent.status.mail.asked else "inbox"][message.id] = None
        if message.thread:
            said: JsonObject = {"answers": {message.id: wrap_value(answer.to_json())}}
            changes.append(SetStatus(message.thread, objects_message.thread_uid(message.thread), said))
    return {name: value for name, value in merge.items() if value}, tuple(changes)


def answer_of_turn(agent: ObservedAgent, turn: OpenTurn) -> ThreadAnswer | None:
    """Return the answer of an ending turn to open questions; None while work on the answer continues."""
    if not agent.status.mail.asked:
        return None
    if turn.claim is not None:
        is_answer = turn.is_answer or turn.claim["kind"] == VERDICT_CLAIM
        return answer_of_claim(turn.claim["kind"], turn.claim["result"]) if is_answer else None
    if turn.reply.calls or turn.reply.then == "again":
        return None
    # Silence of an agent asked as a hook means no objection.
    is_owed = turn.is_answer or any(each.kind == "hook" for each in agent.status.mail.asked.values())
    return _of_text(turn.reply.text) if turn.reply.text or is_owed else None


def answer_of_claim(kind: str, result: Json) -> ThreadAnswer:
    """Return the answer that a claim gives to open questions."""
    if kind == "fail":
        return ThreadAnswer(truncate_output(_text(result).encode(), limits.ANSWER_BYTES_MAX), "Failed")
    return ThreadAnswer(_of_text(_text(result)).text, value=None if isinstance(result, str) else result)


def answer_of_task(agent: ObservedAgent) -> ThreadAnswer:
    """Return the answer to questions that were asked before the task ended."""
    assert agent.task is not None, "an ended task exists"
    return answer_of_end(agent.task)


def answer_of_end(task: Resource) -> ThreadAnswer:
    """Return the answer of an ended task: its result, or its failure with the reason."""
    if task.state == TaskState.DONE or (task.state not in ENDED and task.status.get("stage") == "done"):
        return answer_of_claim("done", (task.status.get("result") or {}).get("text"))
    ready = task.status.get("conditions", {}).get("Ready") or {}
    return ThreadAnswer(str(ready.get("message") or f"the task is {task.state}"), str(ready.get("reason") or "Failed"))


def answer_if_unable(agent: ObservedAgent, state: AgentState, condition: str, why: str) -> ThreadAnswer | None:
    """Return the answer for a resting agent that cannot answer; None if it may still do so.

    If all questions are from people, they stay open: a person can also give the approval or input that the agent waits
    for.
    """
    asked = unanswered_questions(agent)
    if not asked or (condition in FAILURE_CONDITIONS and all(each.sender.startswith("human:") for each in asked)):
        return None
    match state:
        case AgentState.PARKED:
            return ThreadAnswer(why, "Parked")
        case AgentState.BLOCKED:
            return _failing(condition, why)
        case AgentState.ENDED:
            return ThreadAnswer(why, "Cancelled")
        case AgentState.IDLE if agent.task_state == TaskState.BLOCKED:
            return ThreadAnswer("the task is blocked" if agent.task is None else why_not_ready(agent.task), "Blocked")
        case _:
            return None


def answer_if_blocked(agent: Resource) -> ThreadAnswer | None:
    """The same, for an agent that another agent asks."""
    why = str(agent.status.get("why") or "")
    match agent.state:
        case AgentState.PARKED:
            return ThreadAnswer(why, "Parked")
        case AgentState.BLOCKED:
            return next(
                (_failing(name, why) for name in agent.status.get("conditions", {}) if name in FAILURE_CONDITIONS), None
            )
        case _:
            return None


def _failing(condition: str, why: str) -> ThreadAnswer | None:
    error = FAILURE_CONDITIONS.get(condition)
    return ThreadAnswer(why, error) if error else None


def why_not_ready(task: Resource) -> str:
    """Return why a task is not ready, from its condition."""
    condition = task.status.get("conditions", {}).get("Ready") or {}
    return f"the task is {task.state}: {condition.get('message') or 'it cannot start'}"


def _of_text(text: str) -> ThreadAnswer:
    return ThreadAnswer(truncate_output(text.encode(), limits.ANSWER_BYTES_MAX))


def _text(result: Json) -> str:
    if result is None:
        return ""
    return result if isinstance(result, str) else encode(result).decode()


CALL_KEY: Final = "call"  # The reason of a turn of an external agent: a call of its client.
UNREAD_ERROR: Final = "Unread"  # The error of a claim made with unread messages.
FACT_DIGEST_CHARS: Final = 12
_MADE: Final = re.compile(r"\d+\.\d+\.\d+")  # Incarnation, turn, number. Messages of people and agents have other ids.


@frozen
class WakeNews:
    """The input of a turn, and why it starts.

    `reasons` are short names for people and programs. `told` is merged into the status when the turn starts. `read` are
    the ids of messages that leave the inbox. `reopens`: an outstanding claim does not end the work, because it was
    rejected or (`withdraws`) the goal changed. `drops` are objects that are removed once the agent has read the news.
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
    seen: ObservedAgent
    reasons: list[str]
    messages: list[Message]
    told: JsonObject
    reopens: bool = False
    withdraws: bool = False
    drops: list[Resource] = field(default_factory=list)
    inbox: tuple[Message, ...] = ()

    def tell(self, reason: str, body: Json, *, sender: str = AGENT_ACTOR, kind: MessageKind = "state") -> None:
        """Add a message computed from state; its id is built from the turn. Without `reason` it does not wake."""
        self.reasons += [reason] if reason else []
        status = self.seen.status
        message_id = f"{status.incarnation}.{status.turn + 1}.{len(self.messages)}"
        receiver = self.seen.resource.address
        self.messages.append(Message(message_id, kind, sender, receiver, body, self.seen.now))


@lru_cache(maxsize=limits.SPECS_KEPT_MAX)
def fact_digest(text: str) -> str:
    """Return a short digest of a text that the agent has read."""
    return sha256_of_value(text)[:FACT_DIGEST_CHARS]


def collect_news(agent: ObservedAgent) -> WakeNews:
    """Return all news and reasons for a turn, in a stable order. Without reasons the agent sleeps."""
    inbox = _heard(agent)
    found = _Gathering(agent, [], [], {}, inbox=inbox)
    for gather in _OF_WATCHERS if agent.is_watcher else _OF_A_TASK:
        gather(found)
    if agent.nature.is_guest:
        # MCP clients cannot be woken: they get the news with their next call.
        found.reasons[:] = [CALL_KEY] if agent.status.client.said else []
    # If the call of a discussion was cancelled, no agent reads further answers.
    found.drops += [
        each
        for each in agent.objects.threads.values()
        if each.spec["call"] and each.spec["call"] not in agent.objects.calls
    ]
    return WakeNews(
        tuple(dict.fromkeys(found.reasons)),
        (*inbox, *found.messages),
        found.told,
        tuple(dict.fromkeys((*(each.id for each in inbox), *_void(agent)))),
        found.reopens,
        found.withdraws,
        tuple(found.drops),
    )


def _messages(found: _Gathering) -> None:
    wakes = [message.kind for message in found.inbox if message.wakes]
    found.reasons += ["message"] if wakes else []
    found.reasons += ["conflict"] if "conflict" in wakes else []


def _continuation(found: _Gathering) -> None:
    if found.seen.status.wake.again:
        found.reasons.append("results" if found.seen.status.memory.past else "again")


def _start(found: _Gathering) -> None:
    if found.seen.status.turn == 0:
        found.reasons.insert(0, "start")


def _heard(agent: ObservedAgent) -> tuple[Message, ...]:
    """Return the unread messages for the next turn.

    A model at work gets messages with delivery `queue` only before it sleeps or ends. Scripts and programs decide
    themselves when they read a message.
    """
    is_at_rest = not agent.status.wake.again or any(
        call.result.error == UNREAD_ERROR for call in agent.status.memory.past
    )
    unread = watchers.readable_messages(agent.unread, agent.status.mail.asked.values())
    if is_at_rest or not agent.nature.is_model:
        return unread
    is_urgent = [each.delivery != "queue" or each.asks or each.kind not in ("chat", "state") for each in unread]
    return tuple(each for each, urgent in zip(unread, is_urgent, strict=True) if urgent)


def _void(agent: ObservedAgent) -> tuple[str, ...]:
    """Return the ids of messages that expired or were for an earlier incarnation. The next turn removes them unread."""
    live = {each.id for each in agent.unread}
    return tuple(each for each in agent.status.mail.inbox if each not in live)


def rejected_verdict(agent: ObservedAgent) -> JsonObject | None:
    """Return the verdict on the outstanding claim if it was rejected."""
    claim, verdict = agent.status.claim, agent.verdict
    if claim is None or verdict is None or verdict.get("accepted"):
        return None
    is_ours = verdict.get("claim") == claim.seq and verdict.get("incarnation", claim.incarnation) == claim.incarnation
    return verdict if is_ours else None


def _verdict(found: _Gathering) -> None:
    verdict = rejected_verdict(found.seen)
    if verdict is None:
        return
    found.reopens = True
    if found.seen.status.wake.told.verdict != verdict["claim"]:
        found.told["verdict"] = verdict["claim"]
        found.tell("verdict", {"rejected": verdict})


def has_unread_news(agent: ObservedAgent) -> bool:
    """Whether unread messages or unreported ends of children prevent the current reply from being final."""
    told = agent.status.wake.told.children
    if agent.is_watcher:
        return False  # Each question gets its own answer.
    is_unheard = any(child.is_ended and told.get(child.address) != child.token for child in agent.context.children)
    return is_unheard or any(each.wakes for each in agent.unread)


def failed_children(agent: ObservedAgent) -> tuple[ObservedChild, ...]:
    """Return the failed children that are not being removed."""
    return tuple(
        each for each in agent.context.children if each.state == TaskState.FAILED and not each.view.is_removing
    )


def describe_failures(failed: Sequence[ObservedChild]) -> str:
    """Describe the failed children and their errors in one line; empty for none."""
    named = [f"{each.address} failed: {each.view.message or 'no reason given'}" for each in failed]
    more = len(named) - limits.CHILDREN_NAMED_MAX
    return "; ".join(named[: limits.CHILDREN_NAMED_MAX]) + (f"; and {more} more" if more > 0 else "")


def is_redirected(agent: ObservedAgent) -> bool:
    """Whether the goal or the notes changed since the decider last read them."""
    spec, told = agent.task_spec, agent.status.wake.told
    if spec is None or agent.is_watcher:
        return False
    return (fact_digest(spec.goal), fact_digest(spec.notes)) != (told.goal, told.notes)


def redirection_news(agent: ObservedAgent) -> tuple[tuple[Message, ...], JsonObject]:
    """Return the messages about an edit of goal or notes for a decider at work, and the merge into `told`."""
    found = _Gathering(agent, [], [], {})
    _edits(found)
    return tuple(found.messages), found.told


def _edits(found: _Gathering) -> None:
    spec, told = found.seen.task_spec, found.seen.status.wake.told
    if spec is None:
        return
    for name, text, before in (("goal", spec.goal, told.goal), ("notes", spec.notes, told.notes)):
        now = fact_digest(text)
        if now == before:
            continue
        found.told[name] = now
        if found.seen.status.turn > 0:
            # The first turn has both in its input; only a later edit is news.
            found.reopens = found.withdraws = True
            found.tell(name, {name: text})


def _children(found: _Gathering) -> None:
    told = found.seen.status.wake.told.children
    tokens = {child.address: child.token for child in found.seen.context.children if child.is_ended}
    for child in found.seen.context.children:
        if not child.is_ended or told.get(child.address) == child.token:
            continue
        view = child.view
        facts = {"task": view.task, "state": view.state, "result": view.result, "message": view.message}
        found.tell(f"child {child.state}", facts, sender=child.address.replace("task/", "agent/", 1))
    changed: JsonObject = {address: token for address, token in tokens.items() if told.get(address) != token}
    # Forget a child that was removed or works again, so that its next end is reported.
    changed |= {address: None for address in told if address not in tokens}
    if changed:
        found.told["children"] = changed


def _containers(found: _Gathering) -> None:
    """Add the containers of its task that changed since its last turn. The first turn only records their state."""
    seen, told = found.seen, found.seen.status.wake.told.containers
    changed: JsonObject = {}
    for container in seen.context.containers:
        now, before = container_exec.container_progress(container), told.get(container.address, "")
        if not now.run or now.run == before:
            continue
        changed[container.address] = now.run
        if before and seen.status.turn > 0:
            # Restarts do not wake the agent each time; the next turn reports them.
            is_urgent = bool({now.run, before} & {container_exec.UNHEALTHY, container_exec.ENDED})
            facts = {"container": container.address, "state": now.state, "message": now.since(before)}
            found.tell(f"container {now.state}" if is_urgent else "", facts)
    if changed:
        found.told["containers"] = changed


def _answers(found: _Gathering) -> None:
    """Add the answers to requests. The turn that reports one drops its object, so it is reported once."""
    for approval in found.seen.objects.approvals.values():
        if approval.state in (APPROVED, REJECTED) and approval.spec["kind"] not in ("call", "input"):
            facts = {"answer": approval.state, "reason": approval.status.get("reason", "")}
            found.tell("answer", {**_asked_for(approval), **facts}, kind="approval")
            found.drops.append(approval)
        elif approval.address in found.seen.objects.unanswerable:
            facts = {"answer": "nobody", "reason": "the agent that was asked no longer takes turns"}
            found.tell("answer", {**_asked_for(approval), **facts}, kind="approval")
            found.drops.append(approval)
    for call in unknown_calls(found.seen):
        if call.state != CallState.UNKNOWN:
            happened = call.state == CallState.SUCCEEDED
            facts = {"call": _name_of(found.seen, call), "tool": call.spec["tool"], "happened": happened}
            found.tell("answer", facts, kind="approval")
            found.drops.append(call)


def is_own_news(message: Message) -> bool:
    """Whether the message was computed here from state, so has no sender."""
    return _MADE.fullmatch(message.id) is not None


def _asked_for(approval: Resource) -> JsonObject:
    """The content of a request, without revision and id of a held patch, which differ from run to run."""
    what: JsonObject = approval.spec["what"]
    if approval.spec["kind"] == "request":
        return {"asked": approval.address, "what": what}
    return {"what": {name: what[name] for name in ("ops", "reason") if name in what}}


def _name_of(agent: ObservedAgent, call: Resource) -> str:
    """The name of a call for the decider: models see no generated ids, so for them it is the position."""
    if not agent.nature.is_model:
        return call.address
    return chat_request.tool_call_id(call.spec["turn"], call.spec["index"])


def unknown_calls(agent: ObservedAgent) -> Sequence[Resource]:
    """Return calls of earlier turns with an unknown outcome that a person has to decide."""
    turn = agent.status.open
    current = {call.address for call in turn.reply.calls} if turn is not None else set()
    return [call for address, call in agent.objects.calls.items() if address not in current]


def _timers(found: _Gathering) -> None:
    seen = found.seen
    if seen.status.wake.wake_at is not None and seen.status.wake.wake_at <= seen.now:
        found.reasons.append("timer")
    every, ended_at = seen.spec.wake_every_s, seen.status.wake.ended_at
    has_live = any(child.is_live for child in seen.context.children)
    if every is not None and ended_at is not None and has_live and ended_at + every <= seen.now:
        found.reasons.append("watchdog")


def _low_budget(found: _Gathering) -> None:
    seen = found.seen
    if not found.reasons:
        return  # This alone does not wake the agent.
    own = seen.task_spec.budget if seen.task_spec is not None else seen.spec.budget
    is_low = any(
        budget.is_budget_low(seen.budget.left, bounds) for bounds in (own, seen.spec.budget, seen.spec.cap.budget)
    )
    if is_low and not seen.status.wake.told.budget:
        found.told["budget"] = True
        found.tell("budget", {"budget_left": dict(seen.budget.left)})
    elif seen.status.wake.told.budget and not is_low:
        found.told["budget"] = False


_OF_WATCHERS: Final = (_answers, _messages, _continuation)
"""The sources of news for the agent of a hook, which has no task."""

_OF_A_TASK: Final = (
    _verdict,
    _edits,
    _children,
    _containers,
    _answers,
    _timers,
    _messages,
    _continuation,
    _start,
    _low_budget,
)
"""The sources of news for any other agent, in the order of the input."""
