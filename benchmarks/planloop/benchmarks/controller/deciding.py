"""What is to become of a case: pure, from what was observed to one step."""

from __future__ import annotations

from typing import Final, TypeAlias

from planloop.benchmarks.controller.observing import Observed
from planloop.schemas.agent import NO_MODEL, UNPRICED
from planloop.schemas.case import Cut
from planloop.schemas.container import AWAITING_CONTAINERS
from planloop.schemas.frozen import frozen
from planloop.schemas.task import ENDED

SPENT: Final = frozenset({"BudgetSpent"})
"""Why a task stands still that has used up what it was given."""
ALONE: Final = frozenset({"AwaitingApproval", "AwaitingInput"})
"""Why one stands still that asks for a person: nobody is there."""
ITS_OWN: Final = frozenset({"AwaitingLock", "AwaitingChild", "ChildrenRunning", "MergeConflict", "Paused"})
"""Why one stands still by what agents and people do: that can end at any time."""
REFUSED: Final = frozenset({NO_MODEL, UNPRICED, "NoSandbox"})
"""Why one stands still that was refused what it needs, after all that is done about it: no use in waiting."""
OF_THE_MODEL: Final = frozenset({"Empty", "ContextTooLong"})
"""Why a model gives no reply that answers with nothing, or that was told more than it can take: its own doing."""
PATIENCE_S: Final = 20.0
"""How long the world may withhold what else a task needs."""
LEAVING_S: Final = 120.0
"""How much longer an agent and its container may take to leave when its task is over and the engine answers."""


@frozen
class Rest:
    """Nothing to do; `after_s` is when it might be, None for never."""

    after_s: float | None = None


@frozen
class Grade:
    """What the task made is to be judged."""


@frozen
class Stop:
    """The grading that runs is of no more use."""


@frozen
class Close:
    """The task will not come to an end, and is to be cancelled; `why` in words."""

    cut: Cut
    why: str


@frozen
class GiveUp:
    """It cannot even be graded; `why` in words."""

    why: str


Step: TypeAlias = Rest | Grade | Stop | Close | GiveUp


def decide(seen: Observed) -> Step:
    """The next step of a case."""
    if seen.case.deleting or seen.task is None or seen.task.deleting:
        return Stop() if seen.is_graded_now else Rest()
    if seen.has_ended or seen.is_graded_now:
        return Rest()
    if seen.task.state in ENDED:
        return Grade() if seen.is_closed else _left_alone(seen)
    return Rest() if seen.case.status.get("cut") else _unfinished(seen)


def _left_alone(seen: Observed) -> Step:
    """Its task is over, and somebody may still be in its workspace: whom the engine is to end, if it answers."""
    assert seen.task is not None, "decide has looked"
    ended_at = seen.task.status.get("ended_at")
    if not isinstance(ended_at, int | float):
        return Rest()
    left_s = ended_at + PATIENCE_S - seen.now
    if left_s > 0:
        return Rest(left_s)
    if seen.trouble:
        return GiveUp(seen.trouble)
    left_s += LEAVING_S
    return Rest(left_s) if left_s > 0 else GiveUp("somebody is still at work in its workspace though it is over")


def _unfinished(seen: Observed) -> Step:
    assert seen.task is not None, "decide has looked"
    ready = seen.ready
    if seen.bug:
        return Close(Cut.WORLD, f"a bug of planloop: {seen.bug}")
    if seen.task.state == "blocked" and ready is not None and ready.reason not in ITS_OWN:
        # As an error, which no rate counts, it would be a way around being found wanting.
        is_own = ready.reason == NO_MODEL and bool(seen.failures) and seen.failures <= OF_THE_MODEL
        if is_own or ready.reason in SPENT | ALONE:
            return Close(Cut.LIMIT, ready.message)
        left_s = 0.0 if ready.reason in REFUSED else ready.since + PATIENCE_S - seen.now
        return Close(Cut.WORLD, f"{ready.reason}: {ready.message}") if left_s <= 0 else Rest(left_s)
    if seen.trouble and ready is not None and ready.reason == AWAITING_CONTAINERS:
        left_s = ready.since + PATIENCE_S - seen.now
        return Close(Cut.WORLD, seen.trouble) if left_s <= 0 else Rest(left_s)
    started_at = seen.task.status.get("started_at")
    if not isinstance(started_at, int | float):
        return Rest()
    left_s = started_at + seen.spec.within_s - seen.now
    if left_s < -PATIENCE_S:  # A look is due when the time is up: this process was stopped, or the machine asleep.
        return Close(Cut.WORLD, f"this machine stood still, {-left_s:.0f} s beyond the {seen.spec.within_s:g} s of it")
    return Close(Cut.LIMIT, f"it was not done within {seen.spec.within_s:g} s") if left_s <= 0 else Rest(left_s)
