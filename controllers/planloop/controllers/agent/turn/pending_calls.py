"""Calls that wait: for a child, an input, a lock or an operator's approval."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Final

from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.services import AgentServices
from planloop.controllers.agent.status import OpenTurn, TurnCall
from planloop.controllers.agent.steps import AgentRest
from planloop.controllers.agent.tools.tool import PendingCall
from planloop.controllers.agent.turn import records
from planloop.controllers.agent.turn.records import agent_author
from planloop.schemas import json_pointer, limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, Put, RecordDraft, SetStatus
from planloop.schemas.objects.agent import AgentState
from planloop.schemas.objects.approval import WAITING, ApprovalSpec, describe_request, needs_person
from planloop.schemas.objects.call import CallState
from planloop.schemas.resource import Resource, Uid

# Calls that wait for a child, an input or a lock: how one begins to wait, goes on waiting, and how its agent rests.
#
# A waiting call is its object in one of the Awaiting states and nothing else: no job, no memory. Whether it is over is
# found by `Tool.resolve` from levels, at every look, so that a crash or a lost wake-up changes nothing.

WAITING_STATES: Final = frozenset({CallState.AWAITING_CHILD, CallState.AWAITING_INPUT, CallState.AWAITING_LOCK})

WAITS_SINCE: Final = "waits_since"
"""In a call's status: when it first began to wait, in seconds since 1970."""


@frozen
class WaitingRest:
    """How an agent rests whose calls all wait. `due_at`: when one of them is to be looked at whatever happens."""

    state: AgentState
    why: str
    condition: str
    unblocks: tuple[str, ...]
    due_at: float | None


def is_call_waiting(call: Resource) -> bool:
    """Whether a call object waits for something that `Tool.resolve` can find."""
    return call.state in WAITING_STATES


def waiting_calls(seen: ObservedAgent, turn_calls: Sequence[TurnCall]) -> tuple[Resource, ...]:
    """The waiting call objects among `turn_calls`, in call order."""
    if not seen.objects.calls:
        return ()
    found = (seen.objects.calls.get(call.address) for call in turn_calls)
    return tuple(each for each in found if each is not None and is_call_waiting(each))


def draft_wait(seen: ObservedAgent, call: Resource, wait: PendingCall) -> RecordDraft:
    """The call begins to wait, or goes a step further: Authorized, to start again with what it waited for."""
    assert wait.state in WAITING_STATES or wait.state is CallState.AUTHORIZED, f"{wait.state} is no way to wait"
    merge: JsonObject = {**wait.call, "state": str(wait.state), "why": wait.why, "due_at": wait.due_at}
    merge["unblocks"] = list(wait.unblocks)
    if WAITS_SINCE not in call.status:
        merge[WAITS_SINCE] = seen.now
    changes = (records.status_change(seen, {}), SetStatus(call.address, call.uid, merge), *wait.changes)
    data: JsonObject = {"tool": call.spec["tool"], "state": str(wait.state), "why": wait.why}
    return RecordDraft("call.waiting", records.agent_author(seen), call.address, changes, data)


def rest_of_waiting(objects: Sequence[Resource]) -> WaitingRest:
    """How an agent rests whose open calls are `objects`, all waiting: asleep for a child, else blocked."""
    blocking = [each for each in objects if each.state != CallState.AWAITING_CHILD]
    first = (blocking or list(objects))[0]
    dues = [float(due) for each in objects if (due := each.status.get("due_at")) is not None]
    unblocks = tuple(dict.fromkeys(str(way) for each in blocking for way in each.status.get("unblocks", ())))
    return WaitingRest(
        AgentState.BLOCKED if blocking else AgentState.ASLEEP,
        str(first.status.get("why") or f"{first.spec['tool']} waits"),
        first.state if blocking else "",
        unblocks,
        min(dues) if dues else None,
    )


def wait_end_merge(seen: ObservedAgent, opened: OpenTurn) -> Mapping[str, Json]:
    """The merge into the open turn that ends a wait: the time since it began is not active time."""
    if opened.waiting_since is None:
        return {}
    return {"waiting_since": None, "waited_s": opened.waited_s + max(0.0, seen.now - opened.waiting_since)}


# Calls that need a person's yes: the plan's `approve:` patterns that name tool calls, and the approval they become.
#
# Patterns that name paths of the plan are the gate's.


def approve_patterns(world: AgentServices, seen: ObservedAgent) -> tuple[str, ...]:
    """The call patterns that hold for this agent: those of its task and of every task above."""
    plan = world.store.view.get(world.plan)
    node = None if plan is None else plan.spec
    tokens = json_pointer.task_pointer([part for part in seen.spec.task.split("/")[1:] if part != "."])
    found: list[str] = []
    for token in ("", *tokens):
        node = node.get(token) if token and isinstance(node, dict) else node
        if isinstance(node, dict) and token != "tasks" and isinstance(node.get("approve"), list):
            found += [str(pattern) for pattern in node["approve"] if not str(pattern).startswith(("/", "task/"))]
    return tuple(found)


def approval_request_changes(seen: ObservedAgent, call: Resource, pattern: str, why: str = "") -> tuple[Change, ...]:
    """The call waits, and an approval stands for it; `why` where it is not, or not only, for the plan's pattern."""
    address = f"approval/{call.address.partition('/')[2]}"
    uid = Uid(address.partition("/")[2])
    tool = str(call.spec["tool"])
    what = {"call": call.address, "tool": tool, "arguments": call.spec["arguments"]}
    words = why or f"the plan asks for a person's yes to `{pattern}`"
    spec = ApprovalSpec("call", agent_author(seen), words, what)
    return (
        Put(address, uid, spec.to_json(), owner=seen.resource.address),
        SetStatus(address, uid, {"state": WAITING}),
        SetStatus(call.address, call.uid, {"state": str(CallState.AWAITING_APPROVAL), "approval": address}),
    )


def rest_until_approved(seen: ObservedAgent) -> AgentRest | None:
    """How an agent rests that has nothing to do before its request is answered; None when it has made none.

    One to a person blocks it, for nobody else can get it further; one to an agent is in good hands.
    """
    asked = [
        each for each in seen.objects.approvals.values() if each.state == WAITING and each.spec["kind"] == "request"
    ]
    of_person = [each for each in asked if needs_person(each.spec)]
    if of_person:
        names = [each.address for each in of_person]
        ways = (*(f"plan approve {name}" for name in names), *(f"plan reject {name}" for name in names))
        words = textwrap.shorten(describe_request(of_person[0].spec), limits.VALUE_SHOWN_CHARS, placeholder=" …")
        why = f"waits for a person's yes to {names[0]}, {words}"
        return AgentRest(AgentState.BLOCKED, why, "AwaitingApproval", ways)
    if asked:
        return AgentRest(AgentState.ASLEEP, f"waits for {asked[0].spec['what']['of']} to answer {asked[0].address}")
    return None
