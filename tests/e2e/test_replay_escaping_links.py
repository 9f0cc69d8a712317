"""`plan replay --tree` of tasks whose folders left the agent's workspace: as recorded, not as the links are now."""

from __future__ import annotations

import pytest

from planloop.client import plan_paths
from planloop.owner import build
from planloop.owner.replay import play
from tests.e2e.folder import Folder
from tests.product import CommandExit as Exit

pytestmark = pytest.mark.process

PLAN = """\
plan: demo
tasks:
  t: {cwd: work, agent: {script: [{done: x}]}}
  c: {cwd: work/sub, needs: [t], retries: RETRIES, WORK}
"""
COMMAND = "run: touch ran"
AGENT = "agent: {script: [{call: {shell: {command: touch ran}}}, {done: x}]}"


def _replayed(folder: Folder) -> None:
    (folder.path / "work/sub").unlink(missing_ok=True)
    found = play.replay_plan(build.replay_setup(plan_paths.find_plan(None, folder.path)))
    notes = [note for note in found.notes if not note.subject.startswith("plan/")]
    assert (found.verdict, notes) == ("same", []), (found.why, found.at, found.details, found.notes)


@pytest.mark.parametrize("work", [COMMAND, AGENT])
@pytest.mark.parametrize("retries", [0, 1])
def test_folder_that_led_out_leads_out_again_however_often_it_was_tried(
    folder: Folder, work: str, retries: int
) -> None:
    (folder.path / "work").mkdir()
    (folder.path / "work/sub").symlink_to("..")
    folder.write("demo.plan.yaml", PLAN.replace("RETRIES", str(retries)).replace("WORK", work))

    assert folder.run("apply", "demo.plan.yaml", "--yes").code == Exit.FINISHED_WITH_FAILURES
    folder.run("resume", "task/c")
    said = folder.run("apply", "demo.plan.yaml", "--yes")
    described = folder.run("describe", "task/c").out
    assert "FolderLeadsOut" in described and "remove the link" in described, said.text
    told = folder.run("events", "task/c").out
    assert told.count("the task's folder") >= 2 + retries, told

    _replayed(folder)


@pytest.mark.parametrize("work", [COMMAND, AGENT])
def test_task_that_started_once_the_link_was_gone_starts_then_in_the_replay(folder: Folder, work: str) -> None:
    (folder.path / "work").mkdir()
    (folder.path / "work/sub").symlink_to("..")
    folder.write("demo.plan.yaml", PLAN.replace("RETRIES", "0").replace("WORK", work))

    assert folder.run("apply", "demo.plan.yaml", "--yes").code == Exit.FINISHED_WITH_FAILURES
    (folder.path / "work/sub").unlink()
    (folder.path / "work/sub").mkdir()
    folder.run("resume", "task/c")
    said = folder.run("apply", "demo.plan.yaml", "--yes")
    assert (folder.path / "work/sub/ran").exists(), said.text
    (folder.path / "work/sub/ran").unlink()
    (folder.path / "work/sub").rmdir()
    (folder.path / "work/sub").symlink_to("..")

    _replayed(folder)
