"""Two agents want one file and a person says how it goes on, with the real command."""

from __future__ import annotations

import pytest

from tests import golden_text
from tests.e2e.folder import Folder
from tests.e2e.test_chat import chat

pytestmark = pytest.mark.process

PLAN = """\
plan: demo
tasks:
  front:
    goal: the page
    agent:
      script:
        - call: {lock: {paths: [api.py], reason: it moves}}
        - call: {write: {path: api.py, content: "by front\\n"}}
        - when: {message: "you also do the part of `back`"}
          call: {edit: {path: api.py, old: by front, new: by front for both}}
        - done: x
  back:
    goal: the server
    agent:
      topology: {talk-to: [front]}
      script:
        - sleep: 1
        - call: {contest: {paths: [api.py], intent: a new field, proposal: you do it}}
        - when: {message: "does your part"}
          done: left to front
"""


def test_operator_sees_both_sides_and_rules(folder: Folder) -> None:
    folder.write("task.yaml", PLAN)
    with folder.started("task.yaml") as owner:
        owner.until("conflict/1")
        listed = folder.run("get", "conflicts").out
        golden_text.said_in(listed)
        assert "a person" in listed
        assert "conflict-1" in folder.run("get", "approvals").out
        described = folder.run("describe", "conflict/1").out
        for words in (
            "`front` (holds): it moves",
            "proposes: you do it",
            "+by front",
            "plan approve conflict/1 --merge",
        ):
            assert words in described
        unsure = folder.run("approve", "approval/conflict-1")
        assert unsure.code == 2
        assert "--sequence" in unsure.text
        assert folder.run("approve", "conflict/1", "--merge", "--for", "nobody").code == 2
        both = folder.run("approve", "conflict/1", "--release", "--cancel")
        assert (both.code, "--release and --cancel cannot be combined" in both.text) == (2, True), both
        assert folder.run("approve", "conflict/1", "--release", "--tell", "x" * 2_001).code == 2
        assert folder.run("approve", "conflict/7", "--release").code == 6
        for name in ("conflict/1", "approval/conflict-1"):
            no = folder.run("reject", name)
            assert (no.code, "conflict/1 cannot be rejected" in no.text, "--sequence" in no.text) == (2, True, True), no
        ruled = folder.run("approve", "conflict/1", "--merge", "--tell", "keep the names")
        assert (ruled.code, "resolved as `merge` for front" in ruled.text) == (0, True), ruled
        assert owner.ended() == 0, owner.text
    assert (folder.path / "api.py").read_text() == "by front for both\n"
    assert folder.states() == {"task/.": "done", "task/front": "done", "task/back": "done"}
    assert folder.run("get", "approvals").out.strip() == "no approvals"
    assert folder.run("approve", "conflict/1", "--release").code == 4
    late = folder.run("reject", "conflict/1")
    assert (late.code, "conflict/1 is already resolved" in late.text) == (4, True), late
    why = folder.run("explain", "--why", "/tasks/back/rulings")
    assert "human:cli" in why.text, why
    assert folder.run("replay").code == 0


def test_operator_who_talks_with_an_agent_rules_in_the_chat(folder: Folder) -> None:
    folder.write("task.yaml", PLAN)
    with folder.started("task.yaml") as owner:
        owner.until("conflict/1")
        unsure = chat(folder, "/approve conflict-1\n", "front")
        assert "/approve conflict-1 merge" in unsure.text
        said = chat(folder, "/approve conflict-1 merge front keep the names\n", "front")
        assert "conflict/1: decided" in said.text
        assert owner.ended() == 0, owner.text
    rulings = folder.json("get", "task/back")["spec"]["rulings"]
    golden_text.said(rulings)
