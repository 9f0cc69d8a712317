"""What is to become of a case: pure, from what was observed to one step."""

from __future__ import annotations

from typing import Literal, TypeAlias

from benchmarks.controller.observing import Observed

Step: TypeAlias = Literal["rest", "grade", "stop"]


def decide(seen: Observed) -> Step:
    """`grade`: its job is to be started; `stop`: the one that runs is of no more use."""
    if seen.case.deleting or seen.task is None or seen.task.deleting:
        return "stop" if seen.is_graded_now else "rest"
    if seen.has_ended or seen.is_graded_now or not seen.is_closed:
        return "rest"
    return "grade"
