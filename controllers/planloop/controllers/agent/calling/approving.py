"""Calls that need a person's yes: the plan's `approve:` patterns that name tool calls, and the approval they become.

Patterns that name paths of the plan are the gate's.
"""

from __future__ import annotations

import textwrap

from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.ports import World
from planloop.controllers.agent.steps import Rest
from planloop.controllers.agent.turn import signed
from planloop.schemas import limits, pointer
from planloop.schemas.agent import AgentState
from planloop.schemas.approval import WAITING, ApprovalSpec, is_for_person, wish
from planloop.schemas.call import CallState
from planloop.schemas.record import Change, Put, SetStatus
from planloop.schemas.resource import Resource, Uid


def approve_patterns(world: World, seen: Observed) -> tuple[str, ...]:
    """The call patterns that hold for this agent: those of its task and of every task above."""
    plan = world.store.view.get(world.plan)
    node = None if plan is None else plan.spec
    tokens = pointer.of_task([part for part in seen.spec.task.split("/")[1:] if part != "."])
    found: list[str] = []
    for token in ("", *tokens):
        node = node.get(token) if token and isinstance(node, dict) else node
        if isinstance(node, dict) and token != "tasks" and isinstance(node.get("approve"), list):
            found += [str(pattern) for pattern in node["approve"] if not str(pattern).startswith(("/", "task/"))]
    return tuple(found)


def asked_for_yes(seen: Observed, call: Resource, pattern: str, why: str = "") -> tuple[Change, ...]:
    """The call waits, and an approval stands for it; `why` where it is not, or not only, for the plan's pattern."""
    address = f"approval/{call.address.partition('/')[2]}"
    uid = Uid(address.partition("/")[2])
    tool = str(call.spec["tool"])
    what = {"call": call.address, "tool": tool, "arguments": call.spec["arguments"]}
    words = why or f"the plan asks for a person's yes to `{pattern}`"
    spec = ApprovalSpec("call", signed(seen), words, what)
    return (
        Put(address, uid, spec.to_json(), owner=seen.resource.address),
        SetStatus(address, uid, {"state": WAITING}),
        SetStatus(call.address, call.uid, {"state": str(CallState.AWAITING_APPROVAL), "approval": address}),
    )


def awaited(seen: Observed) -> Rest | None:
    """How an agent rests that has nothing to do before its request is answered; None when it has made none.

    One to a person blocks it, for nobody else can get it further; one to an agent is in good hands.
    """
    asked = [each for each in seen.approvals.values() if each.state == WAITING and each.spec["kind"] == "request"]
    of_person = [each for each in asked if is_for_person(each.spec)]
    if of_person:
        names = [each.address for each in of_person]
        ways = (*(f"plan approve {name}" for name in names), *(f"plan reject {name}" for name in names))
        words = textwrap.shorten(wish(of_person[0].spec), limits.VALUE_SHOWN_CHARS, placeholder=" …")
        why = f"waits for a person's yes to {names[0]}, {words}"
        return Rest(AgentState.BLOCKED, why, "AwaitingApproval", ways)
    if asked:
        return Rest(AgentState.ASLEEP, f"waits for {asked[0].spec['what']['of']} to answer {asked[0].address}")
    return None
