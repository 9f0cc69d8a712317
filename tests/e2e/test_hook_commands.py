"""What people see of hooks on the command line, and what they do to them while agents run."""

from __future__ import annotations

import pytest

from tests import golden_text
from tests.e2e.folder import Folder

pytestmark = pytest.mark.process

PLAN = """plan: demo
goal: all
agent: {script: [{when: {message: go}, done: ok}]}
hooks:
  first: lib:planning
  guard: {on: before-call, match: "write(*)", run: ./guard, expires: {turns: 9}}
tasks:
  a:
    goal: part
    agent: {script: [{when: {message: go}, done: ok}], hooks: [{lib:spawn-limit: {children: 2}}]}
"""


def test_preview_lists_attached_changed_and_detached_hooks(folder: Folder) -> None:
    folder.write("demo.plan.yaml", PLAN)
    new = folder.run("diff", "demo.plan.yaml").out
    assert "+ hook/guard" in new
    golden_text.said_in(new)
    assert "hook/a/guard" not in new
    with folder.started("demo.plan.yaml") as owner:
        owner.until("its agent is working")
        changed = PLAN.replace("write(*)", "write(src/**)").replace("  first: lib:planning\n", "")
        folder.write("other.plan.yaml", changed)
        said = folder.run("diff", "other.plan.yaml").out
        assert "- hook/first" in said and "detach" in said
        assert "~ hook/guard/match" in said
        golden_text.said_in(said)
        folder.write("demo.plan.yaml", changed)
        owner.until("edited")
        hooks = {one["address"]: one for one in folder.json("get", "hooks")}
        assert hooks["hook/guard"]["spec"]["match"] == "write(src/**)"


def test_hooks_are_listed_described_explained_and_approved_away(folder: Folder) -> None:
    folder.write("demo.plan.yaml", PLAN)
    with folder.started("demo.plan.yaml") as owner:
        owner.until("its agent is working")
        listed = folder.run("get", "hooks").out
        assert [line.split()[0] for line in listed.splitlines()] == [
            *("HOOK", "a/first", "a/guard", "a/spawn-limit", "first", "guard")
        ]
        assert "agent/a" in listed and "before-call" in listed and "active" in listed
        described = folder.run("describe", "hook/a/guard").out
        for words in ("watches   agent/a", "before write(*)", "runs ./guard", "hook/guard", "after 9 turns"):
            assert words in described, described
        assert "lib:hooks/planning.yaml" in folder.run("explain", "--why", "hook/a/first/rule").out
        assert "human:file" in folder.run("explain", "--why", "hook/guard/match").out
        assert "by human:file" in folder.run("explain", "--why", "hook/a/guard").out
        assert "from hooks/guard" in folder.run("explain", "--why", "hook/a/guard/match").out
        refused = folder.run("approve", "hook/guard")
        assert refused.code != 0
        golden_text.said_in(refused.err)
        assert folder.run("approve", "hook/first").code == 0
        owner.until("hook/a/first  over: the hook that it copies has ended")
        states = {one["address"]: one["status"].get("state") for one in folder.json("get", "hooks")}
        assert (states["hook/first"], states["hook/a/first"]) == ("over", "over")
