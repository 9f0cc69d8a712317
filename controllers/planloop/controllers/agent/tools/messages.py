"""The messaging tools `send`, `discuss` and `bridge`, and the tools `done` and `fail` that end a task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypedDict, Unpack

from pydantic import Field

from planloop.controllers.agent.mail import message_policy
from planloop.controllers.agent.mail.message_policy import DeliveryRefused, NotReachable
from planloop.controllers.agent.mail.wake_reasons import (
    UNREAD_ERROR,
    describe_failures,
    failed_children,
    has_unread_news,
)
from planloop.controllers.agent.observe import ObservedAgent, ObservedChild
from planloop.controllers.agent.status import wrap_value
from planloop.controllers.agent.tools.errors import ToolFailed
from planloop.controllers.agent.tools.tool import CallEnding, PendingCall, Settlement, ToolContext, failure, success
from planloop.controllers.agent.turn.records import CHILD_FAILED
from planloop.reconciler.store.store import View
from planloop.schemas import address as addresses
from planloop.schemas import limits
from planloop.schemas.address import parse_address
from planloop.schemas.canonical_json import Json, JsonObject, encode
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, Drop, Put, SetStatus
from planloop.schemas.objects import message
from planloop.schemas.objects.agent import AgentState
from planloop.schemas.objects.approval import WAITING
from planloop.schemas.objects.call import CallState
from planloop.schemas.objects.message import (
    Delivery,
    Message,
    MessageKind,
    ThreadAnswer,
    ThreadSpec,
    ThreadStatus,
    question_id,
)
from planloop.schemas.objects.task import ENDED, is_task_over
from planloop.schemas.resource import Resource

# Speakers write their answers into the row of the thread (`planloop.controllers.agent.mail.wake_reasons`). The waiting
# call reads only that row, so it continues after any crash. A speaker that was removed is skipped. For one that cannot
# continue, or does not answer within `limits.ANSWER_WAIT_S`, the answer is the reason.


@frozen
class ThreadState:
    """A thread, with what is needed to continue it."""

    context: ToolContext
    address: str
    spec: ThreadSpec
    status: ThreadStatus

    @property
    def view(self) -> View:
        return self.context.services.store.view

    @property
    def now(self) -> float:
        return self.context.seen.now

    def answer(self, index: int) -> ThreadAnswer | None:
        """The answer of the speaker at `index`, or the reason why there is none; None while it may still answer."""
        given = self.status.answers.get(question_id(self.address, index))
        if given is not None:
            return given
        speaker = self.view.get(self.spec.speakers[index])
        if speaker is None:
            return ThreadAnswer("the agent was removed", "Gone")
        if (why := why_no_answer(self.view, speaker, self.context.agent)) is not None:
            return why
        if self.now >= self.status.asked_at + limits.ANSWER_WAIT_S:
            state, why = speaker.state or "new", speaker.status.get("why")
            return ThreadAnswer(f"no answer yet: the agent is {state}{f', {why}' if why else ''}", "NoAnswer")
        return None

    @property
    def due_at(self) -> float:
        """When the call stops waiting for the current speaker, in seconds since 1970."""
        return self.status.asked_at + limits.ANSWER_WAIT_S


def read_thread(context: ToolContext, address: str) -> ThreadState | None:
    """Return the thread at `address`; None if it was removed."""
    found = context.services.store.view.get(address)
    if found is None:
        return None
    return ThreadState(
        context, address, message.thread_from_json(found.spec), message.thread_status_from_json(found.status)
    )


def open_thread(context: ToolContext, spec: ThreadSpec) -> tuple[str, tuple[Change, ...]]:
    """Return the address of a new thread for the call of `context`, and the changes that open it."""
    address = f"thread/{context.spec.op}"
    uid = message.thread_uid(address)
    status: JsonObject = {"state": "open", "asked": 0, "asked_at": context.seen.now}
    return address, (Put(address, uid, spec.to_json(), owner=context.agent), SetStatus(address, uid, status))


def ask_speaker_changes(talk: ThreadState, index: int, body: Json) -> tuple[Change, ...]:
    """Return the changes that ask the speaker at `index`. If it cannot be reached, the reason becomes its answer."""
    question = question_id(talk.address, index)
    delivered = _delivered(talk, talk.spec.speakers[index], question, body, asks=True)
    if isinstance(delivered, DeliveryRefused):
        answer = wrap_value(ThreadAnswer(delivered.message, delivered.reason).to_json())
        return (SetStatus(talk.address, message.thread_uid(talk.address), {"answers": {question: answer}}),)
    return delivered


def share_changes(talk: ThreadState, name: str, body: Json, *, but: Sequence[str]) -> tuple[Change, ...]:
    """Return the changes that send `body` to all agents of the thread except `but`, to read in their next turn.

    Agents that were removed or have a full inbox are skipped.
    """
    changes: tuple[Change, ...] = ()
    for receiver in dict.fromkeys((*talk.spec.speakers, *talk.spec.listeners)):
        message_id = f"{talk.address.partition('/')[2]}.{name}.{receiver.partition('/')[2]}"
        delivered = () if receiver in but else _delivered(talk, receiver, message_id, body, asks=False)
        changes += () if isinstance(delivered, DeliveryRefused) else delivered
    return changes


def next_speaker(talk: ThreadState, answer: ThreadAnswer) -> tuple[ThreadState, SetStatus]:
    """Return the thread after `answer` to the current question, with the next speaker asked."""
    question, index = question_id(talk.address, talk.status.asked), talk.status.asked + 1
    status = ThreadStatus(index, talk.now, {**talk.status.answers, question: answer})
    merge: JsonObject = {"asked": index, "asked_at": talk.now, "answers": {question: wrap_value(answer.to_json())}}
    return replace(talk, status=status), SetStatus(talk.address, message.thread_uid(talk.address), merge)


def close_thread_changes(talk: ThreadState, spoke: Iterable[str]) -> tuple[Change, ...]:
    """Return the changes that end the thread. The object is removed; each agent in it keeps one state record."""
    # No address, because models read no generated ids. The key is constant, so an agent keeps the newest record only.
    facts: JsonObject = {"key": "discussion", "discussion": "over", "spoke": list(dict.fromkeys(spoke))}
    drop = Drop(talk.address, message.thread_uid(talk.address))
    return (drop, *share_changes(talk, "closed", facts, but=()))


def short_name(context: ToolContext, address: str) -> str:
    """Return the name of an agent in a discussion: its path below the caller, else its full path."""
    path = address.partition("/")[2]
    own = "/".join(context.task_path)
    return path.removeprefix(f"{own}/") if own else path


def _delivered(
    talk: ThreadState, receiver: str, message_id: str, body: Json, *, asks: bool
) -> tuple[Change, ...] | DeliveryRefused:
    is_fact = isinstance(body, dict) and "key" in body
    message = Message(
        message_id,
        "state" if is_fact else "chat",
        talk.context.agent,
        receiver,
        body,
        talk.now,
        thread=talk.address if asks else "",
        delivery="steer" if asks else "queue",
        cause=talk.context.seen.plan_rev,
        asks=asks,
        wakes=asks,
    )
    return message_policy.delivery_changes(talk.view, message)


def why_no_answer(view: View, speaker: Resource, asker: str) -> ThreadAnswer | None:
    """Return why an agent cannot answer now; None if it may still answer.

    A paused agent cannot, nor can one that waits for a decision of `asker`: both would wait forever.
    """
    task = view.get(str(speaker.spec["task"]))
    if task is not None and task.spec["pause"] and task.state not in ENDED:
        return ThreadAnswer(f"the agent is paused: run `plan resume {task.address}`", "Paused")
    for each in view.owned_by(speaker.address):
        if each.kind == "approval" and each.state == WAITING and each.spec["what"].get("of") == asker:
            what = each.spec["what"]
            text = (
                f"the agent waits for your decision on {each.address}: {what.get('kind')} {what.get('what')!r}, "
                f"because {each.spec['why']}"
            )
            return ThreadAnswer(f"{text}. Decide it with `answer`, then ask again with `discuss`", "AsksFirst")
    return None


# Each answer is one step, taken when the waiting call is checked: the answer is shared and the next speaker is asked.
# The last answer ends the call with all answers. A failure of a speaker is text like any other answer.

YOUR_TURN = "It is your turn. Answer the question of this discussion."


def discuss(
    context: ToolContext,
    prompt: Annotated[str, Field(min_length=1)],
    speakers: list[str] | None = None,
    listeners: list[str] | None = None,
) -> PendingCall:
    """Ask `speakers` in order; names may repeat. They and `listeners` hear each answer; you get all answers.

    A child whose task has ended can answer too. Default: your newest child, or the agents of your last discussion.
    First let new speakers introduce themselves.
    """
    spoken, heard = _participants(context, speakers, listeners)
    return start_discussion(context, prompt, spoken, heard)


def start_discussion(context: ToolContext, prompt: str, spoken: tuple[str, ...], heard: tuple[str, ...]) -> PendingCall:
    """Open a thread, share the prompt with all agents in it, ask the first speaker, and wait."""
    spec = ThreadSpec("discuss", context.agent, prompt, spoken, heard, context.call.address)
    address, made = open_thread(context, spec)
    talk = ThreadState(context, address, spec, ThreadStatus(asked_at=context.seen.now))
    changes = (*made, *share_changes(talk, "prompt", prompt, but=(spoken[0],)), *ask_speaker_changes(talk, 0, prompt))
    return _wait(talk, changes)


def _participants(
    context: ToolContext, speakers: list[str] | None, listeners: list[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    kept = context.seen.status.mail.interlocutors
    spoken = _named(context, speakers) if speakers is not None else _still(context, kept.get("speakers", ()))
    is_blank = speakers is None and listeners is None
    heard = _still(context, kept.get("listeners", ())) if is_blank else _named(context, listeners or [])
    if not spoken:
        raise ToolFailed("NoSpeakers", "`speakers` is required: you have no child and no earlier discussion")
    if len(spoken) > limits.SPEAKERS_MAX or len(heard) > limits.LISTENERS_MAX:
        words = f"{limits.SPEAKERS_MAX} turns of speakers and {limits.LISTENERS_MAX} listeners"
        raise ToolFailed("TooMany", f"a discussion has at most {words}")
    return spoken, tuple(each for each in heard if each not in spoken)


def _still(context: ToolContext, known: Sequence[str]) -> tuple[str, ...]:
    """Return the agents of the last discussion that the caller may still talk to, including removed ones."""
    view, caller = context.services.store.view, context.seen.resource
    is_open = [
        each
        for each in known
        if view.get(each) is None or message_policy.may_write_to(view, caller, parse_address(each))
    ]
    return tuple(is_open)


def _named(context: ToolContext, names: Sequence[str]) -> tuple[str, ...]:
    try:
        return tuple(
            each
            for name in names
            for each in message_policy.resolve_receivers(context.services.store.view, context.seen.resource, name)
        )
    except NotReachable as error:
        raise ToolFailed(error.reason, str(error)) from None


def resolve_discussion(context: ToolContext) -> CallEnding | None:
    """Take the next step when the current speaker has answered; end the call after the last one."""
    talk = read_thread(context, str(context.call.status.get("thread")))
    if talk is None:
        return Settlement(failure("Gone", "the discussion was closed"))
    index = talk.status.asked
    answer = talk.answer(index)
    if answer is None:
        return None
    speaker = talk.spec.speakers[index]
    shared = share_changes(talk, f"a{index}", _line(context, speaker, answer), but=(speaker,))
    further, turned = next_speaker(talk, answer)
    if index + 1 == len(talk.spec.speakers):
        return _ended(further, shared)
    return _wait(further, (*shared, turned, *ask_speaker_changes(further, index + 1, YOUR_TURN)))


def _wait(talk: ThreadState, changes: Sequence[Change]) -> PendingCall:
    name = short_name(talk.context, talk.spec.speakers[talk.status.asked])
    call: JsonObject = {"thread": talk.address}
    return PendingCall(
        CallState.AWAITING_CHILD, tuple(changes), call, f"waits for {name} to answer", due_at=talk.due_at
    )


def _ended(talk: ThreadState, shared: Sequence[Change]) -> Settlement:
    context, speakers = talk.context, talk.spec.speakers
    answers = [talk.status.answers[question_id(talk.address, index)] for index in range(len(speakers))]
    lines = [_line(context, speaker, answer) for speaker, answer in zip(speakers, answers, strict=True)]
    names = [short_name(context, speaker) for speaker in speakers]
    talkers: JsonObject = {"speakers": list(speakers), "listeners": list(talk.spec.listeners)}
    said = "\n\n".join(lines)
    result = failure("NoAnswer", said) if all(answer.error for answer in answers) else success(said)
    return Settlement(result, (*shared, *close_thread_changes(talk, names)), {"interlocutors": talkers})


def _line(context: ToolContext, speaker: str, answer: ThreadAnswer) -> str:
    error = f"({answer.error}) " if answer.error else ""
    return f"[{short_name(context, speaker)}] {error}{answer.words}"


def done(
    context: ToolContext,
    result: Any = None,
    accept: Sequence[str] = (),
) -> Settlement:
    """Finish the task. Its checks then run; you get a message if one fails. `accept` names failed children to leave."""
    open_children = [child.address for child in context.seen.context.children if child.is_live]
    if open_children:
        names = ", ".join(open_children[: limits.CHILDREN_NAMED_MAX])
        return Settlement(
            failure("ChildrenOpen", f"Not finished: {names} still at work. Wait for them or `terminate` them.")
        )
    if context.seen.nature.is_model and has_unread_news(context.seen):
        return Settlement(failure(UNREAD_ERROR, "Not finished: you have unread messages. They follow."))
    if context.seen.nature.is_model and (failed := _not_accepted(context.seen, accept)):
        ways = "Fix it with `edit_plan` or `task`, remove it with `terminate`, or name it in `accept`."
        return Settlement(failure(CHILD_FAILED, f"Not finished: {describe_failures(failed)}. {ways}"))
    return _claim("done", result)


def _not_accepted(agent: ObservedAgent, accept: Sequence[str]) -> list[ObservedChild]:
    """Return the failed children that `accept` does not name by address, path or id."""
    return [child for child in failed_children(agent) if not _names(child.address) & set(accept)]


def _names(task: str) -> set[str]:
    return {task, task.partition("/")[2], task.rpartition("/")[2]}


def fail(context: ToolContext, reason: Annotated[str, Field(min_length=1)]) -> Settlement:
    """Give up the task because it cannot be done, and say why."""
    del context
    return _claim("fail", reason)


def _claim(kind: Literal["done", "fail"], result: Json) -> Settlement:
    if len(encode(result)) > limits.CLAIM_BYTES_MAX:
        raise ToolFailed(
            "TooLong", f"a result has at most {limits.CLAIM_BYTES_MAX} bytes: write it to a file and name the file"
        )
    words = "finished; the checks decide" if kind == "done" else "given up"
    return Settlement(success(words), turn={"claim": wrap_value({"kind": kind, "result": result})})


class SendOptions(TypedDict, total=False):
    """Options of a message."""

    kind: Literal["chat", "state"] | None
    delivery: Annotated[
        Literal["queue", "steer", "interrupt"] | None,
        Field(description="Before it sleeps; below you also at its next step, or stopping its step."),
    ]
    expires: Annotated[float | None, Field(gt=0, description="Seconds, then dropped if unread.")]
    key: Annotated[str | None, Field(max_length=64, description="Send only once per key.")]
    untrusted: Annotated[bool | None, Field(description="Text from outside.")]


def send(
    context: ToolContext,
    to: str,
    text: Any,
    **how: Unpack[SendOptions],
) -> Settlement:
    """Send text, or a map of facts (`kind: state`), to `parent`, `children`, `siblings`, or an agent's id or path.

    Returns whether it was delivered and, if it is read only later, why.
    """
    view = context.services.store.view
    found = _reachable(context, to)
    changes: list[Change] = []
    for index, receiver in enumerate(found):
        delivered = message_policy.delivery_changes(
            view, _sent(context, message_from_call(context, receiver, text, "chat", index), how)
        )
        if isinstance(delivered, DeliveryRefused):
            return Settlement(failure(delivered.reason, delivered.message))
        changes += delivered
    words = f"delivered to {', '.join(found)}" if found else f"not delivered: you have no {to}"
    notes = [note for receiver in found if (note := _not_read(view, receiver))]
    return Settlement(success("\n".join((words, *notes))), tuple(changes), data={"to": list(found)})


def _sent(context: ToolContext, message: Message, how: SendOptions) -> Message:
    delivery = _mode(context, message.receiver, how.get("delivery"))
    expires_s = how.get("expires")
    return replace(
        message,
        kind=how.get("kind") or "chat",
        delivery=delivery,
        expires_at=None if expires_s is None else message.sent_at + expires_s,
        idempotency=how.get("key") or "",
        trust="untrusted" if how.get("untrusted") else "trusted",
        # A message that stops a step must not stop one of the next run.
        to_incarnation=_incarnation(context.services.store.view, message.receiver) if delivery == "interrupt" else None,
    )


def _reachable(context: ToolContext, to: str) -> Sequence[str]:
    try:
        return message_policy.resolve_receivers(context.services.store.view, context.seen.resource, to)
    except NotReachable as error:
        raise ToolFailed(error.reason, str(error)) from None


def _mode(context: ToolContext, receiver: str, wanted: Delivery | None) -> Delivery:
    """Return the delivery mode: by default `steer` for descendants of the sender and `queue` for others."""
    is_below = addresses.parse_address(receiver).is_within(addresses.parse_address(context.agent))
    if wanted is None:
        return "steer" if is_below else "queue"
    if wanted != "queue" and not is_below:
        raise ToolFailed("NotAllowed", f"you may not {wanted} {receiver}: only agents below you")
    return wanted


def _incarnation(view: View, receiver: str) -> int | None:
    """Return the number of the receiver's current incarnation; None if it has not started."""
    agent = view.get(receiver)
    return None if agent is None else agent.status.get("incarnation") or None


