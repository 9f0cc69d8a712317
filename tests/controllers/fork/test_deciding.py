"""What is to be done for a fork next, from what is observed: pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planloop.controllers.fork.decide import (
    EnterForkState,
    ForkRest,
    ForkStep,
    ObservedFork,
    ReleaseFork,
    ReportNothingToMerge,
    StartForkJob,
    decide_fork,
    git_retry_s,
)
from planloop.schemas import limits
from planloop.schemas.objects.fork import ForkRequest, ForkSpec, ForkState, fork_status_from_json
from tests.product import Resource, Uid

TREE = {"folder": ".plan/p/forks/t-1", "branch": "plan/p/t", "base": "b"}


def seen(
    state: str = "", *, is_deleting: bool = False, status: dict[str, Any] | None = None, **more: Any
) -> ObservedFork:
    """A fork in `state` without a request, except those in `more`."""
    raw = {"state": state, **(status or {})}
    plain = ObservedFork(
        resource=Resource("fork/t", Uid("1"), 1, {}, raw, finalizers=("fork",), deleting=is_deleting),
        spec=ForkSpec("task/t"),
        status=fork_status_from_json(raw),
        asked=ForkRequest(),
        is_wanted=False,
        is_called_off=is_deleting,
        busy="",
        revs={},
        is_placed=True,
        is_live=False,
        by_agent=True,
        now=100.0,
    )
    return replace(plain, **more)


IN = ForkRequest("in", bring=2)


@pytest.mark.parametrize(
    ("found", "step"),
    [
        (seen(), ForkRest()),
        (seen(is_wanted=True, busy="agent/t"), ForkRest()),
        (seen(is_wanted=True, is_placed=False), ForkRest()),
        (seen("making"), StartForkJob("make")),
        (seen("making", is_live=True), ForkRest()),
        (seen("ready", status=TREE), ForkRest()),
        (seen("ready", status=TREE, is_wanted=True), ForkRest()),
        (seen("ready", status=TREE, asked=IN), EnterForkState({"state": "merging"})),
        (seen("ready", status=TREE, asked=IN, busy="agent/t"), ForkRest()),
        (seen("ready", status=TREE | {"answered": 2}, asked=IN), ForkRest()),
        (seen("merging", status=TREE), StartForkJob("bring")),
        (seen("merging", status=TREE | {"wants": {"a": "write"}}), ForkRest()),
        (seen("writing", status=TREE), StartForkJob("bring")),
        (seen("conflict", status=TREE | {"answered": 2}, asked=IN), ForkRest()),
        (seen("conflict", status=TREE | {"answered": 2}, asked=IN, by_agent=False), StartForkJob("look")),
        (seen("in", asked=IN), ReportNothingToMerge()),
        (seen("in", status=TREE), StartForkJob("clear")),
        (seen("in", status=TREE | {"ignored": ["built/"]}), ForkRest()),
        (seen("ready", status=TREE | {"retry_at": 103.0, "tries": 1}, asked=IN), ForkRest(3.0)),
    ],
)
def test_a_fork_is_driven_by_what_is_wanted_of_it(found: ObservedFork, step: ForkStep) -> None:
    assert decide_fork(found) == step


@pytest.mark.parametrize(
    ("found", "step"),
    [
        (seen(is_deleting=True), ReleaseFork()),
        (seen("in", is_deleting=True), ReleaseFork()),
        (seen("kept", is_deleting=True), ReleaseFork()),
        (seen("ready", status=TREE, is_deleting=True), StartForkJob("leave")),
        (seen("ready", status=TREE, is_deleting=True, busy="agent/t"), ForkRest()),
        (seen("kept", status=TREE, is_deleting=True), StartForkJob("clear")),
        (seen("writing", status=TREE, is_deleting=True), StartForkJob("bring")),
        (seen("conflict", status=TREE, is_called_off=True), StartForkJob("leave")),
        (seen("kept", status=TREE, is_called_off=True), StartForkJob("clear")),
        (seen("kept", is_called_off=True), ForkRest()),
    ],
)
def test_cancelled_fork_is_kept_then_cleared_then_released(found: ObservedFork, step: ForkStep) -> None:
    assert decide_fork(found) == step


def test_kept_fork_is_recreated_from_its_branch_and_a_merged_one_from_scratch() -> None:
    kept, brought = seen("kept", is_wanted=True), seen("in", is_wanted=True)

    assert decide_fork(kept) == EnterForkState({"state": "making"})
    assert decide_fork(brought) == EnterForkState({"state": "making", "base": None, "branch": None, "head": None})


@pytest.mark.parametrize("state", ForkState)
def test_working_tree_exists_only_while_it_is_in_use(state: ForkState) -> None:
    tree = fork_status_from_json({"state": str(state), **TREE, "prefix": "part/"}).tree

    assert tree == (".plan/p/forks/t-1/part" if state in ("ready", "merging", "conflict", "writing") else "")


def test_git_is_retried_forever_with_growing_delays() -> None:
    waits = [git_retry_s(tries) for tries in (1, 2, 3, 5_000)]
    assert waits == sorted(waits) and waits[0] < waits[1]
    assert waits[-1] == limits.BACKOFF_CAP_S
