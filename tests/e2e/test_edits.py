"""Editing the plan while it runs: each class of edit has its effect on running work, and only that."""

from __future__ import annotations

import os
import re

import pytest

from tests import golden_text
from tests.e2e.command import PLAN
from tests.e2e.folder import Folder, Owner

# `paint` works in steps until a file `stop` appears; `wait` is a long command with a child process of its own.
PLAN_TEXT = """\
plan: p  # the name
goal: a picture

tasks:
  paint:
    goal: paint the sky blue
    agent:
      tools: [shell]
      effects: {shell: idempotent}
      script:
        - call: {shell: {command: "echo 1 > painted"}}
        - when: {goal: red}
          call: {shell: {command: "echo told > told"}}
        - done: painted
  wait:
    goal: let it dry
    run: "touch made-by-wait; sh -c 'sleep 300; true' & echo up > ready; wait"
"""

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]


def prepare(folder: Folder) -> None:
    os.mkfifo(folder.path / "ready")
    folder.write("p.yaml", PLAN_TEXT)


def running(folder: Folder, owner: Owner) -> None:
    """Return when both tasks run and `wait` has its children, which it reports through a pipe."""
    assert (folder.path / "ready").read_text() == "up\n"
    while {"task/paint", "task/wait"} - set(re.findall(r"running +(task/\w+)", owner.text)):
        owner.until("running")


def incarnations(folder: Folder) -> dict[str, int]:
    tasks = folder.json("get", "tasks")
    return {task["address"]: task["status"].get("incarnation", 0) for task in tasks}


def change(folder: Folder, old: str, new: str) -> None:
    """An edit as an editor saves it."""
    text = (folder.path / "p.yaml").read_text()
    assert old in text
    folder.write("p.yaml", text.replace(old, new))


def test_changed_goal_reaches_the_running_agent_which_continues(folder: Folder) -> None:
    prepare(folder)
    with folder.started("p.yaml") as owner:
        running(folder, owner)

        change(folder, "paint the sky blue", "paint the sky red")

        owner.until(r"done +task/paint")
        assert (folder.path / "told").read_text() == "told\n"
        assert incarnations(folder)["task/paint"] == 1
        assert incarnations(folder)["task/wait"] == 1


def test_removed_task_is_cancelled_its_processes_ended_and_its_files_kept(folder: Folder) -> None:
    prepare(folder)
    with folder.started("--yes", "p.yaml") as owner:
        running(folder, owner)
        assert len(folder.processes()) >= 2

        change(folder, PLAN_TEXT[PLAN_TEXT.index("  wait:") :], "")

        owner.until(r"gone +task/wait")
        assert folder.processes() == []
        assert (folder.path / "made-by-wait").exists()
        assert "task/wait" not in folder.states()


def test_an_added_task_starts(folder: Folder) -> None:
    prepare(folder)
    with folder.started("p.yaml") as owner:
        running(folder, owner)

        folder.write("p.yaml", PLAN_TEXT + "  frame:\n    run: touch framed\n")

        owner.until(r"done +task/frame")
        assert (folder.path / "framed").exists()


def test_a_changed_budget_check_or_priority_does_not_restart(folder: Folder) -> None:
    prepare(folder)
    with folder.started("p.yaml") as owner:
        running(folder, owner)
        before = folder.processes()

        change(
            folder,
            "    goal: let it dry\n",
            "    goal: let it dry\n    priority: 5\n    budget: {time: 1h}\n"
            "    acceptance: [{require-file: made-by-wait}]\n",
        )

        owner.until("p.yaml")
        assert set(before) <= set(folder.processes())
        assert incarnations(folder)["task/wait"] == 1


def test_more_commands_run_in_parallel_as_soon_as_the_plan_allows_it(folder: Folder) -> None:
    folder.write("p.yaml", "limits: {parallel: 1}\ntasks: {a: {run: sleep 300}, b: {run: sleep 300}}\n")
    with folder.started("p.yaml") as owner:
        owner.until(r"running +task/\w")

        change(folder, "parallel: 1", "parallel: 2")

        owner.until(r"running +task/\w")


def test_a_changed_command_stops_the_old_one_and_starts_the_new(folder: Folder) -> None:
    prepare(folder)
    with folder.started("--yes", "p.yaml") as owner:
        running(folder, owner)

        change(folder, "touch made-by-wait; sh -c 'sleep 300; true' & echo up > ready; wait", "touch second")

        owner.until(r"done +task/wait")
        assert (folder.path / "second").exists()
        assert folder.processes() == []
        assert incarnations(folder)["task/wait"] == 2


def test_an_id_that_moved_is_not_restarted(folder: Folder) -> None:
    prepare(folder)
    with folder.started("p.yaml") as owner:
        running(folder, owner)
        before = folder.processes()

        change(folder, "  wait:\n", "  dry:\n")
        # Two saves would be two edits; the rename and its note belong together.
        folder.write("p.yaml", (folder.path / "p.yaml").read_text() + "moved: {wait: dry}\n")

        owner.until(r"task/dry")
        folder.run("wait", "task/dry", "--for", "condition=Progressing", "--timeout", "10s")
        assert set(before) <= set(folder.processes())
        assert incarnations(folder)["task/dry"] == 1


