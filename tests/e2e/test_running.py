"""A plan is run to its end, left, joined, put in the background and stopped; how it ended is the exit code."""

from __future__ import annotations

import signal

import pytest

from tests import golden_text
from tests.e2e.folder import Folder

SMALL = """\
plan: small
tasks:
  one: {goal: first, run: echo one >> one.txt, acceptance: [{require-file: one.txt}]}
  two: {goal: second, needs: [one], run: cat one.txt}
"""
UNTIL_STOPPED = """\
plan: adopt
tasks:
  go: {goal: x, run: 'echo $$ >> pids; while [ ! -e stop ]; do sleep 0.05; done'}
"""
LONG = "plan: long\ntasks:\n  wait: {goal: something slow, run: sleep 300}\n"


@pytest.mark.process
def test_apply_runs_everything_once_and_ends_with_0(folder: Folder) -> None:
    folder.write("p.plan.yaml", SMALL)

    first, second = folder.run("apply", "p.plan.yaml"), folder.run("apply", "p.plan.yaml")

    assert (first.code, second.code) == (0, 0), first.text
    golden_text.said_in(first.out)
    assert (folder.path / "one.txt").read_text() == "one\n"


def test_failed_task_ends_apply_with_10_and_independent_work_continues(folder: Folder) -> None:
    folder.write("p.plan.yaml", "plan: bad\ntasks:\n  broken: {goal: x, run: exit 3}\n  fine: {goal: z, run: 'true'}\n")

    said = folder.run("apply", "p.plan.yaml")

    assert said.code == 10
    golden_text.said_in(said.err, "task/broken")
    assert folder.states()["task/fine"] == "done"


@pytest.mark.process
def test_ctrl_c_detaches_with_what_still_runs_and_the_next_apply_adopts_it(folder: Folder) -> None:
    folder.write("p.plan.yaml", UNTIL_STOPPED)
    with folder.started("p.plan.yaml") as owner:
        owner.until("its command is running")
        owner.process.send_signal(signal.SIGINT)
        assert owner.ended() == 8
        golden_text.said_in(owner.text, "task/go")

        with folder.started("p.plan.yaml") as again:
            again.until("1 command adopted")
            (folder.path / "stop").touch()
            assert again.ended() == 0
    assert len((folder.path / "pids").read_text().splitlines()) == 1, "it ran once"


@pytest.mark.process
def test_detach_leaves_an_owner_and_down_stops_it_with_its_commands(folder: Folder) -> None:
    folder.write("p.plan.yaml", LONG)
    said = folder.run("apply", "p.plan.yaml", "--detach")
    try:
        assert said.code == 0, said.err
        assert "runs in the background" in said.out
        assert folder.run("wait", "wait", "--for", "running", "--timeout", "10s").code == 0
        assert folder.run("wait", "wait", "--timeout", "0.2s").code == 9
    finally:
        down = folder.run("down")

    assert down.code == 0, down.text
    assert folder.processes() == []
    assert "not running" in folder.run("get").out
    nobody = "long is not running: plan apply p.plan.yaml resumes it"
    assert nobody in folder.run("get", "tasks").err
    assert f"owner     {nobody}" in folder.run("describe", "wait").out


@pytest.mark.process
def test_waiting_for_an_impossible_state_ends_immediately(folder: Folder) -> None:
    folder.write("p.plan.yaml", LONG)
    with folder.started("p.plan.yaml") as owner:
        owner.until("its command is running")
        assert folder.run("cancel", "wait").code == 0

        said = folder.run("wait", "wait", "--timeout", "15s")

        assert said.code == 1
        golden_text.said_in(said.err)


@pytest.mark.process
def test_commands_name_the_plan_when_there_are_several(folder: Folder) -> None:
    folder.write("a.plan.yaml", "plan: a\ntasks:\n  x: {goal: x, run: 'true'}\n")
    folder.write("b.plan.yaml", "plan: b\ntasks:\n  x: {goal: x, run: 'true'}\n")
    folder.run("apply", "a.plan.yaml")
    folder.run("apply", "b.plan.yaml")

    asked, told = folder.run("get"), folder.run("get", "--plan", "b")

    assert (asked.code, told.code) == (2, 0)
    golden_text.said_in(asked.err)
    assert told.out.startswith("b ")
    assert folder.run("get", "--plan", "a.plan.yaml").out.startswith("a ")


def test_preview_does_not_count_refused_changes_as_pending(folder: Folder) -> None:
    folder.write("p.plan.yaml", "plan: p\ntasks:\n  think: {goal: to think without a model}\n  do: {run: 'true'}\n")
    said = folder.run("diff", "p.plan.yaml")

    assert said.code == 1
    golden_text.said_in(said.out)
    golden_text.said_in(said.out, "task/think/agent", "lib:child")
    assert folder.run("apply", "p.plan.yaml").code == 3


@pytest.mark.process
def test_applying_a_finished_plan_is_not_a_takeover(folder: Folder) -> None:
    folder.write("p.plan.yaml", "plan: p\ntasks:\n  a: {run: 'true'}\n")
    assert folder.run("apply", "p.plan.yaml").code == 0
    again = folder.run("apply", "p.plan.yaml")

    assert again.code == 0
    assert "left" not in again.out
    assert "epoch" not in again.out


def test_failed_task_is_reported_with_the_command_that_retries_it(folder: Folder) -> None:
    folder.write("p.plan.yaml", "plan: p\ntasks:\n  a: {run: 'exit 3'}\n")
    said = folder.run("apply", "p.plan.yaml")

    assert said.code == 10
    golden_text.said_in(said.text, "task/a")


@pytest.mark.process
def test_live_removal_is_shown_by_diff(folder: Folder) -> None:
    folder.write("p.plan.yaml", "plan: p\ntasks:\n  a: {run: 'true'}\n  b: {run: 'true'}\n")
    assert folder.run("apply", "p.plan.yaml").code == 0
    assert folder.run("delete", "b").code == 0
    said = folder.run("diff", "p.plan.yaml")

    assert said.code == 0
    assert "- task/b" in said.out
    golden_text.said_in(said.out)
