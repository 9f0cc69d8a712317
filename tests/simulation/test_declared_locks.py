"""Tasks that name locks, in virtual time: an owner killed at any write, edits in the middle, and commands that exclude.

Whatever happens, no two tasks run at once that exclude each other, none waits for ever, and all locks are free at last.
"""

from __future__ import annotations

import random  # noqa: TID251 - seeded
from collections.abc import Sequence
from itertools import combinations
from textwrap import dedent

import pytest

from planloop.controllers.shared.leases.grants import is_above
from planloop.controllers.shared.leases.lock_paths import paths_overlap
from planloop.schemas.objects.lock import declared_locks, lock_status_from_json
from tests.product import MemoryView, Record, Resource
from tests.simulation.harness import Crash, Edit, Story, drawn, simulate

PLAN = """
    tasks:
      one: {locks: ["src/**", docs], run: "sleep 2; echo one >> effects"}
      two: {locks: [docs/a.md, src/app.py], run: "sleep 1; echo two >> effects"}
      readers:
        locks: [{path: shared, mode: read}]
        tasks:
          left: {locks: [{path: shared/x, mode: read}], run: "sleep 1; echo left >> effects"}
          right: {locks: [shared/y], run: "sleep 1; echo right >> effects"}
      other: {locks: [{path: shared/x, mode: read}], run: "sleep 3; echo other >> effects"}
      writer: {locks: [shared], run: "sleep 1; echo writer >> effects"}
      agent:
        locks: [docs]
        agent: {script: [{call: {write: {path: docs/agent.md, content: x}}}, {sleep: 1}, {done: x}]}
      late: {needs: [one], locks: ["**"], run: "echo late >> effects"}
"""
EFFECTS = ["late", "left", "one", "other", "right", "two", "writer"]


def played(text: str = PLAN, *, seed: int = 0, crashes: Sequence[Crash] = (), edits: Sequence[Edit] = ()) -> Story:
    saves = [Edit(one.at_s, dedent(one.text)) for one in edits]
    return simulate(dedent(text), seed=seed, crashes=crashes, edits=saves)


def check(story: Story, why: object) -> None:
    assert set(story.states("task").values()) == {"done"}, (why, story.states("task"))
    assert story.lines("effects") == EFFECTS, why
    assert story.lines("docs/agent.md") == ["x"], why
    for lock in (one for one in story.objects.values() if one.kind == "lock"):
        status = lock_status_from_json(lock.status)
        assert (status.holders, status.waiters, status.lost) == ({}, {}, {}), (why, lock)
    check_exclusion(story.log)


def check_exclusion(log: Sequence[Record]) -> None:
    """At no revision do two tasks work of which one has a lock that excludes the other's; fences only rise."""
    view, newest = MemoryView(), 0
    for record in log:
        changed = view.fold(record)
        if not any(address.startswith(("task/", "lock/")) for address in changed):
            continue
        at_work = [one for one in view.list("task") if one.state == "running" and one.spec["work"]["kind"] != "group"]
        for one, other in combinations(at_work, 2):
            assert not _exclude(one, other), f"rev {record.rev}: {one.address} and {other.address} run together"
        for lock in (one for one in view.list("lock") if one.address in changed):
            for owner, holder in lock_status_from_json(lock.status).holders.items():
                assert holder.fence <= record.rev, (owner, record.rev)
                newest = max(newest, holder.fence)
    assert newest


def _exclude(one: Resource, other: Resource) -> bool:
    if is_above(one.address, other.address) or is_above(other.address, one.address):
        return False
    return any(
        "write" in (mine, theirs) and paths_overlap(path, its)
        for path, mine in declared_locks(one.spec).items()
        for its, theirs in declared_locks(other.spec).items()
    )


@pytest.mark.parametrize("seed", range(4))
def test_tasks_that_exclude_each_other_never_run_together_and_all_run(seed: int) -> None:
    check(played(seed=seed), seed)


