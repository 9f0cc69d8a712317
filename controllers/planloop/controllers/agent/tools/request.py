"""`request` asks the parent or an operator for something; `answer` answers a request or a question.

A request is an approval object owned by the agent that asks. An approved request for budget, a tool or a model becomes
a patch in the approver's name, so an approver cannot grant more than it has. The controller of the asking agent
delivers the answer, and tells the agent if no approver is left.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from planloop.controllers.agent.mail import message_policy, wake_reasons
from planloop.controllers.agent.mail.message_policy import DeliveryRefused
from planloop.controllers.agent.tools import mcp_tools
from planloop.controllers.agent.tools.errors import ToolFailed
from planloop.controllers.agent.tools.messages import message_from_call
from planloop.controllers.agent.tools.plan import verdict_settlement
from planloop.controllers.agent.tools.tool import Settlement, ToolContext, failure, success
from planloop.reconciler.errors import TerminalError
from planloop.schemas import address as addresses
from planloop.schemas.log.record import Change, Put, SetStatus
from planloop.schemas.objects.approval import WAITING, YES, ApprovalSpec
from planloop.schemas.resource import Resource, Uid

OPERATOR = "person"


def request(
    context: ToolContext,
    kind: Annotated[str, Field(min_length=1, description="budget, tool, model or another word.")],
    what: Annotated[Any, Field(description="More, as `{turns: 10}`; tool names; a model; anything.")],
    why: Annotated[str, Field(min_length=1)],
    to: Literal["parent", "person"] = "parent",
) -> Settlement:
    """Ask for something that you need. Continue or sleep: the answer comes as a message."""
    view, mine = context.services.store.view, addresses.parse_address(context.agent)
    number = context.seen.status.mail.requests + 1
    # The name is derived from the agent and a counter: models read it, so it must be the same in a replay.
    address, uid = f"approval/{'.'.join(mine.path) or 'root'}.{number}", Uid(context.spec.op)
    # A hook's agent never asks the agent that it watches, which must not know about the hook.
    is_hook = bool(context.seen.spec.watches)
    above = message_policy.nearest_agent_above(view, mine) if to == "parent" and not is_hook else None
    spec = ApprovalSpec("request", str(context.author), why, {"kind": kind, "what": what, "of": above or OPERATOR})
    changes: list[Change] = [
        Put(address, uid, spec.to_json(), owner=context.agent),
        SetStatus(address, uid, {"state": WAITING}),
    ]
    if above is not None:
        body = {"request": kind, "what": what, "why": why, "name": address}
        delivered = message_policy.delivery_changes(view, message_from_call(context, above, body, "approval", 0))
        if isinstance(delivered, DeliveryRefused):
            return Settlement(failure(delivered.reason, delivered.message))
        changes += delivered
    return Settlement(
        success(f"asked {above or 'a person'} as {address}", address), tuple(changes), {"requests": number}
    )


async def answer(
    context: ToolContext,
    to: Annotated[str, Field(min_length=1)],
    answer: Annotated[str, Field(min_length=1)],
    why: Annotated[str, Field(max_length=2000)] = "",
) -> Settlement:
    """Answer a request from below by its name (`yes`, `no`), or a question by who asked it. Your work continues.

    If a tool server asks a child for several things, answer with a JSON map. `yes` to budget, tools or a model changes
    the plan in your name, within your rights; if that is refused, the request stays open.
    """
    found = _approval(context, to)
    if found is not None:
        return await _ruled(context, found, answer, why)
    if _was_answered(context, to):
        return Settlement(success(f"{to} is already answered"))
    asked = [each for each in context.seen.status.mail.asked.values() if _is_from(context, each.sender, to)]
    if not asked:
        raise ToolFailed("NotFound", f"no request or question from `{to}` waits for your answer")
    text = "\n".join(part for part in (answer, why) if part)
    merge, changes = wake_reasons.thread_answer_changes(context.seen, wake_reasons.answer_of_claim("done", text), asked)
    return Settlement(success("answered"), changes, merge)


def _was_answered(context: ToolContext, name: str) -> bool:
    """Whether a descendant made a request of this name that was removed because its answer has been read.

    A call that is repeated after a crash succeeds in this way.
    """
    asker, _, number = name.removeprefix("approval/").rpartition(".")
    found = context.services.store.view.get(f"agent/{asker.replace('.', '/')}")
    is_below = found is not None and addresses.parse_address(found.address).is_within(
        addresses.parse_address(context.agent)
    )
    return is_below and found is not None and number.isdigit() and int(number) <= found.status.get("requests", 0)


def _approval(context: ToolContext, name: str) -> Resource | None:
    address = name if name.startswith("approval/") else f"approval/{name}"
    found = context.services.store.view.get(address)
    return None if found is None or found.spec["kind"] not in ("request", "input") else found


async def _pass_on(context: ToolContext, approval: Resource, given: str, why: str) -> Settlement:
    """Pass the answer to the tool server that asked for it."""
    content = mcp_tools.form_content(approval, given)
    if content is None:
        raise ToolFailed("BadArguments", f"{approval.address} asks for several values: answer a JSON map, or `no`")
    await context.services.gate.approve(approval.address, context.author, why, content=content)
    return Settlement(success("answered"))


async def _ruled(context: ToolContext, approval: Resource, given: str, why: str) -> Settlement:
    owner = addresses.parse_address(str(approval.owner))
    if not owner.is_within(addresses.parse_address(context.agent)) or str(owner) == context.agent:
        raise ToolFailed("NotAllowed", f"{approval.address} is a request of {owner}, which is not below you")
    if approval.state != WAITING:
        if approval.status.get("by") == str(context.author):
            return Settlement(success(f"{approval.address} is already {approval.state}"))
        raise ToolFailed("Answered", f"{approval.address} was {approval.state} by {approval.status.get('by')}")
    gate = context.services.gate
    try:
        match given.strip().lower():
            case yes if yes in YES:
                return verdict_settlement(await gate.approve(approval.address, context.author, why), "granted")
            case "no" | "rejected" | "false":
                await gate.reject(approval.address, context.author, why)
                return Settlement(success("rejected; the requester gets a message"))
            case _ if approval.spec["kind"] == "input":
                return await _pass_on(context, approval, given, why)
            case _:
                raise ToolFailed(
                    "BadArguments", f"{approval.address} is a request: answer `yes` or `no`, with the reason in `why`"
                )
    except TerminalError as error:
        raise ToolFailed(error.reason, str(error)) from None


def _is_from(context: ToolContext, sender: str, name: str) -> bool:
    if name == message_policy.PARENT:
        return sender == message_policy.nearest_agent_above(
            context.services.store.view, addresses.parse_address(context.agent)
        )
    return sender in (name, f"agent/{name}") or sender.endswith((f"/{name}", f":{name}"))
