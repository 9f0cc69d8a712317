"""The container controller: from wanted containers to running ones, one step at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from planloop.controllers.container import deciding, lowering, writing
from planloop.controllers.container.following import Following
from planloop.controllers.container.lowering import Acting
from planloop.controllers.container.observing import Observed, job_key, observe
from planloop.controllers.container.probing import Probing
from planloop.controllers.container.raising import Raising
from planloop.controllers.container.standing import standing
from planloop.controllers.container.status import read
from planloop.controllers.container.yard import Yard
from planloop.reconciler.contract import Again, Done, Outcome
from planloop.schemas import limits
from planloop.schemas.address import Address
from planloop.schemas.encoding import JsonObject
from planloop.schemas.record import Draft
from planloop.schemas.resource import Resource

POOL: Final = "free"  # A container is no work that others have to wait for.


class ContainerReconciler:
    """Drives objects of kind `container`. `watch` starts what looks at the engine; it is called once."""

    kind = "container"

    def __init__(self, yard: Yard, watch: Callable[[], None]) -> None:
        self._yard = yard
        self._watch = watch
        self._is_watching = False

    async def reconcile(self, address: Address) -> Outcome:
        """Takes steps until the container is as wanted, or waits for its jobs, for others or for time."""
        if not self._is_watching:
            self._is_watching = True
            self._watch()
        yard, name = self._yard, str(address)
        for _ in range(limits.PASS_STEPS_MAX):
            resource = yard.store.view.get(name)
            if resource is None:
                return Done()
            if yard.first_look.is_set() and _is_new(resource):
                await yard.store.append(writing.observed(resource, {"looked": yard.look_token}), {name: resource.rev})
                continue
            seen = observe(resource, yard.store.view, yard.work, yard.look_token, yard.clock.now())
            step = deciding.decide(seen)
            match step:
                case deciding.Start(job=job):
                    what = seen.of if job == deciding.RAISE else ""
                    yard.work.start(job_key(name, job, what), name, self._job(job, seen), pool=POOL)
                case deciding.Cancel(job=job):
                    yard.work.cancel(job_key(name, job, seen.raising if job == deciding.RAISE else ""))
            if (draft := self._draft(seen, step)) is not None:
                await yard.store.append(draft, {name: resource.rev})
            elif not isinstance(step, deciding.Start):
                return Again(step.after_s) if isinstance(step, deciding.Rest) and step.after_s is not None else Done()
        return Done()

    def _draft(self, seen: Observed, step: deciding.Step) -> Draft | None:
        """What is to be written now: what the step says, else how far the container is."""
        resource = seen.resource
        match step:
            case deciding.Count() if seen.status.seen is not None:
                return writing.observed(resource, writing.counted(seen, seen.status.seen))
            case deciding.Expire():
                expired: JsonObject = {**writing.CLEARED, "done_of": seen.of, "is_expired": True}
                return writing.observed(resource, expired)
            case deciding.Spend():
                return writing.observed(resource, {"is_spent": True})
            case deciding.Forget():
                return writing.observed(resource, writing.CLEARED)
            case deciding.Release() if "container" in resource.finalizers:
                return writing.released(resource)
        return writing.standing_draft(seen, standing(seen))

    def _job(self, job: str, seen: Observed) -> Callable[[], Awaitable[None]]:
        yard, address, uid = self._yard, seen.resource.address, seen.resource.uid
        match job:
            case deciding.RAISE:
                return Raising(yard, address, uid)
            case deciding.FOLLOW:
                return Following(yard, address, uid)
            case deciding.PROBE:
                return Probing(yard, address, uid)
        acts = {deciding.STOP: lowering.stop, deciding.LOWER: lowering.remove, deciding.UPDATE: lowering.update}
        return Acting(yard, address, uid, acts[job])


def _is_new(resource: Resource) -> bool:
    """Whether no owner has ever made anything of it."""
    status = read(resource.status)
    return not (status.looked or status.incarnation or status.engine or resource.deleting)
