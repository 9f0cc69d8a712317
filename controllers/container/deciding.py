"""What is to be done for a container next: pure, from one observation to one step.

What the engine was last seen to have is compared with what is wanted. Every effect may be made again: names and labels
make it find what an earlier try, or an earlier owner, has left.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from controllers.container.observing import Observed
from controllers.container.status import Seen
from schemas import limits
from schemas.frozen import frozen

RAISE: Final = "raise"  # Image, networks, volumes, creation, start: one job.
STOP: Final = "stop"
LOWER: Final = "lower"  # Removal, with the networks that nobody needs any more.
UPDATE: Final = "update"
PROBE: Final = "probe"
FOLLOW: Final = "follow"


@frozen
class Start:
    """This job is to begin."""

    job: str


@frozen
class Cancel:
    """This job is to end: what it works for is not wanted any more."""

    job: str


@frozen
class Count:
    """It has ended: the end is counted, and what follows from it stands in the status."""


@frozen
class Forget:
    """What was known of it is about something else than is wanted now."""


@frozen
class Release:
    """Nothing of it is left in the engine: the object may go."""


@frozen
class Rest:
    """Nothing to do now; `after_s` is when a timer is due."""

    after_s: float | None = None


Step: TypeAlias = Start | Cancel | Count | Forget | Release | Rest


def decide(seen: Observed) -> Step:
    """The one next step."""
    if not seen.is_looked:
        return Rest()  # The first look at the engine wakes it.
    return _wanted(seen) if seen.is_wanted else _unwanted(seen)


def _wanted(seen: Observed) -> Step:
    status = seen.status
    if (status.failed_of and status.failed_of != seen.of) or (status.done_of and status.done_of != seen.of):
        return Cancel(RAISE) if RAISE in seen.jobs else Forget()
    if status.seen is not None and status.seen.of != seen.of:
        return _gone(seen, status.seen)
    if seen.jobs & {RAISE, LOWER, STOP, UPDATE}:
        return Rest()
    if status.seen is None:
        return _absent(seen)
    if status.seen.run == "running":
        return _running(seen, status.seen)
    if status.seen.run in ("exited", "dead"):
        return _ended(seen, status.seen)
    return _absent(seen)  # Created or paused: to be started.


def _unwanted(seen: Observed) -> Step:
    found = seen.status.seen
    if RAISE in seen.jobs:
        return Cancel(RAISE)
    if found is None:
        return Release() if seen.resource.deleting and not seen.jobs else Rest()
    if not seen.resource.deleting and _is_kept(seen, found):
        return Rest() if not found.is_up else _one(seen, STOP)
    return _gone(seen, found)


def _gone(seen: Observed, found: Seen) -> Step:
    """It is to be removed, after those that need it."""
    for job in (RAISE, PROBE):
        if job in seen.jobs:
            return Cancel(job)
    if seen.dependants and not seen.is_wanted:
        return Rest()  # Each that goes wakes it.
    return _one(seen, STOP) if found.is_up else _logged(seen, found) or _one(seen, LOWER)


def _logged(seen: Observed, found: Seen) -> Step | None:
    """What it has written is taken whole before it goes; None when that is done."""
    if not found.started_at or seen.status.logged == found.started_at:
        return None
    return Rest() if FOLLOW in seen.jobs else Start(FOLLOW)


def _one(seen: Observed, job: str) -> Step:
    """The job, unless it is at it, or has just failed."""
    if seen.jobs & {LOWER, STOP}:
        return Rest()
    wait_s = (seen.status.retry_at or 0.0) - seen.now
    return Rest(wait_s) if wait_s > 0 else Start(job)


def _is_kept(seen: Observed, found: Seen) -> bool:
    if seen.spec.keep == "on-failure":
        return bool(seen.status.failed_of) or (not found.is_up and found.exit_code != 0)
    return seen.spec.keep == "always"


def _absent(seen: Observed) -> Step:
    """There is none that runs."""
    status = seen.status
    if status.done_of == seen.of or not all(need.is_met for need in seen.needs):
        return Rest()
    if status.failed_of == seen.of:
        if status.retry_at is None:
            return Rest()
        if (wait_s := status.retry_at - seen.now) > 0:
            return Rest(wait_s)
    return Start(RAISE)


def _running(seen: Observed, found: Seen) -> Step:
    wanted = (seen.spec.cpu, seen.spec.memory_bytes, seen.spec.pids)
    if wanted != (found.cpu, found.memory_bytes, found.pids) and seen.status.failed_of != seen.of:
        return Start(UPDATE)
    if seen.status.logged != found.started_at and FOLLOW not in seen.jobs:
        return Start(FOLLOW)
    if seen.spec.health is not None and PROBE not in seen.jobs:
        return Start(PROBE)
    if seen.spec.health is None and PROBE in seen.jobs:
        return Cancel(PROBE)
    ttl_s = seen.spec.ttl_s
    return Rest(None if ttl_s is None else max(0.0, found.started_at + ttl_s - seen.now))


def _ended(seen: Observed, found: Seen) -> Step:
    if PROBE in seen.jobs:
        return Cancel(PROBE)
    if (step := _logged(seen, found)) is not None:
        return step
    if seen.status.counted != (found.ended_at or found.started_at):
        return Count()
    return _absent(seen)


def backoff_s(failures: int) -> float:
    """Seconds until the next try after so many failures in a row."""
    return float(min(limits.BACKOFF_CAP_S, limits.CONTAINER_BACKOFF_S * 2.0 ** min(failures - 1, 30)))
