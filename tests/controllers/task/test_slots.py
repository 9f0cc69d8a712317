"""How many tasks are at work at once: whose turn it is, what takes no slot, and that nobody waits for ever."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from planloop.controllers.task.counters import TaskSlots
from planloop.controllers.task.decide import explain_task
from tests.controllers.task.world import by_agent
from tests.controllers.task.yard import PLAN, Yard, family, put, spec, yard
from tests.golden_text import said
from tests.product import JsonObject, MemoryView, Put, Record, RecordDraft, SetStatus, TaskSpec, TaskState, Uid

PLAN_UID = Uid("uid-plan")


class Office:
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


def test_without_a_bound_nobody_waits() -> None:
    office = Office(None, root=spec(), a=work(), b=work())

    assert office.look("a", "b") == ["a", "b"]


def test_the_first_slots_go_by_priority_and_then_by_the_plan_whatever_is_looked_at_first() -> None:
    office = Office(2, root=spec(), z=work(), m=work(), a=work(priority=5))

    assert office.look("m", "a", "z", "m") == ["a", "z"]
    assert office.slots.slot("task/m") is not None and not office.may_go("m")


def test_a_slot_that_is_freed_calls_exactly_the_next_one() -> None:
    office = Office(1, root=spec(), c=work(), b=work(), a=work())
    office.look("a", "b", "c")
    office.look("c")

    assert office.ends("c") == ["b"]
    assert office.look("b", "a") == ["b"]
    assert office.ends("b") == ["a"]


def test_one_that_waits_for_something_else_holds_up_nobody() -> None:
    office = Office(1, root=spec(), a=work(), b=work())
    office.slots.settle("task/a", "NeedsNotDone", is_stuck=False)

    assert office.look("b", "a") == ["b"]


def test_groups_and_tasks_below_one_at_work_take_no_slot() -> None:
    agent = spec(by_agent("a"))
    office = Office(1, root=spec(), g=spec(), g_a=agent, g_a_x=work(), g_a_x_y=spec(by_agent("y")), g_b=work())

    assert office.look("g", "g/a", "g/a/x", "g/a/x/y", "g/b") == ["g", "g/a", "g/a/x", "g/a/x/y"]


def test_what_a_task_below_one_at_work_needs_from_elsewhere_takes_no_slot() -> None:
    office = Office(
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

    assert office.look("a", "h/d", "h/c", "g/b", "a/x") == ["a", "h/c", "g/b", "a/x"]


def test_a_child_that_an_agent_makes_works_in_its_slot_and_may_need_what_is_outside() -> None:
    tasks = {"root": spec(), "a": spec(by_agent("a")), "b": work(), "c": work()}
    office = Office(1, **tasks)
    assert office.look("a", "b", "c") == ["a"]

    office.edit(**tasks, a_x=work(needs=("task/c",)))

    assert office.look("a/x", "b", "c") == ["a/x", "c"]


@pytest.mark.parametrize(
    ("reason", "keeps"),
    [("AwaitingLocks", True), ("AwaitingContainers", True), ("ContainerFailed", False), ("Retrying", False)],
)
def test_who_waits_for_what_only_the_next_may_ask_for_keeps_its_slot(reason: str, keeps: bool) -> None:
    office = Office(1, root=spec(), a=work(), b=work())
    office.says("a", state="waiting", conditions={"Ready": {"reason": reason}})
    office.slots.settle("task/a", reason, is_stuck=reason == "ContainerFailed")

    assert office.may_go("b") is not keeps
    afresh = TaskSlots()
    afresh.count(office.view)
    afresh.settle("task/a", reason, is_stuck=False)
    held = afresh.slot("task/b")
    assert held is not None and held.is_mine is not keeps


def test_a_command_that_was_let_in_counts_before_it_begins() -> None:
    office = Office(1, root=spec(), a=work(), b=work())
    assert office.may_go("a")
    office.slots.settle("task/a", "Queued", is_stuck=False)

    assert office.may_go("a") and not office.may_go("b")


def test_a_raised_bound_has_everybody_look_once_and_a_lowered_one_stops_nobody() -> None:
    office = Office(2, root=spec(), a=work(), b=work(), c=work())
    office.look("a", "b", "c")
    office.bound(1)

    assert office.may_go("a") and office.may_go("b") and not office.may_go("c")
    said(office.slots.slot("task/c").words)  # type: ignore[union-attr]
    office.called.clear()
    office.bound(3)
    assert set(office.called) == {"c"} and office.may_go("c")


def test_a_bound_that_is_taken_away_has_everybody_look_who_waited() -> None:
    office = Office(1, root=spec(), a=work(), b=work(), c=work())
    office.look("a", "b")
    office.called.clear()
    office.bound(None)

    assert office.called == ["b", "c"]
    assert office.look("b", "c") == ["b", "c"]


def test_a_task_that_is_gone_leaves_its_slot() -> None:
    tasks = {"root": spec(), "a": work(), "b": work()}
    office = Office(1, **tasks)
    office.look("a", "b")
    office.edit(root=spec(), b=work())
    office.says("a", stage="", state="cancelled")

    assert office.may_go("b")


def test_law_3_what_is_known_of_slots_is_found_again_from_the_objects_alone() -> None:
    office = Office(2, root=spec(), a=work(), b=work(), c=work(), d=work())
    office.look("a", "b", "c", "d")
    office.ends("a")
    office.look("d", "c")
    afresh = TaskSlots()
    afresh.count(office.view)
    afresh.settle("task/a", "Done", is_stuck=False)

    for name in "abcd":
        assert afresh.slot(f"task/{name}") == office.slots.slot(f"task/{name}")


def test_each_end_calls_one_of_a_thousand_that_wait() -> None:
    names = [f"t{n}" for n in range(1_000)]
    office = Office(2, root=spec(), **{name: work() for name in names})
    office.look(*names)

    for name, next_one in zip(names, names[2:], strict=False):
        assert office.ends(name) == [next_one]
        assert office.look(next_one) == [next_one]


# On a running engine.


def _bounded(here: Yard, bound: int) -> None:
    here.store.propose(RecordDraft("plan.patched", "human:file", PLAN, (Put(PLAN, PLAN_UID, _limits(bound)),)))


@pytest.mark.anyio
async def test_tasks_run_one_at_a_time_in_the_order_of_the_plan(tmp_path: Path) -> None:
    names = ["c", "a", "d", "b"]
    async with yard(tmp_path) as here:
        _bounded(here, 1)
        line = "mkdir busy && echo {} >> out && rmdir busy"
        here.apply(root=spec(), **{name: spec(line.format(name)) for name in names})
        await here.until_state("task/.", "done", "failed")

        assert here.states() == dict.fromkeys(["task/.", *(f"task/{name}" for name in names)], "done")
        assert here.lines("out") == names


@pytest.mark.anyio
async def test_who_waits_for_a_slot_says_so_and_is_woken_when_one_is_free(tmp_path: Path) -> None:
    async with yard(tmp_path) as here:
        _bounded(here, 1)
        os.mkfifo(tmp_path / "gate")
        here.apply(root=spec(), a=spec("read line < gate"), b=spec("true"))
        await here.until_state("task/a", "running")

        says = explain_task(here.task("task/b"), here.store.view, 0.0, lambda *_: "")
        assert (says.state, says.message) == (TaskState.WAITING, "1 running task, and `limits.tasks` is 1")
        assert not here.task("task/b").status  # A plan of 1,000 tasks would begin with 1,000 writes.
        await anyio.Path(tmp_path / "gate").write_text("go\n")  # Waits until the command reads.
        await here.until_state("task/.", "done")
