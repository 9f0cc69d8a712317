"""Fork controller: create, merge back and remove working trees of forks, by jobs that can each be repeated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, assert_never

from planloop.controllers.fork import context, decide, lifecycle, merge_back
from planloop.controllers.fork.context import ACTOR, ForkContext, ForkGone, ForkHandle, fork_draft_of
from planloop.controllers.fork.decide import ForkJob, ObservedFork, fork_job_key, observe_fork
from planloop.controllers.fork.git import GitFailed
from planloop.controllers.fork.merge_back import FilesFingerprint
from planloop.reconciler.engine.reconcile import Again, Done, Outcome
from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.schemas import limits
from planloop.schemas.address import Address
from planloop.schemas.canonical_json import JsonObject, printable_name
from planloop.schemas.log.record import Mark, RecordDraft
from planloop.schemas.objects.fork import FORK_KIND, ForkState

POOL: Final = "tools"


_JOBS: Final[Mapping[ForkJob, Callable[[ForkHandle], Awaitable[None]]]] = MappingProxyType(
    {
        "make": lifecycle.create_worktree,
        "bring": merge_back.merge_back,
        "leave": lifecycle.commit_leftovers,
        "clear": lifecycle.remove_worktree,
        "look": merge_back.check_conflict_resolved,
    }
)


class ForkReconciler:
    """The `Reconciler` of forks. It caches when a merge that a person resolves was last checked, and nothing else."""

    kind = FORK_KIND

    def __init__(self, services: ForkContext, work: WorkPlane) -> None:
        self._services = services
        self._work = work
        self._looked: dict[str, tuple[float, FilesFingerprint]] = {}

    async def reconcile(self, address: Address) -> Outcome:
        """Take one step for the fork at `address`.

        Raises:
            Conflict: a task or agent that works in the fork changed meanwhile.
        """
        resource = self._services.store.view.get(str(address))
        if resource is None:
            self._looked.pop(str(address), None)
            return Done()
        seen = observe_fork(resource, self._services.store.view, self._work, self._services.clock.now())
        return self._act(seen, decide.decide_fork(seen))

    def _act(self, seen: ObservedFork, step: decide.ForkStep) -> Outcome:
        store, fork = self._services.store, seen.resource
        match step:
            case decide.EnterForkState(merge=merge):
                # No await between read and write: tasks and agents see this state before they begin anything.
                draft = fork_draft_of(fork, f"fork.{merge['state']}", merge, {})
                store.propose(draft, {fork.address: fork.rev, **seen.revs})
            case decide.ReportNothingToMerge():
                store.propose(
                    fork_draft_of(fork, "fork.brought", {"answered": seen.asked.bring}, {}), {fork.address: fork.rev}
                )
            case decide.ReleaseFork():
                if FORK_KIND in fork.finalizers:
                    left = tuple(name for name in fork.finalizers if name != FORK_KIND)
                    change = Mark(fork.address, fork.uid, finalizers=left)
                    store.propose(
                        RecordDraft("object.updated", ACTOR, fork.address, (change,)), {fork.address: fork.rev}
                    )
            case decide.StartForkJob(what=what):
                return self._start(seen, what)
            case decide.ForkRest(after_s=after_s):
                return Done() if after_s is None else Again(after_s)
            case _:
                assert_never(step)
        return Done()

    def _start(self, seen: ObservedFork, what: ForkJob) -> Outcome:
        address = seen.resource.address
        if what == "look" and (wait_s := self._wait_s(seen)) > 0:
            return Again(wait_s)
        fork = ForkHandle(self._services, address, seen.resource.uid)
        self._work.start(fork_job_key(fork.uid, what), address, partial(self._run, fork, what), pool=POOL)
        return Done()

    def _wait_s(self, seen: ObservedFork) -> float:
        """Return the seconds until a merge that a person resolves is checked; 0 if its files have changed."""
        address = seen.resource.address
        at, print_ = self._looked.get(address, (0.0, ()))
        if at + limits.FORK_LOOK_S > seen.now:
            return at + limits.FORK_LOOK_S - seen.now
        now = merge_back.files_fingerprint(self._services.folder / seen.status.folder, seen.status.files)
        self._looked[address] = (seen.now, now)
        return limits.FORK_LOOK_S if now == print_ else 0.0

    async def _run(self, fork: ForkHandle, what: ForkJob) -> None:
        """Run the job. An error of git or the disk is written into the status, and the job is tried again later."""
        try:
            await _JOBS[what](fork)
        except ForkGone:
            return
        except (GitFailed, OSError) as failed:
            tries = fork.status.tries + 1
            merge: JsonObject = {"tries": tries, "fault": printable_name(str(failed))}
            merge["retry_at"] = self._services.clock.now() + decide.git_retry_s(tries)
            # If no file was written yet, release the locks meanwhile.
            is_between = fork.status.state is ForkState.MERGING
            merge |= context.NO_WISH if is_between else {}
            freed = context.release_fork_locks(fork) if is_between else ()
            await fork.note("fork.failed", merge, {"message": printable_name(str(failed))}, freed)
