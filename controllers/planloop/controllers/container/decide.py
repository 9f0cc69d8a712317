"""Decide the next step of one container, from one observation. Pure.

What the engine was last seen to have is compared with what is wanted. Every effect may be made again: names and labels
make it find what an earlier try, or an earlier owner, has left.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from planloop.containers.engine.engine import ContainerLimits, EngineErrorReason
from planloop.controllers.container.observe import ObservedContainer, limits_digest
from planloop.controllers.container.status import SeenContainer
from planloop.schemas import limits
from planloop.schemas.frozen import frozen

START: Final = "raise"  # Image, networks, volumes, creation, start: one job.
STOP: Final = "stop"
REMOVE: Final = "lower"  # Removal, with the networks that nobody needs any more.
UPDATE: Final = "update"
PROBE: Final = "probe"
KEEP_LOG: Final = "follow"

REFUSALS: Final = frozenset(map(str, EngineErrorReason))
"""Reasons of an engine: another owner asks again, for much may have happened since."""


@frozen
class StartContainerJob:
    """This job is to begin."""

    job: str


@frozen
class CancelContainerJob:
    """This job is to end: what it works for is not wanted any more."""

    job: str


@frozen
class CountContainerEnd:
    """It has ended: the end is counted, and what follows from it stands in the status."""


@frozen
class ExpireContainer:
    """It has run for as long as it may."""


@frozen
class MarkContainerSpent:
    """What it did was for something that is over."""


@frozen
class ForgetContainer:
    """What was known of it is about something else than is wanted now."""


@frozen
class ReleaseContainer:
    """Nothing of it is left in the engine: the object may go."""


@frozen
class ContainerRest:
    """Nothing to do now; `after_s` is when a timer is due."""

    after_s: float | None = None


ContainerStep: TypeAlias = (
    StartContainerJob
    | CancelContainerJob
    | CountContainerEnd
    | ExpireContainer
    | MarkContainerSpent
    | ForgetContainer
    | ReleaseContainer
    | ContainerRest
)


def decide_container(seen: ObservedContainer) -> ContainerStep:
    """The one next step."""
    if START in seen.jobs and (not seen.is_wanted or seen.raising != seen.of):
        return CancelContainerJob(START)
    if PROBE in seen.jobs and (seen.status.seen is None or seen.status.seen.run != "running"):
        return CancelContainerJob(PROBE)
    if not seen.is_looked:
        return _unlooked(seen)
    return _wanted(seen) if seen.is_wanted else _unwanted(seen)


def _unlooked(seen: ObservedContainer) -> ContainerStep:
    """Nobody knows what the engine has. The first look at it wakes the container."""
    was_never = not seen.status.incarnation and not seen.jobs
    return ReleaseContainer() if seen.resource.deleting and was_never else ContainerRest()


def _wanted(seen: ObservedContainer) -> ContainerStep:
    status, found = seen.status, seen.status.seen
    if found is not None and is_obsolete(seen, found):
        return _gone(seen, found)
    if (
        status.ended.is_spent
        or (status.failure.of or seen.of) != seen.of
        or (status.ended.done_of or seen.of) != seen.of
    ):
        return ForgetContainer()
    if seen.jobs & {START, REMOVE, STOP, UPDATE} or (found is not None and found.run == "removing"):
        return ContainerRest()
    if found is None:
        return _absent(seen)
    if found.run == "running":
        return _running(seen, found)
    return _ended(seen, found) if found.has_ended else _absent(seen)  # Created or paused: to be started.


def is_obsolete(seen: ObservedContainer, found: SeenContainer) -> bool:
    """Whether what there is of a wanted container is of no use to it."""
    status = seen.status
    is_over = status.ended.done_of == seen.of and (found.is_up or status.ended.is_expired)
    return found.tag.digest != seen.of or found.started_at == status.ended.stopping or status.ended.is_spent or is_over


def _unwanted(seen: ObservedContainer) -> ContainerStep:
    status, found = seen.status, seen.status.seen
    if seen.resource.deleting:
        return _gone(seen, found) if found is not None else ContainerRest() if seen.jobs else ReleaseContainer()
    if found is not None and not is_kept_for_inspection(seen):
        return _gone(seen, found)
    if found is not None and found.is_up:
        return _first_dependants(seen) or _one(seen, STOP)
    if found is not None and (step := _logged(seen, found)) is not None:
        return step
    if is_failure_outdated(seen):
        return ForgetContainer()
    has_past = found is not None or status.failure.of or status.ended.done_of
    return MarkContainerSpent() if has_past and not status.ended.is_spent else ContainerRest()


def is_failure_outdated(seen: ObservedContainer) -> bool:
    """Whether it failed as something else than is said of it now, or for an earlier owner in a plan that ended with it.

    As long as it stands as failed, so does what waits for it: who edits it, or applies the plan again, has it tried.
    """
    status = seen.status
    is_other = bool(status.failure.of) and status.failure.of != seen.of
    return is_other or (status.ended.is_spent and bool(status.failure.of) and status.failure.by != seen.token)


def _gone(seen: ObservedContainer, found: SeenContainer) -> ContainerStep:
    """It is to be removed, after those that need it."""
    if (step := _first_dependants(seen)) is not None:
        return step
    return _one(seen, STOP) if found.is_up else _logged(seen, found) or _one(seen, REMOVE)


def _first_dependants(seen: ObservedContainer) -> ContainerStep | None:
    """What comes before its end."""
    for job in (START, PROBE):
        if job in seen.jobs:
            return CancelContainerJob(job)
    return ContainerRest() if seen.dependants and not seen.is_wanted else None  # Each that goes wakes it.


def _logged(seen: ObservedContainer, found: SeenContainer) -> ContainerStep | None:
    """What it has written is taken whole before it goes; None when that is done."""
    if not found.started_at or seen.status.ended.logged == found.started_at:
        return None
    return ContainerRest() if KEEP_LOG in seen.jobs else StartContainerJob(KEEP_LOG)


def _one(seen: ObservedContainer, job: str) -> ContainerStep:
    """The job, unless it is at it, or has just failed."""
    if seen.jobs & {REMOVE, STOP, UPDATE}:
        return ContainerRest()
    stuck = seen.status.stuck
    wait_s = 0.0 if stuck is None else stuck.retry_at - seen.now
    return ContainerRest(wait_s) if wait_s > 0 else StartContainerJob(job)


def is_kept_for_inspection(seen: ObservedContainer) -> bool:
    """Whether it stays for inspection when nobody needs it."""
    match seen.spec.keep:
        case "always":
            return True
        case "on-failure":
            return seen.status.failure.of == seen.of
        case "never":
            return False


def _absent(seen: ObservedContainer) -> ContainerStep:
    """There is none that runs."""
    status = seen.status
    if status.ended.done_of == seen.of or not all(need.is_met for need in seen.needs):
        return ContainerRest()
    if status.failure.of == seen.of:
        if status.failure.retry_at is None:
            may_help = status.failure.reason in REFUSALS and status.failure.by != seen.token
            return StartContainerJob(START) if may_help else ContainerRest()
        if (wait_s := status.failure.retry_at - seen.now) > 0:
            return ContainerRest(wait_s)
    return StartContainerJob(START)


def _running(seen: ObservedContainer, found: SeenContainer) -> ContainerStep:
    ttl_s = seen.spec.ttl_s
    left_s = None if ttl_s is None else found.started_at + ttl_s - seen.now
    if left_s is not None and left_s <= 0:
        return ExpireContainer()
    wanted = ContainerLimits(seen.spec.cpu, seen.spec.memory_bytes, seen.spec.pids)
    if wanted != found.bound and seen.status.refused.of != limits_digest(seen.spec):
        return StartContainerJob(UPDATE)
    if seen.status.ended.logged != found.started_at and KEEP_LOG not in seen.jobs:
        return StartContainerJob(KEEP_LOG)
    if seen.spec.health is not None and PROBE not in seen.jobs:
        return StartContainerJob(PROBE)
    if seen.spec.health is None and PROBE in seen.jobs:
        return CancelContainerJob(PROBE)
    return ContainerRest(left_s)


def _ended(seen: ObservedContainer, found: SeenContainer) -> ContainerStep:
    if (step := _logged(seen, found)) is not None:
        return step
    return CountContainerEnd() if seen.status.ended.counted != found.end else _absent(seen)


def container_backoff_s(failures: int) -> float:
    """Seconds until the next try after so many failures in a row."""
    return float(min(limits.BACKOFF_CAP_S, limits.CONTAINER_BACKOFF_S * 2.0 ** min(failures - 1, 30)))
