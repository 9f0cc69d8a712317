"""Parts of a plan, saved previews and other options of `plan apply`: each does what it says, and nothing besides."""

from __future__ import annotations

import json

import pytest

from tests import golden_text
from tests.e2e.folder import Folder

PLAN_TEXT = """\
plan: p
goal: three parts
tasks:
  a: {run: "echo a"}
  b: {run: "echo b", needs: [a]}
  c:
    notes: a group
    tasks:
      d: {run: "echo d"}  # the fourth letter
      e: {run: "echo e"}
"""

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]


def test_a_target_deep_in_the_tree_brings_the_tasks_above_it_and_nothing_beside(folder: Folder) -> None:
    folder.write("p.yaml", PLAN_TEXT)
    assert folder.run("apply", "p.yaml", "--target", "c/d").code == 0
    assert folder.states() == {"task/.": "done", "task/c": "done", "task/c/d": "done"}
    assert folder.run("apply", "p.yaml", "--exclude", "task/c").code == 0
    assert folder.states().keys() == {"task/.", "task/a", "task/b", "task/c", "task/c/d"}


def test_missing_target_is_reported_and_nothing_is_done(folder: Folder) -> None:
    folder.write("p.yaml", PLAN_TEXT)
    said = folder.run("apply", "p.yaml", "--target", "c/x")
    assert (said.code, "no task/c/x" in said.err) == (6, True)
    assert folder.run("diff", "p.yaml", "--exclude", "agent/a").code == 2
    assert not (folder.path / ".plan").exists()


def test_a_saved_preview_is_all_that_is_applied(folder: Folder) -> None:
    folder.write("p.yaml", PLAN_TEXT)
    assert folder.run("apply", "p.yaml", "--target", "a", "--out", "saved.json").code == 0
    folder.write("p.yaml", PLAN_TEXT.replace("echo a", "echo other"))
    assert folder.run("apply", "--plan-file", "saved.json").code == 0
    assert folder.states() == {"task/.": "done", "task/a": "done"}
    assert folder.json("get", "task/a")["spec"]["work"]["shell"] == "echo a"
    assert folder.run("apply", "p.yaml", "--plan-file", "saved.json").code == 2


def test_a_target_holds_for_later_saves_and_sync_leaves_the_rest_of_the_file_alone(folder: Folder) -> None:
    folder.write("p.yaml", PLAN_TEXT.replace("echo a", "sleep 300"))
    with folder.started("p.yaml", "--target", "a", "--sync") as owner:
        owner.until(r"running +task/a")
        assert folder.run("patch", "a", "notes=hello").code == 0
        owner.until("written")
        folder.write(
            "p.yaml", (folder.path / "p.yaml").read_text().replace("sleep 300", "echo a").replace("echo d", "x")
        )
        owner.until(r"done +task/a")
        assert owner.ended() == 0
    assert folder.states().keys() == {"task/.", "task/a"}
    written = PLAN_TEXT.replace('a: {run: "echo a"}', 'a: {run: "echo a", notes: hello}').replace("echo d", "x")
    assert (folder.path / "p.yaml").read_text() == written


def test_patch_of_a_missing_task_does_not_create_it(folder: Folder) -> None:
    folder.write("p.yaml", PLAN_TEXT)
    assert folder.run("apply", "p.yaml").code == 0
    assert folder.run("patch", "cc", "run=true").code == 6
    assert folder.run("patch", "cc", "--merge", json.dumps({"run": "true"})).code == 6
    assert "task/cc" not in folder.states()


def test_a_model_for_all_is_in_the_preview_and_agents_without_one_have_no_other(folder: Folder) -> None:
    folder.write("p.yaml", "plan: p\ntasks:\n  a: {goal: x}\n  b: {goal: y, agent: {model: a/b}}\n")
    said = folder.run("apply", "p.yaml")
    assert (said.code, "P0225" in said.err, "p.yaml:3:" in said.err) == (3, True, True)
    shown = folder.run("diff", "p.yaml", "--model", "z/z")
    assert (shown.code, shown.out.count("z/z"), shown.err) == (1, 2, "")


def test_field_inherited_by_an_agent_is_explained_with_the_mixin_and_the_line(folder: Folder) -> None:
    agent = "{extends: 'lib:child', mixins: ['lib:denylist'], script: [{done: ok}]}"
    folder.write("p.yaml", f"plan: p\ntasks:\n  a: {{goal: x, agent: {agent}}}\n")
    assert folder.run("apply", "p.yaml").code == 0
    golden_text.said_in(folder.run("explain", "--why", "task/a/agent.wake").out)
    golden_text.said_in(folder.run("explain", "--why", "task/a/agent.deny").out)
    golden_text.said_in(folder.run("explain", "--why", "task/a/agent.script").out)