def test_the_same_edits_work_through_plan_patch(folder: Folder) -> None:
    prepare(folder)
    with folder.started("p.yaml") as owner:
        running(folder, owner)

        assert folder.run("patch", "task/paint", "goal=paint the sky red", "--reason", "sunset").code == 0
        owner.until(r"done +task/paint")
        assert folder.run("delete", "task/wait").code == 0

        owner.until(r"gone +task/wait")
        assert (folder.path / "told").exists()
        assert folder.processes() == []
        assert owner.ended() == 0
        assert "by human:file" in folder.run("explain", "--why", "paint").out
        golden_text.said_in(folder.run("explain", "--why", ".").err)
        golden_text.said_in(folder.run("explain", "--why", "agent/pain").err, "agent/paint")
        golden_text.said_in(folder.run("describe", "tasks").err)
        why = folder.run("explain", "--why", "task/paint/goal").out
        assert "human:cli" in why
        assert "sunset" in why


def test_an_agent_patches_its_own_subtree_and_is_refused_outside(folder: Folder) -> None:
    folder.write(
        "p.yaml",
        """\
plan: p
tasks:
  other: {goal: another user's, run: 'true'}
  clever:
    goal: change the plan
    agent:
      tools: [plan_patch, task]
      script:
        - patch: [{op: replace, path: /tasks/other/goal, value: mine now}]
          reason: I want it
        - expect: {ok: false}
        - patch: [{op: add, path: /tasks/clever/tasks, value: {sub: {goal: below, run: touch below}}}]
          reason: I split it
        - done: changed what I may
""",
    )

    said = folder.run("apply", "--yes", "p.yaml")

    assert said.code == 0, said.text
    assert (folder.path / "below").exists()
    refused = [record for record in folder.records() if record["type"] == "plan.refused"]
    assert [record["actor"] for record in refused] == ["agent:clever"]
    assert "/tasks/other/goal" in folder.run("events", "--type", "plan.refused").out
    (other,) = [task for task in folder.json("get", "tasks") if task["address"] == "task/other"]
    assert other["spec"]["goal"] == "another user's"


def test_law_9_a_half_saved_or_missing_file_changes_nothing(folder: Folder) -> None:
    prepare(folder)
    with folder.started("p.yaml") as owner:
        running(folder, owner)
        before = folder.states()

        folder.write("p.yaml", PLAN_TEXT[:40] + "{")
        owner.until("error")
        assert folder.states() == before

        (folder.path / "p.yaml").unlink()
        owner.until("p.yaml is missing")
        assert folder.states() == before

        folder.write("p.yaml", PLAN_TEXT.replace("blue", "red"))
        owner.until(r"done +task/paint")


def test_an_edit_that_would_cancel_much_is_held_until_it_is_approved(folder: Folder) -> None:
    tasks = "".join(f"  t{n}: {{run: sleep 300}}\n" for n in range(5))
    folder.write("p.yaml", f"plan: p\nlimits: {{parallel: 8}}\ntasks:\n{tasks}  last: {{run: sleep 300}}\n")
    with folder.started("p.yaml") as owner:
        for _ in range(6):
            owner.until(r"running +task/")

        folder.write("p.yaml", "plan: p\nlimits: {parallel: 8}\ntasks:\n  last: {run: sleep 300}\n")

        owner.until("plan approve")
        assert len(folder.states()) == 7
        (approval,) = folder.json("get", "approvals")
        assert folder.run("get", "approvals").out.split("\n")[0].split() == ["APPROVAL", "STATE", "BY", "WHAT"]
        said = folder.run("approve", approval["address"])
        assert (said.code, said.out.startswith(f"{approval['address']} was approved, rev ")) == (0, True), said.out
        while len(folder.states()) > 2:
            owner.until(r"gone +task/t")
        assert folder.states().keys() == {"task/.", "task/last"}


def test_failed_task_runs_again_when_it_is_resumed(folder: Folder) -> None:
    folder.write("p.yaml", "plan: p\ntasks:\n  a: {run: test -e fixed}\n  b: {run: touch b, needs: [a]}\n")
    assert folder.run("apply", "p.yaml").code == 10
    folder.write("fixed", "")

    assert folder.run("apply", "p.yaml").code == 10
    assert folder.run("resume", ".").code == 0
    assert folder.run("apply", "p.yaml").code == 0

    assert folder.states() == {"task/.": "done", "task/a": "done", "task/b": "done"}


def test_law_6_command_of_a_plan_cannot_act_on_it_as_an_operator(folder: Folder) -> None:
    plan = " ".join(PLAN)
    folder.write(
        "p.yaml",
        f"plan: p\ntasks:\n  a: {{run: \"{plan} patch task/b priority=9; echo $? > code\"}}\n  b: {{run: 'true'}}\n",
    )

    said = folder.run("apply", "p.yaml")

    assert said.code == 0, said.text
    assert (folder.path / "code").read_text() == "5\n"
    assert folder.json("get", "task/b")["spec"]["priority"] == 0