def _not_read(view: View, receiver: str) -> str:
    """Return why the receiver does not read a message now; empty if it is at work or wakes for it."""
    agent = view.get(receiver)
    task = None if agent is None else view.get(str(agent.spec["task"]))
    if agent is None or task is None:
        return ""
    if task.state in ENDED or is_task_over(task.status):
        return f"{receiver}: its task is {task.state}; it reads this when it is asked with `discuss`"
    if task.spec["pause"]:
        return f"{receiver} is paused; it reads this when it is resumed"
    if agent.state in (AgentState.PARKED, AgentState.BLOCKED):
        return f"{receiver} is {agent.state}, {agent.status.get('why')}; it reads this afterwards"
    return ""


def message_from_call(context: ToolContext, receiver: str, body: Json, kind: MessageKind, index: int) -> Message:
    """Return the `index`-th message of this call, to `receiver`."""
    # The id derives from the operation, so a repeated call delivers the message only once.
    seen, message_id = context.seen, f"{context.spec.op}.{index}"
    view = context.services.store.view
    return Message(
        message_id,
        kind,
        context.agent,
        receiver,
        body,
        context.services.clock.now(),
        thread=message_policy.open_bridge(view, context.agent, receiver) or "",
        cause=seen.plan_rev,
        from_incarnation=seen.status.incarnation,
    )


