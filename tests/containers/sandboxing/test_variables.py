"""A task's environment applies only to its command, not to the outer programs of its sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.containers.sandbox.container_sandbox import EngineSandboxContainers, SandboxContainer
from planloop.containers.sandbox.entry import hide_variables, restore_variables
from tests import needs
from tests.containers.sandboxing import enclosures
from tests.product import CommandSandbox, ProcessCommand

pytestmark = pytest.mark.anyio
ENV = {"PATH": "/usr/bin:/bin", "HOME": "/root", "EMPTY": "", "PLANLOOP_TASK": "task/t"}


def test_variables_arrive_under_other_names_and_are_restored() -> None:
    outside = {"PATH": "/bin", "PLANLOOP_OP": "op", **hide_variables(ENV)}

    assert set(hide_variables(ENV)).isdisjoint(ENV)
    assert restore_variables(outside) == {**ENV, "PLANLOOP_OP": "op"}


async def test_loader_variables_do_not_affect_programs_outside_the_sandbox(tmp_path: Path) -> None:
    needs.bubblewrap()
    folder, outside = tmp_path / "plan", tmp_path / "outside"
    for place in (folder / ".plan", outside):
        place.mkdir(parents=True)
    env = {**ENV, "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(outside / "escaped")}
    command = ProcessCommand(
        str(folder), shell="echo $LD_DEBUG $EMPTY. $PLANLOOP_TASK", env=env, sandbox=CommandSandbox(2)
    )

    ended = await enclosures.enclosing(folder, folder / ".plan" / "run").run("a", command)

    assert b"files . task/t" in ended.output
    assert list(outside.iterdir()) == []


def test_program_that_runs_a_command_in_a_container_ignores_all_of_them() -> None:
    rooms = EngineSandboxContainers(
        lambda: pytest.fail("the command is not asked"),
        "unix:///s",
        "/usr/bin/python3",
        lambda _: SandboxContainer("id"),
    )
    command = ProcessCommand(
        "/x", shell="true", env={**ENV, "LD_PRELOAD": "./x.so"}, sandbox=CommandSandbox(3, container="c")
    )

    _, enclosed = rooms.enclosed("op", command)

    assert restore_variables(enclosed.env) == command.env and set(enclosed.env).isdisjoint(command.env)
    assert "EMPTY,LD_PRELOAD,PLANLOOP_TASK" in enclosed.argv
