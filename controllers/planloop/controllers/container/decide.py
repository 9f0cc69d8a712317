"""Decide the next step of one container from one observation. Pure.

Compares what the engine last reported with the plan. Every effect may be repeated: by names and labels it finds what an
earlier try, or an earlier owner, has left.
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
REMOVE: Final = "lower"  # Removal, with the networks that no other container needs.
UPDATE: Final = "update"
PROBE: Final = "probe"
KEEP_LOG: Final = "follow"

REFUSALS: Final = frozenset(map(str, EngineErrorReason))
"""Reasons of the engine. The next owner tries again, because the cause may be gone."""


@frozen
class StartContainerJob:
    """Start this job."""

    job: str


@frozen
class CancelContainerJob:
    """Cancel this job: its result is no longer wanted."""

    job: str


@frozen
class CountContainerEnd:
    """The container has ended: count the end, and write what follows from it into the status."""


@frozen
class ExpireContainer:
    """The container has reached its `ttl`."""


@frozen
class MarkContainerSpent:
    """The results of the container no longer count, because the plan or task that needed it is over."""


@frozen
class ForgetContainer:
    """The status is about another version of the container: reset it."""


@frozen
class ReleaseContainer:
    """Nothing is left in the engine: the object may be removed."""


@frozen
class ContainerRest:
    """Nothing to do now; decide again after `after_s` seconds, if set."""

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
    """Return the next step."""
    if START in seen.jobs and (not seen.is_wanted or seen.raising != seen.of):
        return CancelContainerJob(START)
    if PROBE in seen.jobs and (seen.status.seen is None or seen.status.seen.run != "running"):
        return CancelContainerJob(PROBE)
    if not seen.is_looked:
        return _unlooked(seen)
    return _wanted(seen) if seen.is_wanted else _unwanted(seen)


def _unlooked(seen: ObservedContainer) -> ContainerStep:
    """Decide before the first look at the engine, which then wakes the container."""
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
    return _ended(seen, found) if found.has_ended else _absent(seen)  # A created or paused container is started.


def is_obsolete(seen: ObservedContainer, found: SeenContainer) -> bool:
    """Whether the existing container cannot serve as the wanted one, and must be replaced."""
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
    """Whether the failure is of another version of the container, or of an earlier owner whose plan ended with it.

    A failed container keeps its dependents failed. An edit, or another `plan apply`, makes the failure outdated, and
    the container is tried again.
    """
    status = seen.status
    is_other = bool(status.failure.of) and status.failure.of != seen.of
    return is_other or (status.ended.is_spent and bool(status.failure.of) and status.failure.by != seen.token)


def _gone(seen: ObservedContainer, found: SeenContainer) -> ContainerStep:
    """Remove the container, after those that need it."""
    if (step := _first_dependants(seen)) is not None:
        return step
    return _one(seen, STOP) if found.is_up else _logged(seen, found) or _one(seen, REMOVE)


def _first_dependants(seen: ObservedContainer) -> ContainerStep | None:
    """Return what must happen before the container may stop; None if nothing."""
    for job in (START, PROBE):
        if job in seen.jobs:
            return CancelContainerJob(job)
    return ContainerRest() if seen.dependants and not seen.is_wanted else None  # The end of each dependant wakes it.


def _logged(seen: ObservedContainer, found: SeenContainer) -> ContainerStep | None:
    """Keep the complete output before the container is removed; None when that is done."""
    if not found.started_at or seen.status.ended.logged == found.started_at:
        return None
    return ContainerRest() if KEEP_LOG in seen.jobs else StartContainerJob(KEEP_LOG)


def _one(seen: ObservedContainer, job: str) -> ContainerStep:
    """Start the job, unless one is running or the last one has just failed."""
    if seen.jobs & {REMOVE, STOP, UPDATE}:
        return ContainerRest()
    stuck = seen.status.stuck
    wait_s = 0.0 if stuck is None else stuck.retry_at - seen.now
    return ContainerRest(wait_s) if wait_s > 0 else StartContainerJob(job)


def is_kept_for_inspection(seen: ObservedContainer) -> bool:
    """Whether the container is kept for inspection when it is no longer needed."""
    match seen.spec.keep:
        case "always":
            return True
        case "on-failure":
            return seen.status.failure.of == seen.of
        case "never":
            return False


def _absent(seen: ObservedContainer) -> ContainerStep:
    """Decide for a wanted container of which none is running."""
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
    """Return the seconds until the next try after this many failures in a row."""
    return float(min(limits.BACKOFF_CAP_S, limits.CONTAINER_BACKOFF_S * 2.0 ** min(failures - 1, 30)))
