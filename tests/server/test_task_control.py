"""What pausing, resuming and cancelling patch."""

from __future__ import annotations

import pytest

from planloop.server.task_control import ControlSteps, control_steps
from tests.product import CommandError, JsonObject, MemoryView, PatchOp, Resource, Uid
from tests.product import CommandExit as Exit

DOCUMENT: JsonObject = {"tasks": {"a": {"goal": "x", "pause": True}, "b": {"goal": "y", "tasks": {"c": {}}}}}


def task(path: str, state: str, kind: str = "run", **status: object) -> Resource:
    spec: JsonObject = {"work": {"kind": kind}}
    return Resource(f"task/{path}", Uid(path), 1, spec, {"state": state, **status})


VIEW = MemoryView(
    [
        task("a", "paused"),
        task("b", "failed", "group"),
        task("b/c", "failed"),
        task(
            "b/d",
            "blocked",
            conditions={
                "Ready": {"status": "False", "reason": "NoModel", "message": "", "since": 1.0, "observed_generation": 1}
            },
        ),
    ]
)


@pytest.mark.parametrize(
    ("do", "named", "steps"),
    [
        ("pause", ["task/b"], ControlSteps((PatchOp("add", ("tasks", "b", "pause"), True),))),
        ("cancel", ["task/b/c"], ControlSteps((PatchOp("add", ("tasks", "b", "tasks", "c", "cancel"), True),))),
        ("resume", ["task/a"], ControlSteps((PatchOp("remove", ("tasks", "a", "pause")),))),
        (
            "resume",
            ["task/b"],
            ControlSteps(
                (
                    PatchOp("add", ("tasks", "b", "tasks", "c", "again"), 1),
                    PatchOp("remove", ("tasks", "b", "tasks", "d", "pause")),
                ),
                (PatchOp("add", ("tasks", "b", "tasks", "d", "pause"), True),),
            ),
        ),
    ],
)
def test_each_step_is_a_patch_of_the_named_tasks(do: str, named: list[str], steps: ControlSteps) -> None:
    assert control_steps(VIEW, DOCUMENT, do, named) == steps


@pytest.mark.parametrize(
    ("named", "code", "cure"),
    [
        ("agent/a", Exit.USAGE, "task/a"),
        ("task/z", Exit.NOT_FOUND, "plan get tasks"),
        ("container/db", Exit.NOT_FOUND, "plan get containers"),
    ],
)
def test_unknown_task_is_reported_with_a_fix(named: str, code: Exit, cure: str) -> None:
    with pytest.raises(CommandError) as halt:
        control_steps(VIEW, DOCUMENT, "resume", [named])
    assert (halt.value.exit, cure in halt.value.hint) == (code, True)
