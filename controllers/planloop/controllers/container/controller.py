"""Container controller: create, start, probe, restart and remove the containers of a plan, one step at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from planloop.controllers.container import decide, records, run_jobs
from planloop.controllers.container.context import ContainerContext
from planloop.controllers.container.observe import ObservedContainer, container_job_key, observe_container
from planloop.controllers.container.readiness import container_readiness
from planloop.controllers.container.run_jobs import HealthJob, LogJob, StopJobs
from planloop.controllers.container.start_jobs import StartJob
from planloop.controllers.container.status import read_container_status
from planloop.reconciler.engine.reconcile import Again, Done, Outcome
from planloop.schemas import limits
from planloop.schemas.address import Address
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.log.record import RecordDraft
from planloop.schemas.resource import Resource

POOL: Final = "free"  # Jobs of containers take no slot.


class ContainerReconciler:
    """The `Reconciler` of containers. `watch` starts the watcher of the engine; it is called once."""

    kind = "container"

    def __init__(self, context: ContainerContext, watch: Callable[[], None]) -> None:
        self._context = context
        self._watch = watch
        self._is_watching = False

    async def reconcile(self, address: Address) -> Outcome:
        """Take steps until the container is as the plan says, or waits for a job, another container or a timer."""
        if not self._is_watching:
            self._is_watching = True
            self._watch()
        context, name = self._context, str(address)
        for _ in range(limits.PASS_STEPS_MAX):
            resource = context.store.view.get(name)
            if resource is None:
                return Done()
            if context.first_look.is_set() and _is_new(resource):
                await context.store.append(
                    records.container_draft(resource, {"looked": context.look_token}), {name: resource.rev}
                )
                continue
            seen = observe_container(
                resource, context.store.view, context.work, context.look_token, context.clock.now()
            )
            step = decide.decide_container(seen)
            match step:
                case decide.StartContainerJob(job=job):
                    what = seen.of if job == decide.START else ""
                    context.work.start(container_job_key(name, job, what), name, self._job(job, seen), pool=POOL)
                case decide.CancelContainerJob(job=job):
                    context.work.cancel(container_job_key(name, job, seen.raising if job == decide.START else ""))
            if (draft := self._draft(seen, step)) is not None:
                await context.store.append(draft, {name: resource.rev})
            elif not isinstance(step, decide.StartContainerJob):
                return (
                    Again(step.after_s)
                    if isinstance(step, decide.ContainerRest) and step.after_s is not None
                    else Done()
                )
        return Done()

    def _draft(self, seen: ObservedContainer, step: decide.ContainerStep) -> RecordDraft | None:
        """Return the record of the step, else the record of the container's state; None if nothing changes."""
        resource = seen.resource
        match step:
            case decide.CountContainerEnd() if seen.status.seen is not None:
                return records.container_draft(resource, records.end_merge(seen, seen.status.seen))
            case decide.ExpireContainer():
                expired: JsonObject = {**records.CLEARED_MERGE, "done_of": seen.of, "is_expired": True}
                return records.container_draft(resource, expired)
            case decide.MarkContainerSpent():
                return records.container_draft(resource, {"is_spent": True})
            case decide.ForgetContainer():
                return records.container_draft(resource, records.CLEARED_MERGE)
            case decide.ReleaseContainer() if "container" in resource.finalizers:
                return records.release_draft(resource)
        return records.readiness_draft(seen, container_readiness(seen))

    def _job(self, job: str, seen: ObservedContainer) -> Callable[[], Awaitable[None]]:
        context, address, uid = self._context, seen.resource.address, seen.resource.uid
        match job:
            case decide.START:
                return StartJob(context, address, uid)
            case decide.KEEP_LOG:
                return LogJob(context, address, uid)
            case decide.PROBE:
                return HealthJob(context, address, uid)
        acts = {
            decide.STOP: run_jobs.stop_container,
            decide.REMOVE: run_jobs.remove_container,
            decide.UPDATE: run_jobs.update_limits,
        }
        return StopJobs(context, address, uid, acts[job])


def _is_new(resource: Resource) -> bool:
    """Whether no owner has created this container or looked for it yet."""
    status = read_container_status(resource.status)
    return not (status.looked or status.incarnation or status.engine or resource.deleting)
