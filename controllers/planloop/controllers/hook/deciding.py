"""What is to become of a hook: pure, from what was observed to one step. A second look at what it made gives none."""

from __future__ import annotations

from typing import TypeAlias

from planloop.controllers.hook.observing import Observed
from planloop.schemas.frozen import frozen
from planloop.schemas.hook import OVER, ended_by


@frozen
class Rest:
    """Nothing to do. `after_s` is when its time comes, None for never."""

    after_s: float | None = None


@frozen
class Begin:
    """Its time counts from now on, and from after `turn`. `is_anew`: what it remembered was of another run."""

    incarnation: int
    turn: int
    is_anew: bool = True


@frozen
class Stop:
    """It is over, and `why` in words for people."""

    why: str


@frozen
class Release:
    """Nothing is left of it."""


Step: TypeAlias = Rest | Begin | Stop | Release


def decide(seen: Observed) -> Step:
    """The next step of a hook."""
    if seen.hook.deleting:
        # What is made for it goes by itself; its end wakes this one.
        return Rest() if seen.is_agent_there or not seen.hook.finalizers else Release()
    life = seen.life
    if life.approved_by and seen.spec.expires.is_by_approval:
        return Rest() if life.is_over else Stop(f"approved by {life.approved_by}")
    if seen.spec.is_read_only:
        return _following(seen)
    if seen.incarnation > life.incarnation and (life.is_used or _is_timed(seen)):
        return Begin(seen.incarnation, 0)
    if life.is_over:
        return Rest()
    if life.since is None and not life.is_used and _is_late(seen):
        return Stop("what it is a copy of was over before it began")
    if life.since is None and _is_timed(seen):
        return Begin(seen.incarnation, max(life.since_turn, seen.since_turn), is_anew=False)
    return _timed(seen)


def _following(seen: Observed) -> Step:
    """A read-only copy has no end of its own."""
    if _is_over(seen) == seen.life.is_over:
        return Rest()
    if not seen.life.is_over:
        return Stop("what it is a copy of is over")
    return Begin(seen.incarnation, seen.since_turn)


def _is_over(seen: Observed) -> bool:
    return seen.original is not None and seen.original.state == OVER


def _is_late(seen: Observed) -> bool:
    """Whether the original was over already when this copy was made."""
    return _is_over(seen) and seen.original is not None and seen.hook.created_rev > seen.original.rev


def _is_timed(seen: Observed) -> bool:
    """Whether something counts from when it began."""
    return seen.spec.expires.turns is not None or seen.spec.expires.time_s is not None


def _timed(seen: Observed) -> Step:
    why = ended_by(seen.spec.expires, seen.hook.status, seen.turns, seen.now)
    if why:
        return Stop(why)
    if seen.spec.expires.time_s is None or seen.life.since is None:
        return Rest()
    return Rest(seen.life.since + seen.spec.expires.time_s - seen.now)
