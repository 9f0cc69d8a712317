"""Tools whose whole effect is in their own record: messages, requests, and the claims `done` and `fail`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from controllers.agent import inbox
from controllers.agent.inbox import Refusal
from controllers.agent.status import boxed
from controllers.agent.tools.faults import ToolFailed
from controllers.agent.tools.tool import Context, Settlement, failure, ok
from schemas import address as addresses
from schemas import limits
from schemas.approval import WAITING, ApprovalSpec
from schemas.encoding import Json, encode
from schemas.message import Message, MessageKind
from schemas.record import Change, Put, SetStatus
from schemas.resource import Uid


def done(
    context: Context, result: Annotated[Any, Field(description="What came of it, for whoever asked.")] = None
) -> Settlement:
    """Says that the task is finished. Its acceptance checks then decide; you are told if they do not hold."""
    open_children = [child.address for child in context.seen.children if child.is_live]
    if open_children:
        names = ", ".join(open_children[:5])
        return Settlement(failure("ChildrenOpen", f"not finished: {names} still at work. Wait, or terminate them"))
    return _claim("done", result)


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


def send(
    context: Context,
    to: Annotated[str, Field(description="`parent`, `children`, a child's id, or an agent's path.")],
    text: Annotated[Any, Field(description="What to say: text, or a map of facts with `kind: state`.")],
    kind: Literal["chat", "state"] = "chat",
    delivery: Annotated[
        Literal["queue", "interrupt"],
        Field(description="With its next turn, or stopping what it does now (children only)."),
    ] = "queue",
) -> Settlement:
    """Sends a message to another agent. It says whether it was delivered."""
    view = context.world.store.view
    found = inbox.receivers(view, context.seen.resource, to)
    if isinstance(found, Refusal):
        return Settlement(failure(found.reason, found.message))
    changes: list[Change] = []
    for index, receiver in enumerate(found):
        if delivery == "interrupt" and not addresses.parse(receiver).is_within(addresses.parse(context.agent)):
            return Settlement(failure("NotAllowed", f"you may not interrupt {receiver}: only those below you"))
        message = replace(_message(context, receiver, text, kind, index), delivery=delivery)
        delivered = inbox.delivery(view, message)
        if isinstance(delivered, Refusal):
            return Settlement(failure(delivered.reason, delivered.message))
        changes += delivered
    names = ", ".join(found)
    return Settlement(
        ok(f"delivered to {names}" if found else "nobody is there"), tuple(changes), data={"to": list(found)}
    )


def _message(context: Context, receiver: str, body: Json, kind: MessageKind, index: int) -> Message:
    # The id comes from the operation, so that nothing that is done twice can arrive twice.
    message_id = f"{context.spec.op}.{index}"
    return Message(
        message_id, kind, context.agent, receiver, body, context.world.clock.now(), cause=context.seen.plan_rev
    )


def request(
    context: Context,
    kind: Annotated[str, Field(min_length=1, description="budget, tool, model or anything else, in one word.")],
    what: Annotated[Any, Field(description="What is asked for.")],
    why: Annotated[str, Field(min_length=1, description="Why it is needed.")],
    to: Annotated[Literal["parent", "person"], Field(description="Who is to answer.")] = "parent",
) -> Settlement:
    """Asks the parent or a person for something you may not have. You are told the answer; meanwhile go on or sleep."""
    address, uid = f"approval/{context.spec.op}", Uid(context.spec.op)
    above = inbox.nearest_above(context.world.store.view, addresses.parse(context.agent)) if to == "parent" else None
    spec = ApprovalSpec("request", str(context.author), why, {"kind": kind, "what": what, "of": above or "person"})
    changes: list[Change] = [
        Put(address, uid, spec.to_json(), owner=context.agent),
        SetStatus(address, uid, {"state": WAITING}),
    ]
    if above is not None:
        body = {"request": kind, "what": what, "why": why, "approval": address}
        delivered = inbox.delivery(context.world.store.view, _message(context, above, body, "approval", 0))
        if isinstance(delivered, Refusal):
            return Settlement(failure(delivered.reason, delivered.message))
        changes += delivered
    return Settlement(ok(f"asked {above or 'a person'} as {address}", address), tuple(changes))