# `bridge`: an ancestor lets some of its descendants write to each other.


def bridge(
    context: ToolContext,
    members: Annotated[list[str], Field(min_length=2)],
    about: Annotated[str, Field(max_length=500)] = "",
    close: bool = False,
) -> Settlement:
    """Let agents below you (ids or paths) `send` to each other, which they otherwise may not; `close` ends it.

    Each agent gets a message.
    """
    found = tuple(dict.fromkeys(_below(context, name) for name in members))
    if len(found) < 2:
        raise ToolFailed("BadArguments", "a bridge needs at least two different agents")
    names = ", ".join(short_name(context, each) for each in found)
    open_ones = [each for each in context.seen.objects.threads.values() if each.spec["kind"] == "bridge"]
    existing = [each for each in open_ones if set(each.spec["speakers"]) == set(found)]
    if close:
        if not existing:
            raise ToolFailed("NotFound", f"there is no bridge between {names}")
        drops = tuple(Drop(each.address, each.uid) for each in existing)
        return Settlement(
            success(f"{names} may no longer write to each other"),
            (*drops, *_notices(context, found, "closed", about)),
        )
    if existing:
        return Settlement(success(f"{names} may already write to each other"))
    if len(open_ones) >= limits.BRIDGES_MAX:
        raise ToolFailed("TooMany", f"you have {limits.BRIDGES_MAX} open bridges, which is the limit: close one")
    _, opened = open_thread(context, ThreadSpec("bridge", context.agent, about, found))
    return Settlement(success(f"{names} may write to each other"), (*opened, *_notices(context, found, "open", about)))


def _below(context: ToolContext, name: str) -> str:
    try:
        return message_policy.agent_below(context.services.store.view, context.agent, name).address
    except NotReachable as error:
        raise ToolFailed(error.reason, str(error)) from None


def _notices(context: ToolContext, members: tuple[str, ...], state: str, about: str = "") -> tuple[Change, ...]:
    changes: tuple[Change, ...] = ()
    for member in members:
        others = [each.partition("/")[2] for each in members if each != member]
        facts: JsonObject = {"key": f"bridge to {', '.join(others)}", "bridge": state, "with": others, "about": about}
        message_id = f"{context.spec.op}.{member.partition('/')[2]}"
        notice = Message(message_id, "state", context.agent, member, facts, context.seen.now, wakes=False)
        delivered = message_policy.delivery_changes(context.services.store.view, notice)
        changes += () if isinstance(delivered, DeliveryRefused) else delivered
    return changes
