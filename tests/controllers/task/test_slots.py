"""Bounded parallel tasks: their order, tasks without a slot, and that no task waits forever."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from planloop.controllers.task.counters import TaskSlots
from planloop.controllers.task.decide import explain_task
from tests.controllers.task.harness import PLAN, Harness, family, harness, put, spec
from tests.controllers.task.world import by_agent
from tests.golden_text import said
from tests.product import JsonObject, MemoryView, Put, Record, RecordDraft, SetStatus, TaskSpec, TaskState, Uid

PLAN_UID = Uid("uid-plan")


class SlotTable:
    """Tasks in a view, with their slots; a test says what each came to when it was looked at."""

    def __init__(self, bound: int | None, **tasks: TaskSpec) -> None:
        self.view = MemoryView()
        self.called: list[str] = []
        self.slots = TaskSlots(lambda address: self.called.append(address.removeprefix("task/")))
        self._fold(Put(PLAN, PLAN_UID, _limits(bound)), *self._tasks(tasks))
        self.slots.count(self.view)

    def edit(self, **tasks: TaskSpec) -> None:
        self._fold(*self._tasks(tasks))

    def bound(self, bound: int | None) -> None:
        self._fold(Put(PLAN, PLAN_UID, _limits(bound)))

    def may_go(self, name: str) -> bool:
        slot = self.slots.slot(f"task/{name}")
        return slot is None or slot.is_mine

    def look(self, *names: str) -> list[str]:
        """Each that may goes to work; returns those that went."""
        return [name for name in names if self._look(name)]

    def ends(self, name: str) -> list[str]:
        """The task is done; returns who is called."""
        self.called.clear()
        self.says(name, stage="done", state="done")
        return self.called

    def says(self, name: str, **status: Any) -> None:
        self._fold(SetStatus(f"task/{name}", Uid(f"uid-task/{name}"), status))

    def _look(self, name: str) -> bool:
        if not self.may_go(name):
            self.slots.settle(f"task/{name}", "AwaitingSlot", is_stuck=False)
            return False
        self.says(name, stage="work", state="running")
        self.slots.settle(f"task/{name}", "Running", is_stuck=False)
        return True

    def _tasks(self, tasks: dict[str, TaskSpec]) -> list[Put]:
        named = {f"task/{name.replace('_', '/').replace('root', '.')}": one for name, one in tasks.items()}
        return [put(address, one) for address, one in family(named).items()]

    def _fold(self, *changes: Put | SetStatus) -> None:
        draft = RecordDraft("task.changed", "controller:task", "task/.", tuple(changes))
        changed = self.view.fold(Record(self.view.rev + 1, 0.0, 1, draft))
        self.slots.update(self.view, changed)


def _limits(bound: int | None) -> JsonObject:
    return {} if bound is None else {"limits": {"tasks": bound}}


def work(**fields: Any) -> TaskSpec:
    return spec("true", **fields)


def test_without_a_bound_no_task_waits() -> None:
    table = SlotTable(None, root=spec(), a=work(), b=work())

    assert table.look("a", "b") == ["a", "b"]


def test_first_slots_go_by_priority_then_plan_order_whatever_is_examined_first() -> None:
    table = SlotTable(2, root=spec(), z=work(), m=work(), a=work(priority=5))

    assert table.look("m", "a", "z", "m") == ["a", "z"]
    assert table.slots.slot("task/m") is not None and not table.may_go("m")


def test_a_slot_that_is_freed_calls_exactly_the_next_one() -> None:
    table = SlotTable(1, root=spec(), c=work(), b=work(), a=work())
    table.look("a", "b", "c")
    table.look("c")

    assert table.ends("c") == ["b"]
    assert table.look("b", "a") == ["b"]
    assert table.ends("b") == ["a"]


def test_task_that_waits_for_something_else_delays_no_other() -> None:
    table = SlotTable(1, root=spec(), a=work(), b=work())
    table.slots.settle("task/a", "NeedsNotDone", is_stuck=False)

    assert table.look("b", "a") == ["b"]


def test_groups_and_tasks_below_one_at_work_take_no_slot() -> None:
    agent = spec(by_agent("a"))
    table = SlotTable(1, root=spec(), g=spec(), g_a=agent, g_a_x=work(), g_a_x_y=spec(by_agent("y")), g_b=work())

    assert table.look("g", "g/a", "g/a/x", "g/a/x/y", "g/b") == ["g", "g/a", "g/a/x", "g/a/x/y"]


def test_external_need_of_a_task_below_a_running_one_takes_no_slot() -> None:
    table = SlotTable(
        1,
        root=spec(),
        a=spec(by_agent("a")),
        a_x=work(needs=("task/g",)),
        g=spec(),
        g_b=work(needs=("task/h/c",)),
        h=spec(),
        h_c=work(),
        h_d=work(),
    )

    assert table.look("a", "h/d", "h/c", "g/b", "a/x") == ["a", "h/c", "g/b", "a/x"]


def test_a_child_that_an_agent_makes_works_in_its_slot_and_may_need_what_is_outside() -> None:
    tasks = {"root": spec(), "a": spec(by_agent("a")), "b": work(), "c": work()}
    table = SlotTable(1, **tasks)
    assert table.look("a", "b", "c") == ["a"]

    table.edit(**tasks, a_x=work(needs=("task/c",)))

    assert table.look("a/x", "b", "c") == ["a/x", "c"]


@pytest.mark.parametrize(
    ("reason", "keeps"),
    [("AwaitingLocks", True), ("AwaitingContainers", True), ("ContainerFailed", False), ("Retrying", False)],
)
def test_task_keeps_its_slot_while_its_wait_depends_on_it(reason: str, keeps: bool) -> None:
    table = SlotTable(1, root=spec(), a=work(), b=work())
    table.says("a", state="waiting", conditions={"Ready": {"reason": reason}})
    table.slots.settle("task/a", reason, is_stuck=reason == "ContainerFailed")

    assert table.may_go("b") is not keeps
    afresh = TaskSlots()
    afresh.count(table.view)
    afresh.settle("task/a", reason, is_stuck=False)
    held = afresh.slot("task/b")
    assert held is not None and held.is_mine is not keeps


def test_a_command_that_was_let_in_counts_before_it_begins() -> None:
    table = SlotTable(1, root=spec(), a=work(), b=work())
    assert table.may_go("a")
    table.slots.settle("task/a", "Queued", is_stuck=False)

    assert table.may_go("a") and not table.may_go("b")


def test_raised_bound_wakes_every_waiter_once_and_a_lowered_one_stops_no_task() -> None:
    table = SlotTable(2, root=spec(), a=work(), b=work(), c=work())
    table.look("a", "b", "c")
    table.bound(1)

    assert table.may_go("a") and table.may_go("b") and not table.may_go("c")
    said(table.slots.slot("task/c").words)  # type: ignore[union-attr]
    table.called.clear()
    table.bound(3)
    assert set(table.called) == {"c"} and table.may_go("c")


def test_removed_bound_wakes_every_waiter() -> None:
    table = SlotTable(1, root=spec(), a=work(), b=work(), c=work())
    table.look("a", "b")
    table.called.clear()
    table.bound(None)

    assert table.called == ["b", "c"]
    assert table.look("b", "c") == ["b", "c"]


def test_removed_task_frees_its_slot() -> None:
    tasks = {"root": spec(), "a": work(), "b": work()}
    table = SlotTable(1, **tasks)
    table.look("a", "b")
    table.edit(root=spec(), b=work())
    table.says("a", stage="", state="cancelled")

    assert table.may_go("b")


def test_law_3_what_is_known_of_slots_is_found_again_from_the_objects_alone() -> None:
    table = SlotTable(2, root=spec(), a=work(), b=work(), c=work(), d=work())
    table.look("a", "b", "c", "d")
    table.ends("a")
    table.look("d", "c")
    afresh = TaskSlots()
    afresh.count(table.view)
    afresh.settle("task/a", "Done", is_stuck=False)

    for name in "abcd":
        assert afresh.slot(f"task/{name}") == table.slots.slot(f"task/{name}")


def test_each_end_calls_one_of_a_thousand_that_wait() -> None:
    names = [f"t{n}" for n in range(1_000)]
    table = SlotTable(2, root=spec(), **{name: work() for name in names})
    table.look(*names)

    for name, next_one in zip(names, names[2:], strict=False):
        assert table.ends(name) == [next_one]
        assert table.look(next_one) == [next_one]


# On a running engine.


def _bounded(here: Harness, bound: int) -> None:
    here.store.propose(RecordDraft("plan.patched", "human:file", PLAN, (Put(PLAN, PLAN_UID, _limits(bound)),)))


@pytest.mark.anyio
async def test_tasks_run_one_at_a_time_in_the_order_of_the_plan(tmp_path: Path) -> None:
    names = ["c", "a", "d", "b"]
    async with harness(tmp_path) as here:
        _bounded(here, 1)
        line = "mkdir busy && echo {} >> out && rmdir busy"
        here.apply(root=spec(), **{name: spec(line.format(name)) for name in names})
        await here.until_state("task/.", "done", "failed")

        assert here.states() == dict.fromkeys(["task/.", *(f"task/{name}" for name in names)], "done")
        assert here.lines("out") == names


@pytest.mark.anyio
async def test_waiter_for_a_slot_states_it_and_is_woken_when_one_is_free(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        _bounded(here, 1)
        os.mkfifo(tmp_path / "gate")
        here.apply(root=spec(), a=spec("read line < gate"), b=spec("true"))
        await here.until_state("task/a", "running")

        says = explain_task(here.task("task/b"), here.store.view, 0.0, lambda *_: "")
        assert (says.state, says.message) == (TaskState.WAITING, "1 running task, and `limits.tasks` is 1")
        assert not here.task("task/b").status  # A plan of 1,000 tasks would begin with 1,000 writes.
        await anyio.Path(tmp_path / "gate").write_text("go\n")  # Waits until the command reads.
        await here.until_state("task/.", "done")
