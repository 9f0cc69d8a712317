"""Locks as a person sees them, with the real command: who holds, who waits, why, and taking one from its holder."""

from __future__ import annotations

import re

import pytest

from tests import golden_text
from tests.e2e.folder import Folder
from tests.product import CommandExit as Exit

pytestmark = pytest.mark.process

PLAN = """\
plan: demo
tasks:
  docs:
    goal: update the examples
    agent:
      script:
        - call: {lock: {paths: ["src/**"], reason: renames everywhere}}
        - when: {message: go on}
          call: {write: {path: src/app.py, content: "mine\\n"}}
        - expect: {error: LockLost}
        - call: {write: {path: src/other.py, content: "after all\\n"}}
        - done: x
  backend:
    goal: the router
    needs: [ready]
    agent: {script: [{call: {write: {path: src/app.py, content: "router\\n"}}}, {done: y}]}
  build:
    goal: build it
    needs: [ready]
    locks: [src, {path: docs, mode: read}]
    run: "true"
  ready:
    run: "until ls .plan/demo/events.jsonl && grep -q lock.granted .plan/demo/events.jsonl; do sleep 0.05; done"
"""


def test_holder_and_waiters_are_shown_and_an_operator_breaks_the_lock(folder: Folder) -> None:
    folder.write("task.yaml", PLAN)
    with folder.started("task.yaml") as owner:
        owner.until("conflict/1 +over src/app.py")  # The agent has waited for some seconds.
        assert re.search("blocked +task/build", owner.text)
        listed = folder.run("get", "locks").out
        assert "src/**" in listed and "agent/docs" in listed and "renames everywhere" in listed
        held, *_ = folder.json("get", "lock/src/**")["status"]["holders"].values()
        assert (held["owner"], held["mode"], held["kept"]) == ("agent/docs", "write", "asked")

        task = folder.run("describe", "build").out
        golden_text.said_in(task, "agent/docs")
        golden_text.said_in(task, "lock/src/**")
        agent = folder.run("describe", "backend").out
        golden_text.said_in(agent, "agent/backend", "agent/docs")
        assert "agent/docs" in agent
        golden_text.said_in(agent, "lock/src/**")
        tree = folder.run("tree").out
        assert re.search(r"backend +running .* lock src/\*\* is held by agent/docs .* conflict/1 is open", tree)
        assert "agent/backend" not in tree
        lock = folder.run("describe", "lock/src/**").out
        golden_text.said_in(lock, "agent/docs", fence=f"fence {held['fence']}")

        said = folder.run("unlock", "src/**", "--reason", "the router comes first")
        assert said.code == 0
        golden_text.said(said.out.split(",")[0], "lock/src/**", "agent/docs")
        assert folder.run("unlock", "src/**").code == 6
        no_lock = folder.run("unlock", "agent/docs")
        assert no_lock.code == 2
        golden_text.said(no_lock.err.splitlines()[0], "agent/docs")
        folder.run("send", "docs", "go on")
        assert owner.ended() == 0
    golden_text.said_in(owner.text, "agent/docs")
    assert folder.states()["task/docs"] == "done"
    assert (folder.path / "src/app.py").read_text() == "router\n"
    assert {one["address"]: one["status"].get("holders") for one in folder.json("get", "locks")} == {
        "lock/docs": {},
        "lock/src": {},
    }
    broken = [one for one in folder.records() if one["type"] == "lock.fenced"]
    assert [(one["actor"], one["data"]["reason"]) for one in broken] == [("human:cli", "the router comes first")]
    told = [one for one in folder.records() if "An operator took lock/src/** away from you" in str(one["changes"])]
    assert told


def test_agent_with_a_shell_cannot_take_a_lock_as_an_operator(folder: Folder) -> None:
    folder.write(
        "task.yaml",
        """\
plan: demo
tasks:
  a: {locks: [x], agent: {script: [{when: {message: go}, done: x}]}}
  b:
    agent:
      tools: [all]
      script:
        - call: {shell: {command: "plan unlock lock/x --plan demo; plan send a go --plan demo; true"}}
        - done: x
""",
    )
    with folder.started("task.yaml") as owner:
        owner.until("done +task/b")
        assert folder.json("get", "lock/x")["status"]["holders"]
        folder.send("a", "go")
        assert owner.ended() == 0
    assert not [one for one in folder.records() if one["type"] == "lock.fenced"]


def test_change_of_locked_files_by_a_command_is_shown_to_watchers_of_the_run(folder: Folder) -> None:
    folder.write(
        "task.yaml",
        """\
plan: demo
tasks:
  a: {goal: a, locks: [x], agent: {script: [{when: {message: go}, done: x}]}}
  b:
    goal: b
    agent: {tools: [all], script: [{when: {message: go}, call: {shell: {command: echo mine > x}}}, {done: x}]}
""",
    )
    with folder.started("task.yaml") as owner:
        owner.until("running +task/a")
        folder.send("b", "go")
        owner.until("violation +agent/b  shell changed x, which task/a holds")
        golden_text.said_in(folder.run("events", "--type", "call.settled").out, "task/a")
        golden_text.said_in(folder.run("describe", "agent/b").out)
        folder.send("a", "go")
        assert owner.ended() == 0, owner.text


def test_breaking_a_commands_lock_reports_that_the_command_continues(folder: Folder) -> None:
    folder.write("task.yaml", "plan: demo\ntasks: {x: {locks: [out], run: 'until test -e go; do sleep 0.05; done'}}\n")
    with folder.started("task.yaml") as owner:
        owner.until("its command is running")
        for words, code, cure in (
            (("send", "lock/out", "hello"), Exit.NOT_FOUND, "plan get agents"),
            (("logs", "lock/out"), Exit.USAGE, "plan describe lock/out"),
            (("cancel", "lock/out"), Exit.USAGE, "plan get tasks"),
        ):
            refused = folder.run(*words)
            assert (refused.code, cure in refused.err) == (code, True), refused
        said = folder.run("unlock", "out").out
        golden_text.said_in(said, "lock/out", "task/x")
        golden_text.said_in(said, "task/x")
        lost = folder.run("describe", "task/x").out
        golden_text.said_in(lost, "lock/out", "human:cli")
        folder.write("go", "")
        assert owner.ended() == 0, owner.text
