"""What waits for a person says everywhere what is asked for, and how to answer."""

from __future__ import annotations

import pytest

from tests.e2e.folder import Folder
from tests.e2e.test_terminal import terminal
from tests.golden_text import said, said_in

PLAN = """\
plan: demo
goal: plan first
hooks: {plan-first: lib:planning}
agent:
  tools: [all]
  script:
    - call: {request: {kind: plan, what: "first x, then y\\nlast z", why: to be done}}
    - {when: {message: approved}, done: fine}
"""
WAYS = "plan approve approval/root.1 · plan reject approval/root.1"


@pytest.mark.process
def test_viewer_of_a_plan_sees_what_a_request_asks_and_how_to_answer_it(folder: Folder) -> None:
    folder.write("demo.plan.yaml", PLAN)
    with folder.started("demo.plan.yaml") as owner:
        asked = owner.until(r" by agent/\.: ")
        said(asked.rstrip(), "agent/", WAYS)
        owner.until(r"blocked +plan/demo .* answer approval/root.1: plan: first x.*plan approve approval/root.1$")

        said_in(folder.run("get", "approvals").out)
        whole = folder.run("describe", "approval/root.1").out
        said_in(whole)
        assert f"answer    {WAYS}" in whole
        said_in(folder.run("tree").out, "approval/root.1")
        task = folder.run("describe", "task/.").out
        said_in(task, "approval/root.1")
        said_in(folder.run("describe", "agent/.").out, "approval/root.1")

        assert folder.run("approve", "approval/root.1").code == 0
        assert owner.ended() == 0
        said_in(owner.text, "approval/root.1")
        assert ", reason ," not in owner.text


@pytest.mark.process
def test_the_live_tree_shows_what_is_asked_for_and_the_command_that_answers(folder: Folder) -> None:
    folder.write("demo.plan.yaml", PLAN)
    with terminal(folder, "apply", "demo.plan.yaml") as screen:
        screen.until("approval/root.1 is pending, by agent/.: plan: first x")
        screen.until("plan reject")
        screen.until("1 approval waiting")
        assert folder.run("approve", "approval/root.1").code == 0
        assert screen.ended() == 0
