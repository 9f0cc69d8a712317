"""The container controller: from wanted containers to running ones, one step at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from controllers.container import deciding, writing
from controllers.container.following import Following, Probing
from controllers.container.lowering import Acting, remove, stop, update
from controllers.container.observing import Observed, job_key, observe
from controllers.container.raising import Raising
from controllers.container.yard import Yard
from reconciler.contract import Again, Done, Outcome
from schemas import limits
from schemas.address import Address
from schemas.record import Draft

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
            seen = observe(resource, yard.store.view, yard.work, yard.epoch, yard.clock.now())
            step = deciding.decide(seen)
            match step:
                case deciding.Start(job=job):
                    yard.work.start(job_key(name, job), name, self._job(job, seen), pool=POOL)
                case deciding.Cancel(job=job):
                    yard.work.cancel(job_key(name, job))
            if (draft := self._draft(seen, step)) is not None:
                await yard.store.append(draft, {name: resource.rev})
                continue
            if isinstance(step, deciding.Start):
                continue
            return Again(step.after_s) if isinstance(step, deciding.Rest) and step.after_s is not None else Done()
        return Done()

    def _draft(self, seen: Observed, step: deciding.Step) -> Draft | None:
        """What is to be written now: what the step says, else how far the container is."""
        match step:
            case deciding.Count() if seen.status.seen is not None:
                return writing.observed(seen.resource, writing.counted(seen, seen.status.seen))
            case deciding.Forget():
                return writing.observed(seen.resource, writing.CLEARED)
            case deciding.Release() if "container" in seen.resource.finalizers:
                return writing.released(seen.resource)
        return writing.standing_draft(seen) if seen.is_looked else writing.unlooked_draft(seen)

    def _job(self, job: str, seen: Observed) -> Callable[[], Awaitable[None]]:
        yard, address, uid = self._yard, seen.resource.address, seen.resource.uid
        match job:
            case deciding.RAISE:
                return Raising(yard, address, uid)
            case deciding.FOLLOW:
                return Following(yard, address, uid)
            case deciding.PROBE:
                return Probing(yard, address, uid)
        acts = {deciding.STOP: stop, deciding.LOWER: remove, deciding.UPDATE: update}
        return Acting(yard, address, uid, acts[job])
