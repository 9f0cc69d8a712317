"""What is to be done for a server next: pure, from one observation to one step.

A server is started when an agent that may use it has begun to work, not at apply: a plan of a hundred servers pays for
those in use, and a tool that nobody may use is not downloaded. It stays for a while when nobody needs it any more, and
goes at once when the plan is over, its spec changed or it was removed.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from planloop.controllers.mcp.observing import Observed
from planloop.controllers.mcp.status import Run
from planloop.schemas import limits
from planloop.schemas.approval import WAITING
from planloop.schemas.frozen import frozen
from planloop.schemas.mcp import SHARED, ServerState
from planloop.schemas.resource import Resource


@frozen
class Stop:
    """These runs are to end."""

    runs: tuple[str, ...]


@frozen
class Release:
    """Nothing of it runs any more: the object may go."""


@frozen
class Renew:
    """Another program, address or environment is wanted: what was known of the old one is forgotten."""

    of: str


@frozen
class Start:
    """This run is to begin."""

    run: str


@frozen
class Linger:
    """These runs are not needed since now (`is_idle`), or needed again."""

    runs: tuple[str, ...]
    is_idle: bool


@frozen
class Forget:
    """These runs are told of in the status and are no more: an earlier owner's, or of an agent that has gone."""

    runs: tuple[str, ...]


@frozen
class Refresh:
    """A prompt is wanted that the server was not asked for yet."""


@frozen
class Offer:
    """What a simulated world offers is not known yet: nothing has to be started for it."""


@frozen
class Settle:
    """A changed tool was agreed to, or refused."""

    approval: Resource


@frozen
class Rest:
    """Nothing to do now; `after_s` is when a timer is due."""

    after_s: float | None = None


Step: TypeAlias = Stop | Release | Renew | Start | Linger | Forget | Refresh | Offer | Settle | Rest


def decide(seen: Observed) -> Step:
    """The one next step."""
    if seen.resource.deleting:
        return Stop(tuple(sorted(seen.live))) if seen.live else Release()
    if seen.status.of != seen.of:
        return Stop(tuple(sorted(seen.live))) if seen.live else Renew(seen.of)
    if seen.spec.world:
        return Rest() if seen.status.runs else Offer()
    if past := tuple(name for name, run in seen.status.runs.items() if _is_past(seen, name, run)):
        return Forget(past)
    answered = next((each for each in seen.approvals.values() if each.state != WAITING), None)
    if answered is not None:
        return Settle(answered)
    if any(run.state is ServerState.READY for run in seen.status.runs.values()) and not _has_texts(seen):
        return Refresh()
    return _unneeded(seen) or _needed(seen)


def _has_texts(seen: Observed) -> bool:
    return all(name in seen.status.texts for name in seen.spec.prompts)


def _is_past(seen: Observed, name: str, run: Run) -> bool:
    if name in seen.live:
        return False
    return run.state in LIVING or (name != SHARED and name not in seen.needed)


def _unneeded(seen: Observed) -> Step | None:
    """What is to be done about runs that nobody needs; None when nothing is, or only later."""
    spare = tuple(sorted(seen.live.difference(seen.needed)))
    if not spare:
        return None
    if seen.is_over:
        return Stop(spare)
    fresh = tuple(name for name in spare if run_of(seen, name).idle_since is None)
    if fresh:
        return Linger(fresh, is_idle=True)
    over = tuple(name for name in spare if _linger_s(seen, name) <= 0)
    return Stop(over) if over else None


def _needed(seen: Observed) -> Step:
    wanted_again = tuple(name for name in seen.needed if run_of(seen, name).idle_since is not None)
    if wanted_again:
        return Linger(wanted_again, is_idle=False)
    dues: list[float] = [_linger_s(seen, name) for name in seen.live.difference(seen.needed)]
    for name in seen.needed:
        if name in seen.live:
            continue
        due_s = (run_of(seen, name).next_at or 0.0) - seen.now
        if due_s <= 0:
            return Start(name)
        dues.append(due_s)
    return Rest(min(dues) if dues else None)


def run_of(seen: Observed, name: str) -> Run:
    """What is known of a run; one that never was is idle."""
    return seen.status.runs.get(name) or Run()


def _linger_s(seen: Observed, name: str) -> float:
    since = run_of(seen, name).idle_since
    return limits.SERVER_LINGER_S if since is None else since + limits.SERVER_LINGER_S - seen.now


def ended(run: Run, now: float, reason: str) -> Run:
    """A run after it ended by itself, with `reason`: when it is tried again, and whether anybody should wait for that.

    Who ran long enough begins anew to count. What cannot be started at all is not waited for.
    """
    was_steady = run.ready_at is not None and now - run.ready_at >= limits.SERVER_STEADY_S
    failures = 1 if was_steady else run.failures + 1
    since = now if run.ready_at is not None or run.failing_since is None else run.failing_since
    # A program that ends six times is broken. A URL where nothing listens may belong to a server that is starting.
    least_s = limits.SERVER_UNREACHABLE_S if reason == "Unreachable" else 0.0
    is_hopeless = reason in HOPELESS or (failures >= limits.SERVER_FAILURES_MAX and now - since >= least_s)
    pause_s = min(limits.SERVER_RETRY_CAP_S, limits.BACKOFF_BASE_S * 2.0 ** min(failures, 30))
    return Run(
        state=ServerState.FAILED if is_hopeless else ServerState.RESTARTING,
        next_at=now + (limits.BACKOFF_CAP_S if is_hopeless else pause_s),
        failures=failures,
        failing_since=since,
        restarts=run.restarts + 1,
        reason=reason,
    )


LIVING: Final = (ServerState.STARTING, ServerState.READY)

HOPELESS: Final = frozenset({"NoProgram", "NoSecret", "NoVariable", "BadWorld"})
"""What somebody has to mend first; it is still tried now and then, because that is how we learn that it was mended."""
