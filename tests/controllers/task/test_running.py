"""Commands, groups and checks through the real engine, store and processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from planloop.controllers.task.observe import TaskObserver
from planloop.reconciler.store import state_files
from planloop.schemas.objects.budget import Budget
from tests.controllers.task.harness import family, harness, is_alive, put, sh, spec
from tests.controllers.task.world import World
from tests.golden_text import said
from tests.product import MemoryView, Move, Put, RecordDraft, Resource, RunWork

pytestmark = pytest.mark.anyio


async def test_a_group_is_done_when_its_commands_are(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        here.apply(root=spec(), a=spec("echo a >> out"), b=spec("echo b >> out", needs=("task/a",)))
        await here.until_state("task/.", "done", "failed")
        await here.settled()

        assert here.states() == {"task/.": "done", "task/a": "done", "task/b": "done"}
        assert here.lines("out") == ["a", "b"]


async def test_a_folder_that_is_missing_is_made_for_commands_and_checks(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        both = spec("pwd > here", cwd="build/out", acceptance=(sh("test -e here"),))
        group = spec(cwd="later", acceptance=(sh("true"),))
        here.apply(root=spec(), a=both, g=group, g_b=spec("true"))
        await here.until_state("task/.", "done", "failed")
        await here.settled()

        assert here.states() == dict.fromkeys(("task/.", "task/a", "task/g", "task/g/b"), "done")
        assert here.lines("build/out/here") == [str(tmp_path / "build/out")]


async def test_a_folder_that_cannot_be_made_ends_the_task_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with harness(tmp_path) as here:
        here.apply(root=spec(), a=spec("true", cwd="file/below"))
        await here.until_state("task/.", "done", "failed")
        await here.settled()

        assert here.states()["task/a"] == "failed"
        assert "Not a directory" in here.task("task/a").status["why"]


async def test_a_command_costs_two_appends(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        here.apply(root=spec(), a=spec("true"))
        await here.until_state("task/.", "done")
        await here.settled()

        mine = [draft.type for draft in await here.log() if draft.subject == "task/a"]
        assert mine == ["call.started", "call.settled"]


async def test_task_with_a_failed_check_has_failed_and_names_the_check(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        here.apply(root=spec(), a=spec("true", acceptance=(sh("echo no luck; exit 3"),)))
        await here.until_state("task/.", "done", "failed")
        await here.settled()

        assert here.states() == {"task/.": "failed", "task/a": "failed"}
        said(here.task("task/a").status["why"])
        assert here.reason("task/.") == "ChildrenFailed"


async def test_a_task_whose_check_holds_is_done(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        here.apply(root=spec(), a=spec("touch made", acceptance=(sh("test -e made"), sh("true", "1"))))
        await here.until_state("task/.", "done", "failed")
        await here.settled()

        assert here.states() == {"task/.": "done", "task/a": "done"}
        assert {check["result"] for check in here.task("task/a").status["checks"].values()} == {"pass"}


async def test_a_program_that_is_missing_fails_its_task_with_a_reason(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        here.apply(root=spec(), a=spec(RunWork(argv=("no-such-program",))))
        await here.until_state("task/.", "failed")

        assert here.reason("task/a") == "CannotStart"


async def test_law_3_a_second_look_at_a_settled_plan_writes_nothing(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        here.apply(
            root=spec(), a=spec("true", acceptance=(sh("true"),)), b=spec("false"), c=spec("x", needs=("task/b",))
        )
        await here.until_state("task/.", "failed")
        await here.settled()
        before = here.store.view.rev
        for address in here.states():
            here.work.poke(address)
        await here.settled()

        assert here.store.view.rev == before


async def test_law_4_an_edited_command_is_replaced_while_it_runs(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        here.apply(root=spec(), a=spec("echo old >> out; exec sleep 600"))
        await here.until(lambda: here.lines("out") == ["old"])
        here.change("task/a", work=RunWork(shell="echo new >> out"))
        await here.until_state("task/.", "done")
        await here.settled()

        assert here.lines("out") == ["old", "new"]
        assert here.task("task/a").status["incarnation"] == 2


async def test_law_4_a_retry_that_waits_gives_way_to_an_edit(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        here.apply(root=spec(), a=spec("exit 1", retries=40))
        await here.until(lambda: here.task("task/a").status.get("attempt", 1) >= 3)
        here.change("task/a", work=RunWork(shell="true"))
        await here.until_state("task/.", "done")


async def test_a_new_goal_budget_or_check_leaves_a_running_command_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    async with harness(tmp_path) as here:
        here.apply(root=spec(), a=spec("echo begin >> out; read x < gate"))
        await here.until(lambda: here.lines("out") == ["begin"])
        here.change("task/a", goal="another", acceptance=(sh("true"),), budget=Budget(time_s=60), priority=3)
        await here.until(lambda: here.engine.is_quiescent() or here.task("task/a").generation > 1)
        (tmp_path / "gate").write_text("go\n")
        await here.until_state("task/.", "done")

        assert here.lines("out") == ["begin"]
        assert here.task("task/a").status["checks"]["0"]["result"] == "pass"


async def test_a_cancelled_task_takes_its_whole_process_group_with_it(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        here.apply(root=spec(), a=spec("sleep 600 & echo $! >> out; wait"))
        await here.until(lambda: here.lines("out") != [])
        here.change("task/a", cancel=True)
        await here.until_state("task/.", "cancelled")

        assert not is_alive(int(here.lines("out")[0]))


async def test_a_removed_task_leaves_its_files_and_nothing_else(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        here.apply(root=spec(), a=spec(), a_x=spec("echo begin >> out; exec sleep 600"), b=spec("true"))
        await here.until(lambda: here.lines("out") == ["begin"])
        here.apply(a=None)
        await here.until_state("task/.", "done")
        await here.settled()

        assert set(here.states()) == {"task/.", "task/b"}
        assert here.lines("out") == ["begin"]
        assert here.store.view.list("call") == []


async def test_a_paused_plan_starts_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        here.apply(root=spec(pause=True), a=spec("echo a >> out"))
        await here.until_state("task/.", "paused")
        await here.settled()
        assert here.lines("out") == []
        here.change("task/.", pause=False)
        await here.until_state("task/.", "done")


async def test_commands_of_higher_priority_go_first(tmp_path: Path) -> None:
    async with harness(tmp_path, parallel=1) as here:
        order = {"low": -1, "middle": 0, "high": 5}
        tasks = {name: spec(f"echo {name} >> out", priority=order[name]) for name in order}
        here.apply(root=spec(pause=True), **tasks)
        await here.until_state("task/.", "paused")
        await here.settled()
        here.change("task/.", pause=False)
        await here.until_state("task/.", "done")

        assert here.lines("out") == ["high", "middle", "low"]


async def test_a_command_is_stopped_at_its_time_limit(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        here.apply(root=spec(), a=spec(RunWork(shell="sleep 600", timeout_s=0.1)))
        await here.until_state("task/.", "failed")

        assert here.reason("task/a") == "TimedOut"


async def test_a_command_is_stopped_when_the_time_of_a_budget_above_is_used_up(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        here.apply(root=spec(budget=Budget(time_s=0.2)), a=spec("sleep 600"), b=spec("true", needs=("task/a",)))
        await here.until_state("task/.", "failed")

        assert here.task("task/.").status["ledger"]["time_s"]["spent"] >= 0.2


async def test_a_command_sees_a_clean_environment_with_the_labels_and_the_plans_own(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        here.apply(root=spec(), a=spec(RunWork(argv=("/usr/bin/env",)), env={"CI": "1", "PLANLOOP_TASK": "forged"}))
        await here.until_state("task/.", "done")
        seen = dict(line.split("=", 1) for line in here.task("task/a").status["result"]["text"].splitlines())

        assert (seen["CI"], seen["PLANLOOP_TASK"], seen["PLANLOOP_INCARNATION"]) == ("1", "task/a", "1")
        assert "TERM" not in seen
        assert {name for name in seen if not name.startswith("PLANLOOP_")} <= {
            "PATH",
            "CI",
            "PWD",
            "OLDPWD",
            "SHLVL",
            "_",
        }


async def test_the_whole_output_is_kept_and_the_status_shows_head_and_tail(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        here.apply(root=spec(), a=spec("seq 1 20000; exit 4"))
        await here.until_state("task/.", "failed")
        result = here.task("task/a").status["result"]
        whole = here.store.get_blob(result["blob"])

        assert whole is not None
        assert whole.split()[-1] == b"20000"
        said(result["text"])


async def test_files_of_ended_commands_are_cleared(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        here.apply(root=spec(), a=spec("echo a"), b=spec("echo b", acceptance=(sh("echo c"),)))
        await here.until_state("task/.", "done")
        await here.settled()

        assert [file for file in (tmp_path / ".plan" / "run").iterdir() if file.suffix in (".out", ".state")] == []


async def test_law_5_the_start_of_a_command_is_durable_before_it_runs(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        # The command itself reads the log: what it finds there was durable before it began.
        query = "select count(*) from log where type = 'call.started'"
        log = str(state_files.log_file(tmp_path / ".plan"))
        script = f"import sqlite3; print(sqlite3.connect({log!r}).execute({query!r}).fetchone()[0])"
        here.apply(root=spec(), a=spec(RunWork(argv=(sys.executable, "-c", script))))
        await here.until_state("task/.", "done", "failed")

        assert here.task("task/a").status["result"]["text"] == "1\n"


async def test_a_task_that_moves_while_its_command_runs_is_not_started_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    async with harness(tmp_path) as here:
        here.apply(root=spec(), a=spec("echo begin >> out; read x < gate"))
        await here.until(lambda: here.lines("out") == ["begin"])
        old = here.task("task/a")
        here.tasks["task/b"] = here.tasks.pop("task/a")
        new = family(here.tasks)
        call = here.store.view.list("call")[0]
        writes = (
            Move("task/a", old.uid, "task/b"),
            put("task/b", new["task/b"], old.uid),
            put("task/.", new["task/."], here.task("task/.").uid),
            Put(call.address, call.uid, call.spec, call.refs, "task/b", call.finalizers),
        )
        here.store.propose(RecordDraft("plan.patched", "human:file", "plan/harness", writes))
        await here.until(lambda: here.state("task/b") == "running")
        (tmp_path / "gate").write_text("go\n")
        await here.until_state("task/.", "done")
        await here.settled()

        assert here.states() == {"task/.": "done", "task/b": "done"}
        assert here.lines("out") == ["begin"]


async def test_healing_task_repairs_later_damage(tmp_path: Path) -> None:
    async with harness(tmp_path) as here:
        check = (sh("test -e made"),)
        here.apply(root=spec(), a=spec("touch made; echo ran >> out", acceptance=check, heal=True, heal_every_s=0.05))
        await here.until_state("task/.", "done")
        (tmp_path / "made").unlink()
        await here.until(lambda: here.lines("out") == ["ran", "ran"])
        await here.until_state("task/.", "done")


async def test_a_parent_of_very_many_costs_each_child_the_same(tmp_path: Path) -> None:
    world = World(root=spec())
    world.edit({f"t{n}": spec("true") for n in range(300)})
    world.settle()
    # One child ends: its parent reads a counter, and the other children are not read.
    looked: list[str] = []

    view = MemoryView(world.view.everything(), world.view.rev)
    real = view.get

    def get(address: str) -> Resource | None:
        looked.append(address)
        return real(address)

    view.get = get
    TaskObserver(view, world.tallies, None, ground=world.ground).observe("task/.", 0.0)

    assert 0 < len(looked) < 5
