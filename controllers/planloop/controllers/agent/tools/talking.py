"""Tools whose whole effect is in their own record: messages, and the claims `done` and `fail`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypedDict, Unpack

from pydantic import Field

from planloop.controllers.agent.conditions import CHILD_FAILED
from planloop.controllers.agent.mail import inbox, topology
from planloop.controllers.agent.mail.inbox import Refusal
from planloop.controllers.agent.mail.telling import UNREAD, failures, has_unheard, words_of
from planloop.controllers.agent.mail.topology import NotReachable
from planloop.controllers.agent.observing import Child, Observed
from planloop.controllers.agent.status import boxed
from planloop.controllers.agent.tools.faults import ToolFailed
from planloop.controllers.agent.tools.tool import Context, Settlement, failure, ok
from planloop.reconciler.storing.store import View
from planloop.schemas import address as addresses
from planloop.schemas import limits
from planloop.schemas.agent import AgentState
from planloop.schemas.encoding import Json, encode
from planloop.schemas.message import Delivery, Message, MessageKind
from planloop.schemas.record import Change
from planloop.schemas.task import ENDED, is_over


def done(
    context: Context,
    result: Annotated[Any, Field(description="What came of it, for whoever asked.")] = None,
    accept: Annotated[Sequence[str], Field(description="Children that failed and need not be mended.")] = (),
) -> Settlement:
    """Says that the task is finished. Its acceptance checks then decide; you are told if they do not hold."""
    open_children = [child.address for child in context.seen.children if child.is_live]
    if open_children:
        names = ", ".join(open_children[: limits.CHILDREN_NAMED_MAX])
        return Settlement(failure("ChildrenOpen", f"not finished: {names} still at work. Wait, or terminate them"))
    if context.seen.nature.is_model and has_unheard(context.seen):
        return Settlement(failure(UNREAD, "not finished: there is news that you have not heard; it follows"))
    if context.seen.nature.is_model and (failed := _not_accepted(context.seen, accept)):
        ways = "mend it with `edit` or `task`, take it away with `terminate`, or say done with it in `accept`"
        return Settlement(failure(CHILD_FAILED, f"not finished: {words_of(failed)}; {ways}"))
    return _claim("done", result)


def _not_accepted(seen: Observed, accept: Sequence[str]) -> list[Child]:
    """The failed children that are not among `accept`, by address, path or last id."""
    return [child for child in failures(seen) if not _names(child.address) & set(accept)]


def _names(task: str) -> set[str]:
    return {task, task.partition("/")[2], task.rpartition("/")[2]}


def fail(
    context: Context, reason: Annotated[str, Field(min_length=1, description="Why, for whoever asked.")]
) -> Settlement:
    """Says that the task cannot be finished, and why."""
    del context
    return _claim("fail", reason)


def _claim(kind: Literal["done", "fail"], result: Json) -> Settlement:
    if len(encode(result)) > limits.CLAIM_BYTES_MAX:
        raise ToolFailed(
            "TooLong", f"a result has at most {limits.CLAIM_BYTES_MAX} bytes: put it in a file and name it"
        )
    words = "claimed; the checks decide" if kind == "done" else "given up"
    return Settlement(ok(words), turn={"claim": boxed({"kind": kind, "result": result})})


class HowSent(TypedDict, total=False):
    """How a message is sent, where that is to be out of the ordinary."""

    kind: Literal["chat", "state"] | None
    delivery: Annotated[
        Literal["queue", "steer", "interrupt"] | None,
        Field(description="When it would sleep; at its next step (for those below); or stopping what it does (below)."),
    ]
    expires: Annotated[float | None, Field(gt=0, description="Seconds after which it is of no use unread.")]
    key: Annotated[str | None, Field(max_length=64, description="Sending again with the same key changes nothing.")]
    untrusted: Annotated[bool | None, Field(description="Whether you only pass on what came from outside.")]


def send(
    context: Context,
    to: Annotated[str, Field(description="`parent`, `children`, `siblings`, an agent's id, or its path.")],
    text: Annotated[Any, Field(description="What to say: text, or a map of facts with `kind: state`.")],
    **how: Unpack[HowSent],
) -> Settlement:
    """Sends a message to another agent. It says whether it was delivered, and if it is read only later, why."""
    view = context.world.store.view
    found = _reachable(context, to)
    changes: list[Change] = []
    for index, receiver in enumerate(found):
        delivered = inbox.delivery(view, _sent(context, message_of(context, receiver, text, "chat", index), how))
        if isinstance(delivered, Refusal):
            return Settlement(failure(delivered.reason, delivered.message))
        changes += delivered
    words = f"delivered to {', '.join(found)}" if found else "nobody is there"
    notes = [note for receiver in found if (note := _not_read(view, receiver))]
    return Settlement(ok("\n".join((words, *notes))), tuple(changes), data={"to": list(found)})


def _sent(context: Context, message: Message, how: HowSent) -> Message:
    delivery = _mode(context, message.receiver, how.get("delivery"))
    expires_s = how.get("expires")
    return replace(
        message,
        kind=how.get("kind") or "chat",
        delivery=delivery,
        expires_at=None if expires_s is None else message.sent_at + expires_s,
        idempotency=how.get("key") or "",
        trust="untrusted" if how.get("untrusted") else "trusted",
        # What is to stop a step must not stop one of the next run.
        to_incarnation=_incarnation(context.world.store.view, message.receiver) if delivery == "interrupt" else None,
    )


def _reachable(context: Context, to: str) -> Sequence[str]:
    try:
        return topology.receivers(context.world.store.view, context.seen.resource, to)
    except NotReachable as error:
        raise ToolFailed(error.reason, str(error)) from None


def _mode(context: Context, receiver: str, wanted: Delivery | None) -> Delivery:
    """How a message is delivered: down it steers and up it waits, unless the sender says otherwise."""
    is_below = addresses.parse(receiver).is_within(addresses.parse(context.agent))
    if wanted is None:
        return "steer" if is_below else "queue"
    if wanted != "queue" and not is_below:
        raise ToolFailed("NotAllowed", f"you may not {wanted} {receiver}: only those below you")
    return wanted


def _incarnation(view: View, receiver: str) -> int | None:
    """The run of the receiver that is at work; None when it has not begun."""
    agent = view.get(receiver)
    return None if agent is None else agent.status.get("incarnation") or None


def _not_read(view: View, receiver: str) -> str:
    """Why a message is not read for now, in words; empty when the receiver is at work or wakes for it."""
    agent = view.get(receiver)
    task = None if agent is None else view.get(str(agent.spec["task"]))
    if agent is None or task is None:
        return ""
    if task.state in ENDED or is_over(task.status):
        return f"{receiver}: its task is {task.state}; it reads this when it is asked something with `discuss`"
    if task.spec["pause"]:
        return f"{receiver} is paused; it reads this when it goes on"
    if agent.state in (AgentState.PARKED, AgentState.BLOCKED):
        return f"{receiver} is {agent.state}, {agent.status.get('why')}; it reads this when that is over"
    return ""


def message_of(context: Context, receiver: str, body: Json, kind: MessageKind, index: int) -> Message:
    """What the agent says to `receiver` by this call, the `index`-th of its messages."""
    # The id comes from the operation, so that nothing that is done twice can arrive twice.
    seen, message_id = context.seen, f"{context.spec.op}.{index}"
    view = context.world.store.view
    return Message(
        message_id,
        kind,
        context.agent,
        receiver,
        body,
        context.world.clock.now(),
        thread=topology.bridge_between(view, context.agent, receiver) or "",
        cause=seen.plan_rev,
        from_incarnation=seen.status.incarnation,
    )
