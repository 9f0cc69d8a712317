"""What is to be done for a fork next: pure, from one observation to one step.

A job does the step, and notes what it is about to do: what is found noted and without a job was cut off by a crash, and
is done again. Nothing is done while somebody who works in the fork is in the middle of something.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from planloop.controllers.fork.observing import Observed, is_there
from planloop.schemas import limits
from planloop.schemas.encoding import JsonObject
from planloop.schemas.fork import ForkState
from planloop.schemas.frozen import frozen

What: TypeAlias = Literal["make", "bring", "leave", "clear", "look"]


@frozen
class Enter:
    """This is written, if nobody who works in the fork has moved since: from then on they begin nothing new."""

    merge: JsonObject


@frozen
class Do:
    """The job that does this is to run."""

    what: What


@frozen
class Answer:
    """There is nothing to bring: all of it is in the folder."""


@frozen
class Release:
    """Nothing of it is left but perhaps its branch: the object may go."""


@frozen
class Rest:
    """Nothing to do now; `after_s` is when a timer is due."""

    after_s: float | None = None


Step: TypeAlias = Enter | Do | Answer | Release | Rest

_LEFT: Final = frozenset({ForkState.NONE, ForkState.IN, ForkState.KEPT})


def decide(seen: Observed) -> Step:
    """The one next step."""
    status = seen.status
    if seen.is_live:
        return Rest()
    if status.retry_at > seen.now:
        return Rest(status.retry_at - seen.now)
    if seen.is_called_off and status.state is not ForkState.WRITING:
        return _called_off(seen)
    if status.state in (ForkState.MERGING, ForkState.WRITING):
        # What is half written is finished, whatever was decided since.
        return Rest() if seen.is_in_line else Do("bring")
    if status.state is ForkState.MAKING:
        return Do("make") if seen.is_placed else Rest()
    if seen.is_wanted and not is_there(status):
        return _make(seen)
    if status.state is ForkState.IN and status.folder and not status.ignored:
        return Do("clear")
    return _bring(seen)


def _called_off(seen: Observed) -> Step:
    status = seen.status
    if not status.folder and status.state is not ForkState.MAKING:
        return Release() if seen.resource.deleting else Rest()
    if seen.busy:
        return Rest()
    if status.state is ForkState.KEPT or status.state is ForkState.IN:
        return Do("clear") if seen.resource.deleting or not status.ignored else Rest()
    return Do("leave")


def _make(seen: Observed) -> Step:
    if seen.busy or not seen.is_placed:
        return Rest()
    merge: JsonObject = {"state": str(ForkState.MAKING)}
    if seen.status.state is not ForkState.KEPT:
        merge |= {"base": None, "branch": None, "head": None}
    return Enter(merge)


def _bring(seen: Observed) -> Step:
    status, asked = seen.status, seen.asked
    if asked.wish != "in":
        return Rest()
    if asked.bring > status.answered:
        if status.state in _LEFT:
            return Answer()
        return Rest() if seen.busy else Enter({"state": str(ForkState.MERGING)})
    if status.state is ForkState.CONFLICT and not seen.by_agent:
        return Do("look")  # A person mends it, and says so by there being nothing left to mend.
    return Rest()


def retry_s(tries: int) -> float:
    """Seconds before git is tried once more after `tries` failures in a row."""
    return min(limits.BACKOFF_CAP_S, 2.0 ** min(tries, 30))  # More is over any cap, and at last no float.
