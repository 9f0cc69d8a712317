"""What a conflict needs next: a pure function from what stands to one step.

Over when nobody is in anybody's way any more; else it is before somebody who could answer, and for a bounded time.
"""

from __future__ import annotations

from typing import TypeAlias

from planloop.controllers.agent.conflicts import routing
from planloop.controllers.agent.conflicts.standing import over_because, will_follow
from planloop.reconciler.storing.store import View
from planloop.schemas import limits
from planloop.schemas.conflict import OPEN, PERSON, ConflictSpec, ConflictStatus
from planloop.schemas.frozen import frozen
from planloop.schemas.patch import author_in_words


@frozen
class Close:
    """Nobody is in anybody's way any more."""

    why: str


@frozen
class Bring:
    """It comes before `to`, an agent or PERSON, with the whole time to answer. `why` is told to it."""

    to: str
    raised: int
    why: str


@frozen
class Rest:
    """Nothing to do before `due_at`; None: before something changes."""

    due_at: float | None


Step: TypeAlias = Close | Bring | Rest


def decide(view: View, spec: ConflictSpec, status: ConflictStatus, now: float) -> Step:
    """The next step of a conflict."""
    if not status.is_open:
        return Rest(None)
    if why := over_because(view, spec, status):
        return Close(why)
    if not status.before:
        return Bring(routing.first_able(view, routing.lowest_above(*spec.parties)), 0, "")
    if status.due_at is not None and status.due_at <= now:
        is_done = status.ruling is not None and will_follow(view, spec, status, status.ruling)
        return Rest(None) if is_done else _raised(view, status)
    if status.state == OPEN and status.before != PERSON:
        if not routing.is_able(view, status.before):
            to = routing.next_above(view, status.before)
            return Bring(to, status.raised, f"{status.before} takes no turns now")
        if run_of(view, status.before) != status.told:
            return Bring(status.before, status.raised, "")
    return Rest(status.due_at)


def _raised(view: View, status: ConflictStatus) -> Step:
    raised = min(status.raised + 1, limits.CONFLICT_RAISED_MAX)
    is_last = raised == limits.CONFLICT_RAISED_MAX
    to = PERSON if is_last else routing.next_above(view, status.before)
    if status.ruling is not None:
        by = author_in_words(status.ruling.by)
        return Bring(to, raised, f"{by} ruled `{status.ruling.how}`, and nobody gave way")
    return Bring(to, raised, f"{status.before} did not answer in {limits.CONFLICT_ANSWER_S:.0f} s")


def run_of(view: View, agent: str) -> int:
    """The run of an agent that is at work; 0 for a person."""
    found = view.get(agent)
    return 0 if found is None else int(found.status.get("incarnation") or 0)