def test_readers_run_together() -> None:
    text = """
        tasks:
          a: {locks: [{path: x, mode: read}], run: "sleep 5; echo a >> effects"}
          b: {locks: [{path: x, mode: read}], run: "sleep 5; echo b >> effects"}
    """
    story = played(text)
    assert story.log[-1].at - story.log[0].at < 6


@pytest.mark.sweep
@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
def test_an_owner_killed_at_any_write_leaves_no_lock_behind(point: str) -> None:
    commits = played().commits
    for commit in range(1, commits + 1):
        crash = Crash(commit, "before-commit" if point == "before-commit" else "after-commit")
        check(played(crashes=[crash]), crash)


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(4))
def test_many_crashes_and_an_edit_of_the_locks_in_the_middle(part: int) -> None:
    for seed in range(part * 8, part * 8 + 8):
        chance = random.Random(seed)
        crashes = drawn(chance, 4, 59)
        edit = Edit(chance.choice((0.5, 1.5, 2.5)), PLAN.replace("locks: [shared]", "locks: [shared, docs/a.md]"))
        check(played(seed=seed, crashes=crashes, edits=[edit]), seed)


def test_removing_a_task_that_holds_a_lock_lets_others_continue() -> None:
    first = """
        tasks:
          a: {locks: [x], run: "sleep 1000"}
          b: {locks: [x, y], run: "echo b >> effects"}
    """
    story = played(first, edits=[Edit(3.0, first.replace('          a: {locks: [x], run: "sleep 1000"}\n', ""))])
    assert story.lines("effects") == ["b"]
    assert {one.address for one in story.objects.values() if one.kind == "lock"} == {"lock/x", "lock/y"}


def test_lock_the_plan_no_longer_names_is_removed_once_it_is_free() -> None:
    first = """
        tasks:
          a: {locks: [x], run: "sleep 5; echo a >> effects"}
          b: {locks: [x], run: "echo b >> effects"}
    """
    waiter = first.replace("b: {locks: [x], ", "b: {")
    neither = waiter.replace("a: {locks: [x], ", "a: {")
    for edits, left in (([Edit(2.0, waiter)], ["lock/x"]), ([Edit(2.0, waiter), Edit(3.0, neither)], [])):
        story = played(first, edits=edits)
        assert story.lines("effects") == ["a", "b"]
        assert [one for one in story.objects if one.startswith("lock/")] == left


def test_two_groups_whose_children_wait_for_the_other_group_say_so_and_one_gives_way() -> None:
    text = """
        tasks:
          p:
            locks: [x]
            tasks:
              first: {run: "sleep 1"}
              second: {needs: [first], locks: [y], run: "echo p >> effects"}
          q:
            locks: [y]
            tasks:
              first: {run: "sleep 1"}
              second: {needs: [first], locks: [x], run: "echo q >> effects"}
    """
    story = played(text)
    assert story.lines("effects") == ["p", "q"]
    assert set(story.states("task").values()) == {"done"}
    told = [str(one.data.get("message", "")) for record in story.log for one in record.draft.entries]
    ring = "deadlock: task/p/second waits for task/q/second, which waits for task/p/second; lock y is held by task/q"
    assert any(one.startswith(ring) for one in told), told
    assert story.log[-1].at - story.log[0].at < 2


def test_renamed_task_keeps_its_lock() -> None:
    first = """
        tasks:
          a: {locks: [x], run: "sleep 9; echo a >> effects"}
          b: {locks: [x/y], run: "echo b >> effects"}
    """
    second = "\n        moved: {a: new}" + first.replace("          a:", "          new:")
    story = played(first, edits=[Edit(3.0, second)])
    assert story.lines("effects") == ["a", "b"]
    check_exclusion(story.log)
    grants = [one.data["owner"] for record in story.log for one in record.draft.entries if one.type == "lock.granted"]
    assert grants == ["task/a", "task/b"]
    began = [
        record.at for record in story.log if record.draft.subject == "task/b" and record.draft.type == "call.started"
    ]
    assert began[0] - story.log[0].at >= 9
