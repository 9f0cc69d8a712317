"""Calls that wait for a child, an input or a lock: how one begins to wait, goes on waiting, and how its agent rests.

A waiting call is its object in one of the Awaiting states and nothing else: no job, no memory. Whether it is over is
found by `Tool.resolve` from levels, at every look, so that a crash or a lost wake-up changes nothing. Calls that wait
for a yes are `approving.py`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from planloop.controllers.agent import turn
from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.status import OpenTurn, TurnCall
from planloop.controllers.agent.tools.tool import Waiting
from planloop.schemas.agent import AgentState
from planloop.schemas.call import CallState
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.record import Draft, SetStatus
from planloop.schemas.resource import Resource

STATES: Final = frozenset({CallState.AWAITING_CHILD, CallState.AWAITING_INPUT, CallState.AWAITING_LOCK})

SINCE: Final = "waits_since"
"""In a call's status: when it first began to wait, in seconds since 1970."""


@frozen
class Wait:
    """How an agent rests whose calls all wait. `due_at`: when one of them is to be looked at whatever happens."""

    state: AgentState
    why: str
    condition: str
    unblocks: tuple[str, ...]
    due_at: float | None


def is_waiting(call: Resource) -> bool:
    """Whether a call object waits for something that `Tool.resolve` can find."""
    return call.state in STATES


def of_turn(seen: Observed, turn_calls: Sequence[TurnCall]) -> tuple[Resource, ...]:
    """The waiting call objects among `turn_calls`, in call order."""
    if not seen.calls:
        return ()
    found = (seen.calls.get(call.address) for call in turn_calls)
    return tuple(each for each in found if each is not None and is_waiting(each))


def begun(seen: Observed, call: Resource, wait: Waiting) -> Draft:
    """The call begins to wait, or goes a step further: Authorized, to start again with what it waited for."""
    assert wait.state in STATES or wait.state is CallState.AUTHORIZED, f"{wait.state} is no way to wait"
    merge: JsonObject = {**wait.call, "state": str(wait.state), "why": wait.why, "due_at": wait.due_at}
    merge["unblocks"] = list(wait.unblocks)
    if SINCE not in call.status:
        merge[SINCE] = seen.now
    changes = (turn.change(seen, {}), SetStatus(call.address, call.uid, merge), *wait.changes)
    data: JsonObject = {"tool": call.spec["tool"], "state": str(wait.state), "why": wait.why}
    return Draft("call.waiting", turn.signed(seen), call.address, changes, data)


def rest_of(objects: Sequence[Resource]) -> Wait:
    """How an agent rests whose open calls are `objects`, all waiting: asleep for a child, else blocked."""
    blocking = [each for each in objects if each.state != CallState.AWAITING_CHILD]
    first = (blocking or list(objects))[0]
    dues = [float(due) for each in objects if (due := each.status.get("due_at")) is not None]
    unblocks = tuple(dict.fromkeys(str(way) for each in blocking for way in each.status.get("unblocks", ())))
    return Wait(
        AgentState.BLOCKED if blocking else AgentState.ASLEEP,
        str(first.status.get("why") or f"{first.spec['tool']} waits"),
        first.state if blocking else "",
        unblocks,
        min(dues) if dues else None,
    )


def waited(seen: Observed, opened: OpenTurn) -> Mapping[str, Json]:
    """The merge into the open turn that ends a wait: the time since it began is not active time."""
    if opened.waiting_since is None:
        return {}
    return {"waiting_since": None, "waited_s": opened.waited_s + max(0.0, seen.now - opened.waiting_since)}
