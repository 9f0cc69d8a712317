"""`plan replay --tree` of agents whose minds are programs, functions and outside agents, and of programs as steps."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from planloop.client import plan_paths
from planloop.owner import build
from planloop.owner.replay import play
from planloop.owner.replay.play import ReplayOutcome
from tests.e2e.folder import Folder

pytestmark = pytest.mark.process

OUTSIDE = Path(__file__).parents[1] / "fakes" / "cli_agent.py"
PROGRAM = """\
import json, sys
turn = json.loads(sys.stdin.readline())
if turn["turn"] == 1:
    print(json.dumps({"call": {"write": {"path": "made", "content": "one"}}}))
else:
    print(json.dumps({"done": "it is written"}))
"""
FUNCTION = """\
def step(turn):
    return {"call": {"list": {}}} if turn["turn"] == 1 else {"done": "listed"}
"""
MINDS = {
    "program": f"{{tools: [write], run: [{sys.executable}, mind.py]}}",
    "python": '{tools: [list], python: "function.py:step"}',
    "python that is refused": '{tools: [read], python: "function.py:step"}',
    "outside": f"{{outside: {{run: [{sys.executable}, {OUTSIDE}, --print, lines], output: json-lines}}}}",
}


def _played(folder: Folder, agent: str, more: str = "") -> ReplayOutcome:
    folder.write("mind.py", PROGRAM)
    folder.write("function.py", FUNCTION)
    folder.write("demo.plan.yaml", f"plan: demo\ngoal: try it\nagent: {agent}\n{more}")
    said = folder.run("apply", "demo.plan.yaml", "--yes")
    assert said.code == 0, said.text
    for name in ("mind.py", "function.py"):
        (folder.path / name).unlink()
    return play.replay_plan(build.replay_setup(plan_paths.find_plan(None, folder.path)))


@pytest.mark.parametrize("name", MINDS)
def test_decider_process_replies_as_recorded(folder: Folder, name: str) -> None:
    found = _played(folder, MINDS[name])

    assert (found.verdict, found.notes) == ("same", ()), (found.why, found.at, found.details, found.notes)


STEP = """\
mixins:
  watched:
    {when}:
      - {{run: "cat > /dev/null; echo '{answer}'"}}
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_program_step_is_not_run_again_and_the_replay_reports_it(folder: Folder, when: str) -> None:
    agent = "{tools: [shell], mixins: [watched], script: [{call: {shell: {command: 'echo hello'}}}, {done: so}]}"

    found = _played(folder, agent, STEP.format(when=when, answer=json.dumps({})))

    assert (found.verdict, "the log does not have the result" in found.why) == ("inconclusive", True), found
