"""Tool server controller: start, restart and stop the tool servers of a plan, one step at a time."""

from __future__ import annotations

from typing import Final, assert_never

from planloop.controllers.mcp import decide, records
from planloop.controllers.mcp.decide import ObservedToolServer, observe_server, server_job_key
from planloop.controllers.mcp.server_run import ToolServerContext, ToolServerRun
from planloop.controllers.shared.simulated_worlds import WorldOffer
from planloop.reconciler.engine.reconcile import Again, Done, Outcome
from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.schemas import limits
from planloop.schemas.address import Address
from planloop.schemas.log.record import RecordDraft
from planloop.schemas.objects.call import CallState
from planloop.schemas.objects.mcp import ServerFailed
from planloop.schemas.resource import Resource

POOL: Final = "free"  # Jobs of servers take no slot.
QUESTIONS_LOOK_S: Final = 5.0  # Interval of the check for questions without a waiting call.


class ToolServerReconciler:
    """The `Reconciler` of tool servers."""

    kind = "mcp"

    def __init__(self, services: ToolServerContext, work: WorkPlane) -> None:
        self._services = services
        self._work = work

    async def reconcile(self, address: Address) -> Outcome:
        """Take steps until the server is as the plan says, or waits for its job or a timer."""
        store, name = self._services.store, str(address)
        self._services.servers.forget(self._is_awaited)
        for _ in range(limits.PASS_STEPS_MAX):
            resource = store.view.get(name)
            if resource is None:
                break
            offer = self._simulated(resource)
            seen = observe_server(resource, store.view, self._work, self._services.clock.now(), _digest(offer))
            step = decide.decide_server(seen)
            if (draft := _offered(seen, step, offer) or _draft(seen, step)) is not None:
                await store.append(draft, {name: resource.rev})
                continue
            # An invalid file of a world is read again at intervals.
            return Again(limits.BACKOFF_CAP_S) if isinstance(offer, ServerFailed) else self._do(seen, step)
        return Done()

    def _simulated(self, resource: Resource) -> WorldOffer | ServerFailed | None:
        """Return the offer of a simulated world, or why its file is invalid; None for other servers."""
        file = str(resource.spec.get("world") or "")
        if not file or resource.deleting:
            return None
        try:
            return self._services.worlds.offer(file, resource.address.partition("/")[2])
        except ServerFailed as fault:
            return fault

    def _do(self, seen: ObservedToolServer, step: decide.ToolServerStep) -> Outcome:
        name = seen.resource.address
        match step:
            case decide.StopRuns(runs=runs):
                for run in runs:
                    self._work.cancel(server_job_key(name, run))
            case decide.StartRun(run=run):
                job = ToolServerRun(self._services, name, seen.resource.uid, run)
                self._work.start(server_job_key(name, run), name, job, pool=POOL)
            case decide.RefreshPrompts():
                self._services.servers.refresh(name.partition("/")[2])
            case decide.ToolServerRest(after_s=after_s) if after_s is not None:
                return Again(after_s)
        return Again(QUESTIONS_LOOK_S) if self._services.servers.is_asking else Done()

    def _is_awaited(self, op: str) -> bool:
        """Whether a call still waits for the answer to a question that came under `op`."""
        calls = self._services.store.view.list("call")
        return any(_waits(call.state) and op in (call.spec["op"], _op_asked(call)) for call in calls)


def _op_asked(call: Resource) -> str:
    asked = call.status.get("asked")
    return str(asked[0]["call"]["op"]) if asked else ""


def _waits(state: str) -> bool:
    return state in (CallState.AWAITING_INPUT, CallState.AUTHORIZED, CallState.STARTED)


def _digest(offer: WorldOffer | ServerFailed | None) -> str:
    return "" if offer is None else offer.digest if isinstance(offer, WorldOffer) else str(offer)


def _offered(
    seen: ObservedToolServer, step: decide.ToolServerStep, offer: WorldOffer | ServerFailed | None
) -> RecordDraft | None:
    """Return the record of the offer of a simulated world; None for other steps."""
    if not isinstance(step, decide.ReadWorldOffer) or offer is None:
        return None
    if isinstance(offer, WorldOffer):
        return records.world_draft(seen.resource, offer, seen.now)
    return records.world_failed_draft(seen.resource, offer, seen.now)


def _draft(seen: ObservedToolServer, step: decide.ToolServerStep) -> RecordDraft | None:
    """Return the record of a step that only writes; None for other steps."""
    server = seen.resource
    match step:
        case decide.ReleaseToolServer():
            return records.server_released_draft(server, seen.approvals) if "mcp" in server.finalizers else None
        case decide.RenewToolServer(of=of):
            return records.renewed_draft(server, of)
        case decide.SetRunsIdle(runs=runs, is_idle=is_idle):
            return records.idle_draft(server, runs, seen.now if is_idle else None)
        case decide.ForgetRuns(runs=runs):
            return records.forgotten_draft(server, runs, seen.now)
        case decide.SettleTool(approval=approval):
            return records.tool_settled_draft(server, approval, seen.now)
        case (
            decide.StopRuns()
            | decide.StartRun()
            | decide.RefreshPrompts()
            | decide.ReadWorldOffer()
            | decide.ToolServerRest()
        ):
            return None
        case _:
            assert_never(step)
