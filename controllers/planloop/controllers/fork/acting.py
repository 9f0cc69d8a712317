"""The fork controller: one step at a time, by jobs of the work plane, each of which can be done again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, assert_never

from planloop.controllers.fork import bringing, deciding, leaving, locking, looking, making
from planloop.controllers.fork.deciding import What
from planloop.controllers.fork.desk import ACTOR, Desk, Fork, Gone, noted
from planloop.controllers.fork.git import GitFailed
from planloop.controllers.fork.looking import Print
from planloop.controllers.fork.observing import Observed, job_key, observe
from planloop.reconciler.contract import Again, Done, Outcome
from planloop.reconciler.driving.working import WorkPlane
from planloop.schemas import limits
from planloop.schemas.address import Address
from planloop.schemas.encoding import JsonObject, printable
from planloop.schemas.fork import KIND, ForkState
from planloop.schemas.record import Draft, Mark

POOL: Final = "tools"


_JOBS: Final[Mapping[What, Callable[[Fork], Awaitable[None]]]] = MappingProxyType(
    {"make": making.make, "bring": bringing.bring, "leave": leaving.leave, "clear": leaving.clear, "look": looking.look}
)


class ForkReconciler:
    """Drives objects of kind `fork`. Keeps when a person's merge was last looked at: a hint, and nothing else."""

    kind = KIND

    def __init__(self, desk: Desk, work: WorkPlane) -> None:
        self._desk = desk
        self._work = work
        self._looked: dict[str, tuple[float, Print]] = {}

    async def reconcile(self, address: Address) -> Outcome:
        """One step for the fork at `address`. Raises Conflict when somebody who works in it moved meanwhile."""
        resource = self._desk.store.view.get(str(address))
        if resource is None:
            self._looked.pop(str(address), None)
            return Done()
        seen = observe(resource, self._desk.store.view, self._work, self._desk.clock.now())
        return self._act(seen, deciding.decide(seen))

    def _act(self, seen: Observed, step: deciding.Step) -> Outcome:
        store, fork = self._desk.store, seen.resource
        match step:
            case deciding.Enter(merge=merge):
                # Read and written without a pause: who works in it sees this before it begins anything.
                draft = noted(fork, f"fork.{merge['state']}", merge, {})
                store.propose(draft, {fork.address: fork.rev, **seen.revs})
            case deciding.Answer():
                store.propose(noted(fork, "fork.brought", {"answered": seen.asked.bring}, {}), {fork.address: fork.rev})
            case deciding.Release():
                if KIND in fork.finalizers:
                    left = tuple(name for name in fork.finalizers if name != KIND)
                    change = Mark(fork.address, fork.uid, finalizers=left)
                    store.propose(Draft("object.updated", ACTOR, fork.address, (change,)), {fork.address: fork.rev})
            case deciding.Do(what=what):
                return self._start(seen, what)
            case deciding.Rest(after_s=after_s):
                return Done() if after_s is None else Again(after_s)
            case _:
                assert_never(step)
        return Done()

    def _start(self, seen: Observed, what: What) -> Outcome:
        address = seen.resource.address
        if what == "look" and (wait_s := self._wait_s(seen)) > 0:
            return Again(wait_s)
        fork = Fork(self._desk, address, seen.resource.uid)
        self._work.start(job_key(fork.uid, what), address, partial(self._run, fork, what), pool=POOL)
        return Done()

    def _wait_s(self, seen: Observed) -> float:
        """Seconds until a merge that a person mends is to be looked at; 0 for now, because something of it moved."""
        address = seen.resource.address
        at, print_ = self._looked.get(address, (0.0, ()))
        if at + limits.FORK_LOOK_S > seen.now:
            return at + limits.FORK_LOOK_S - seen.now
        now = looking.print_of(self._desk.folder / seen.status.folder, seen.status.files)
        self._looked[address] = (seen.now, now)
        return limits.FORK_LOOK_S if now == print_ else 0.0

    async def _run(self, fork: Fork, what: What) -> None:
        """Does it; what git or the disk refuses is noted, and tried again later."""
        try:
            await _JOBS[what](fork)
        except Gone:
            return
        except (GitFailed, OSError) as failed:
            tries = fork.status.tries + 1
            merge: JsonObject = {"tries": tries, "fault": printable(str(failed))}
            merge["retry_at"] = self._desk.clock.now() + deciding.retry_s(tries)
            # Where nothing is half written nobody is kept off meanwhile.
            is_between = fork.status.state is ForkState.MERGING
            merge |= locking.NO_WISH if is_between else {}
            freed = locking.freed(fork) if is_between else ()
            await fork.note("fork.failed", merge, {"message": printable(str(failed))}, freed)
