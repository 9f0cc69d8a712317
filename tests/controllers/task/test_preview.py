"""The preview of an edit equals what the controller does: restart or not, for every class and state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planloop.reconciler.diff.differences import diff_objects
from planloop.schemas.objects.budget import Budget
from planloop.schemas.spec.tables import change_class
from tests import rows
from tests.controllers.task.harness import sh, spec
from tests.controllers.task.world import World, by_agent
from tests.product import RunWork, TaskSpec, WantedObject

EDITS: dict[str, dict[str, Any]] = {
    "command": {"work": RunWork(shell="another")},
    "cwd": {"cwd": "below"},
    "env": {"env": {"CI": "1"}},
    "goal": {"goal": "another"},
    "notes": {"notes": "mind the gap"},
    "checks": {"acceptance": (sh("true"),)},
    "budget": {"budget": Budget(time_s=60)},
    "priority": {"priority": 9},
    "time limit": {"work": RunWork(shell="work", timeout_s=60)},
    "effect class": {"work": RunWork(shell="work", effect="idempotent")},
    "heal": {"heal": True},
}
OF_COMMANDS = ("command", "time limit", "effect class")


def command_in(state: str) -> World:
    world = World(root=spec(), a=spec("work"))
    world.settle()
    world.begin("a")
    if state != "running":
        world.end("a", 0 if state == "done" else 1)
    return world


def agent_in(state: str) -> World:
    world = World(root=spec(), a=spec(by_agent("a")))
    world.agent("a", state="idle")
    world.settle()
    world.agent("a", state="running")
    if state != "running":
        kind = "done" if state == "done" else "fail"
        world.agent("a", state="claimed", claim={"seq": 1, "kind": kind, "result": ["x"], "incarnation": 1})
        world.settle()
        world.agent("a", state="ended")
    world.settle()
    return world


def predicted(world: World, after: TaskSpec) -> str:
    old = world["task/a"]
    wanted = WantedObject(old.address, replace(after, parent="task/.").to_json(), old.refs, old.owner, old.finalizers)
    found = diff_objects({old.address: old}, {old.address: wanted}, {}, change_class)
    return found[0].action if found else "none"


def restarts(world: World) -> bool:
    """Whether the old run is ended, or a new one begun or queued."""
    world.settle()
    status = world["task/a"].status
    return world.state("a") == "stopping" or status.get("incarnation") != 1 or "a" in world.queued()


@rows.each("state", ["running", "done", "failed"])
@rows.each("edit", EDITS)
def test_edit_of_a_command_does_what_the_preview_showed(edit: str, state: str) -> None:
    world = command_in(state)
    expected = predicted(world, replace(world.specs["task/a"], **EDITS[edit]))
    world.change("a", **EDITS[edit])

    assert restarts(world) == (expected == "restart"), expected


@rows.each("state", ["running", "done", "failed"])
@rows.each("edit", [name for name in EDITS if name not in OF_COMMANDS])
def test_edit_of_an_agents_task_does_what_the_preview_showed(edit: str, state: str) -> None:
    world = agent_in(state)
    expected = predicted(world, replace(world.specs["task/a"], **EDITS[edit]))
    world.change("a", **EDITS[edit])

    assert restarts(world) == (expected == "restart"), expected
