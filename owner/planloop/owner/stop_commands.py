"""Stop commands for `plan down`, and record which it stopped.

The next owner restarts a command that may safely run again. A stopped command of class `once` has an unknown outcome,
which an operator settles (law 5).
"""

from __future__ import annotations

import anyio

from planloop.client.plan_paths import PlanPaths
from planloop.owner import container_teardown
from planloop.owner.sandbox import plan_processes
from planloop.reconciler.effects.journal import call_state
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.log.record import RecordDraft, SetStatus
from planloop.schemas.objects.call import CallState, call_from_json
from planloop.server.opened_plan import OpenedPlan, open_plan

ACTOR = "human:cli"


async def record_stopped(core: OpenedPlan) -> tuple[str, ...]:
    """Record the stop of every call that is still Started; return the addresses of calls of unknown outcome.

    Call it when no process of the plan is left.
    """
    unknown = []
    for call in list(core.store.view.list("call")):
        if call_state(call) is not CallState.STARTED:
            continue
        is_again = call_from_json(call.spec).effect.may_run_again
        state = CallState.AUTHORIZED if is_again else CallState.UNKNOWN
        status: JsonObject = {"state": str(state), "why": "plan down stopped it while it ran"}
        change = SetStatus(call.address, call.uid, status)
        fate = "again" if is_again else "doubt"
        draft = RecordDraft("call.reconciled", ACTOR, call.address, (change,), {"fate": fate})
        await core.store.append(draft, {call.address: call.rev})
        if not is_again:
            unknown.append(call.address)
    return tuple(unknown)


def stop_strays(place: PlanPaths) -> int:
    """Stop every process of the plan that an owner left behind; return how many there were. Raises NotOwner."""

    async def stop() -> int:
        async with open_plan(place) as core:
            stopped = await plan_processes(core).sweep(frozenset())
            await container_teardown.sweep_grading(core)
            await record_stopped(core)
            return len(stopped)

    return anyio.run(stop)
