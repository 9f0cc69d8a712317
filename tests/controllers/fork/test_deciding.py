"""What is to be done for a fork next, from what is observed: pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planloop.controllers.fork.deciding import Answer, Do, Enter, Release, Rest, Step, decide, retry_s
from planloop.controllers.fork.observing import Observed
from planloop.schemas import limits
from planloop.schemas.fork import Asked, ForkSpec, ForkState, fork_status
from tests.product import Resource, Uid

TREE = {"folder": ".plan/p/forks/t-1", "branch": "plan/p/t", "base": "b"}


def seen(state: str = "", *, is_deleting: bool = False, status: dict[str, Any] | None = None, **more: Any) -> Observed:
    """A fork in `state` of which nobody wants anything, but for what `more` says."""
    raw = {"state": state, **(status or {})}
    plain = Observed(
        resource=Resource("fork/t", Uid("1"), 1, {}, raw, finalizers=("fork",), deleting=is_deleting),
        spec=ForkSpec("task/t"),
        status=fork_status(raw),
        asked=Asked(),
        is_wanted=False,
        is_called_off=is_deleting,
        busy="",
        revs={},
        is_placed=True,
        is_live=False,
        by_agent=True,
        is_in_line=False,
        now=100.0,
    )
    return replace(plain, **more)


IN = Asked("in", bring=2)


@pytest.mark.parametrize(
    ("found", "step"),
    [
        (seen(), Rest()),
        (seen(is_wanted=True, busy="agent/t"), Rest()),
        (seen(is_wanted=True, is_placed=False), Rest()),
        (seen("making"), Do("make")),
        (seen("making", is_live=True), Rest()),
        (seen("ready", status=TREE), Rest()),
        (seen("ready", status=TREE, is_wanted=True), Rest()),
        (seen("ready", status=TREE, asked=IN), Enter({"state": "merging"})),
        (seen("ready", status=TREE, asked=IN, busy="agent/t"), Rest()),
        (seen("ready", status=TREE | {"answered": 2}, asked=IN), Rest()),
        (seen("merging", status=TREE), Do("bring")),
        (seen("merging", status=TREE, is_in_line=True), Rest()),
        (seen("writing", status=TREE), Do("bring")),
        (seen("conflict", status=TREE | {"answered": 2}, asked=IN), Rest()),
        (seen("conflict", status=TREE | {"answered": 2}, asked=IN, by_agent=False), Do("look")),
        (seen("in", asked=IN), Answer()),
        (seen("in", status=TREE), Do("clear")),
        (seen("in", status=TREE | {"ignored": ["built/"]}), Rest()),
        (seen("ready", status=TREE | {"retry_at": 103.0, "tries": 1}, asked=IN), Rest(3.0)),
    ],
)
def test_a_fork_is_driven_by_what_is_wanted_of_it(found: Observed, step: Step) -> None:
    assert decide(found) == step


@pytest.mark.parametrize(
    ("found", "step"),
    [
        (seen(is_deleting=True), Release()),
        (seen("in", is_deleting=True), Release()),
        (seen("kept", is_deleting=True), Release()),
        (seen("ready", status=TREE, is_deleting=True), Do("leave")),
        (seen("ready", status=TREE, is_deleting=True, busy="agent/t"), Rest()),
        (seen("kept", status=TREE, is_deleting=True), Do("clear")),
        (seen("writing", status=TREE, is_deleting=True), Do("bring")),
        (seen("conflict", status=TREE, is_called_off=True), Do("leave")),
        (seen("kept", status=TREE, is_called_off=True), Do("clear")),
        (seen("kept", is_called_off=True), Rest()),
    ],
)
def test_what_is_called_off_is_kept_then_cleared_then_let_go(found: Observed, step: Step) -> None:
    assert decide(found) == step


def test_a_fork_that_was_kept_is_made_again_from_its_branch_and_one_that_is_in_anew() -> None:
    kept, brought = seen("kept", is_wanted=True), seen("in", is_wanted=True)

    assert decide(kept) == Enter({"state": "making"})
    assert decide(brought) == Enter({"state": "making", "base": None, "branch": None, "head": None})


@pytest.mark.parametrize("state", ForkState)
def test_there_is_a_tree_to_work_in_only_while_it_is_in_use(state: ForkState) -> None:
    tree = fork_status({"state": str(state), **TREE, "prefix": "part/"}).tree

    assert tree == (".plan/p/forks/t-1/part" if state in ("ready", "merging", "conflict", "writing") else "")


def test_git_is_tried_again_later_and_later_and_for_ever() -> None:
    waits = [retry_s(tries) for tries in (1, 2, 3, 5_000)]
    assert waits == sorted(waits) and waits[0] < waits[1]
    assert waits[-1] == limits.BACKOFF_CAP_S
