"""The jobs that a decision may ask for, made from what was observed."""

from __future__ import annotations

from planloop.controllers.task import keys
from planloop.controllers.task.observing import Observed
from planloop.controllers.task.step import CheckJob, RunJob, Step, StopJob
from planloop.schemas.resource import Resource
from planloop.schemas.task import CheckSpec

# A command that runs already and the check that completes one go before new work: they finish what was begun.
_ADOPTION, _CHECK = 1_000_000, 500_000


def run_job(observed: Observed, incarnation: int, *, is_adoption: bool = False) -> RunJob:
    """The job for the command of `incarnation`."""
    priority = observed.spec.priority
    return RunJob(keys.run(observed.me.uid, incarnation, priority), priority + (_ADOPTION if is_adoption else 0))


def start_run(observed: Observed, step: Step, incarnation: int) -> Step:
    """`step` with the command queued; one that is queued at another priority is queued anew."""
    job = run_job(observed, incarnation)
    if job.key in observed.jobs:
        return step
    queued = tuple(key for key in observed.jobs if keys.is_run(key) and key not in observed.running)
    return Step(step.says, step.merge, step.changes, (job,), queued, step.again_s)


def check_job(observed: Observed, check: CheckSpec, round_: int) -> CheckJob:
    """The job for one check of a round."""
    digest = observed.digests[check.key]
    key = keys.check(observed.me.uid, round_, check.key, digest)
    return CheckJob(key, observed.spec.priority + _CHECK, check, round_, digest)


def stop_job(observed: Observed, call: Resource) -> StopJob:
    """The job that stops the command of `call`."""
    return StopJob(keys.stop(observed.me.uid, call.address), call.address, call.spec["op"])
