"""Decide the next step of a conflict, a pure function.

Over when nobody is in anybody's way any more; else it is before somebody who could answer, and for a bounded time.
"""

from __future__ import annotations

from typing import TypeAlias

from planloop.controllers.agent.conflicts import participants
from planloop.controllers.agent.conflicts.participants import why_over, will_follow
from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.frozen import frozen
from planloop.schemas.log.patch import describe_author
from planloop.schemas.objects.conflict import OPEN, PERSON, ConflictSpec, ConflictStatus


@frozen
class CloseConflict:
    """Nobody is in anybody's way any more."""

    why: str


@frozen
class RouteConflict:
    """It comes before `to`, an agent or PERSON, with the whole time to answer. `why` is told to it."""

    to: str
    raised: int
    why: str


@frozen
class ConflictRest:
    """Nothing to do before `due_at`; None: before something changes."""

    due_at: float | None


ConflictStep: TypeAlias = CloseConflict | RouteConflict | ConflictRest


def decide(view: View, spec: ConflictSpec, status: ConflictStatus, now: float) -> ConflictStep:
    """The next step of a conflict."""
    if not status.is_open:
        return ConflictRest(None)
    if why := why_over(view, spec, status):
        return CloseConflict(why)
    if not status.before:
        return RouteConflict(participants.nearest_able(view, participants.nearest_ancestor(*spec.parties)), 0, "")
    if status.due_at is not None and status.due_at <= now:
        is_done = status.ruling is not None and will_follow(view, spec, status, status.ruling)
        return ConflictRest(None) if is_done else _raised(view, status)
    if status.state == OPEN and status.before != PERSON:
        if not participants.can_resolve(view, status.before):
            to = participants.next_able_above(view, status.before)
            return RouteConflict(to, status.raised, f"{status.before} takes no turns now")
        if incarnation_of(view, status.before) != status.told:
            return RouteConflict(status.before, status.raised, "")
    return ConflictRest(status.due_at)


def _raised(view: View, status: ConflictStatus) -> ConflictStep:
    raised = min(status.raised + 1, limits.CONFLICT_RAISED_MAX)
    is_last = raised == limits.CONFLICT_RAISED_MAX
    to = PERSON if is_last else participants.next_able_above(view, status.before)
    if status.ruling is not None:
        by = describe_author(status.ruling.by)
        return RouteConflict(to, raised, f"{by} ruled `{status.ruling.how}`, and nobody gave way")
    return RouteConflict(to, raised, f"{status.before} did not answer in {limits.CONFLICT_ANSWER_S:.0f} s")


def incarnation_of(view: View, agent: str) -> int:
    """The run of an agent that is at work; 0 for a person."""
    found = view.get(agent)
    return 0 if found is None else int(found.status.get("incarnation") or 0)
