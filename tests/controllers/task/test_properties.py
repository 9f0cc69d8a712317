"""Laws that hold for every plan and every order of events: the controller is a function of levels, not of edges."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from planloop.controllers.task.counters import TaskCounters
from planloop.controllers.task.step import CheckJob, RunJob
from tests import sets
from tests.controllers.task.harness import sh, spec
from tests.controllers.task.world import World
from tests.product import TaskSpec

NAMES = ("a", "b", "c", "a/x", "a/y", "b/x")


@dataclass(frozen=True)
class Plan:
    """Tasks by path, what each command exits with, and which checks hold."""

    tasks: dict[str, TaskSpec]
    codes: dict[str, int]
    holds: dict[str, bool]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    names = [name for name in NAMES if draw(st.booleans())]
    names = [name for name in names if "/" not in name or name.partition("/")[0] in names]
    parents = {name.partition("/")[0] for name in names if "/" in name}
    tasks: dict[str, TaskSpec] = {".": spec()}
    for place, name in enumerate(names):
        # Needs point back, and never into one's own family: that is what the compiler lets through.
        others = [n for n in names[:place] if n.partition("/")[0] != name.partition("/")[0]]
        needs = draw(st.lists(st.sampled_from(others), unique=True, max_size=2)) if others else []
        checks = (sh("check"),) if draw(st.booleans()) else ()
        tasks[name] = spec(
            spec().work if name in parents else "work",
            needs=tuple(f"task/{need}" for need in needs),
            acceptance=checks,
            retries=draw(st.integers(0, 2)),
        )
    codes = {name: draw(st.sampled_from((0, 0, 1))) for name in names}
    return Plan(tasks, codes, {name: draw(st.booleans()) for name in tasks})


def world_of(plan: Plan) -> World:
    world = World()
    world.edit(dict(plan.tasks))
    world.settle()
    return world


def events(world: World) -> list[tuple[str, str]]:
    """What may happen next: a queued command begins, a running one ends, a check finds something, time passes."""
    out = []
    for key, job in world.plane.jobs.items():
        name = world.plane.owners[key].removeprefix("task/")
        if isinstance(job, RunJob):
            out.append(("end" if key in world.plane.slots else "begin", name))
        elif isinstance(job, CheckJob):
            out.append(("check", name))
    if any(task.status.get("not_before", 0) > world.now for task in world.view.list("task")):
        out.append(("time", ""))
    return sorted(out)


def happen(world: World, plan: Plan, event: tuple[str, str]) -> None:
    match event:
        case ("begin", name):
            world.begin(name)
        case ("end", name):
            world.end(name, plan.codes[name])
        case ("check", name):
            world.finds(name, "pass" if plan.holds[name] else "fail")
        case _:
            world.now += 61
            world.settle()


def crash(world: World) -> None:
    """The owner dies and another takes over: jobs are gone, commands that ran still run and are adopted."""
    world.plane.jobs.clear()
    world.plane.slots.clear()
    world.tallies = TaskCounters()
    world.tallies.count(world.view)
    world.settle()
    for key, job in list(world.plane.jobs.items()):
        name = world.plane.owners[key].removeprefix("task/")
        if isinstance(job, RunJob) and world.observe(name).motion.call is not None:
            world.plane.slots.add(key)


def finish(world: World, plan: Plan) -> dict[str, tuple[str, int]]:
    """Lets things happen in order until nothing more can; the end state with the number of runs of each task."""
    for _ in range(500):
        left = events(world)
        if not left:
            return {t.address: (t.state, t.status.get("incarnation", 0)) for t in world.view.list("task")}
        happen(world, plan, left[0])
    raise AssertionError("the plan never ends")


@settings(max_examples=sets.examples(150, 37))
@given(plans(), st.lists(st.integers(0, 99), max_size=40))
def test_any_order_of_events_and_crashes_ends_in_one_state(plan: Plan, choices: list[int]) -> None:
    expected = finish(world_of(plan), plan)

    world = world_of(plan)
    for choice in choices:
        left = events(world)
        if not left:
            break
        if choice % 7 == 6:
            crash(world)
        else:
            happen(world, plan, left[choice % len(left)])
    assert finish(world, plan) == expected


@settings(max_examples=sets.examples(150, 37))
@given(plans(), st.lists(st.integers(0, 99), max_size=30), st.data())
def test_a_second_reconcile_writes_and_starts_nothing(plan: Plan, choices: list[int], data: st.DataObject) -> None:
    world = world_of(plan)
    for choice in choices:
        left = events(world)
        if left:
            happen(world, plan, left[choice % len(left)])
        if choice % 5 == 0:
            name = data.draw(st.sampled_from(sorted(plan.tasks)))
            field = data.draw(st.sampled_from(("pause", "cancel")))
            old = world.specs[f"task/{name}"]
            world.change(name, **{field: not getattr(old, field)})
            world.settle()
    before = world.view.rev, dict(world.plane.jobs)
    world.now += 0.001  # Time alone changes nothing.
    for task in list(world.view.list("task")):
        world.step(task.address.removeprefix("task/"))
    assert (world.view.rev, dict(world.plane.jobs)) == before


@settings(max_examples=sets.examples(150, 37))
@given(plans(), st.lists(st.integers(0, 99), max_size=30), st.data())
def test_counting_as_things_change_agrees_with_counting_again(
    plan: Plan, choices: list[int], data: st.DataObject
) -> None:
    world = world_of(plan)
    for choice in choices:
        left = events(world)
        if left:
            happen(world, plan, left[choice % len(left)])
        if choice % 6 == 0 and len(world.specs) > 1:
            gone = data.draw(st.sampled_from(sorted(set(world.specs) - {"task/."})))
            world.edit({gone.removeprefix("task/"): None})
        afresh = TaskCounters()
        afresh.count(world.view)
        for task in world.view.list("task"):
            assert world.tallies.children(task.address) == afresh.children(task.address)
            assert world.tallies.needs(task.address) == afresh.needs(task.address)
