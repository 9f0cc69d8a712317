"""Commands, groups and checks through the real engine, store and processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.task import Run
from tests.controllers.task.yard import sh, spec, yard

pytestmark = pytest.mark.anyio


async def test_a_group_is_done_when_its_commands_are(tmp_path: Path) -> None:
    async with yard(tmp_path) as here:
        here.apply(root=spec(), a=spec("echo a >> out"), b=spec("echo b >> out", needs=("task/a",)))
        await here.until_state("task/.", "done", "failed")
        await here.settled()

        assert here.states() == {"task/.": "done", "task/a": "done", "task/b": "done"}
        assert here.lines("out") == ["a", "b"]


async def test_a_command_costs_two_appends(tmp_path: Path) -> None:
    async with yard(tmp_path) as here:
        here.apply(root=spec(), a=spec("true"))
        await here.until_state("task/.", "done")
        await here.settled()

        mine = [draft.type for draft in await here.log() if draft.subject == "task/a"]
        assert mine == ["call.started", "call.settled"]


async def test_a_task_whose_check_fails_has_failed_and_says_which_check(tmp_path: Path) -> None:
    async with yard(tmp_path) as here:
        here.apply(root=spec(), a=spec("true", acceptance=(sh("echo no luck; exit 3"),)))
        await here.until_state("task/.", "done", "failed")
        await here.settled()

        assert here.states() == {"task/.": "failed", "task/a": "failed"}
        assert here.task("task/a").status["why"] == "sh: echo no luck; exit 3: exit code 3: no luck"
        assert here.reason("task/.") == "ChildrenFailed"


async def test_a_task_whose_check_holds_is_done(tmp_path: Path) -> None:
    async with yard(tmp_path) as here:
        here.apply(root=spec(), a=spec("touch made", acceptance=(sh("test -e made"), sh("true", "1"))))
        await here.until_state("task/.", "done", "failed")
        await here.settled()

        assert here.states() == {"task/.": "done", "task/a": "done"}
        assert {check["result"] for check in here.task("task/a").status["checks"].values()} == {"pass"}


async def test_a_program_that_is_missing_fails_its_task_with_a_reason(tmp_path: Path) -> None:
    async with yard(tmp_path) as here:
        here.apply(root=spec(), a=spec(Run(argv=("no-such-program",))))
        await here.until_state("task/.", "failed")

        assert here.reason("task/a") == "CannotStart"
