"""Mixins, an outside agent and a search, with the real command, as a person would have them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.e2e.folder import Folder

pytestmark = pytest.mark.process

AGENT = Path(__file__).parents[1] / "fakes" / "cli_agent.py"


def test_an_outside_agent_does_a_task_is_rejected_once_and_its_output_is_in_the_logs(folder: Folder) -> None:
    run = json.dumps([sys.executable, str(AGENT), "--print", "lines"])
    check = "test -e a.txt && { test -e twice || { touch twice; echo look again; exit 1; }; }"
    folder.write(
        "demo.plan.yaml",
        f"""plan: demo
goal: "WRITE a.txt hello"
agent:
  outside: {{run: {run}, output: json-lines}}
  mixins: [lib:trace]
acceptance: [{{sh: {json.dumps(check)}}}]
budget: {{turns: 5}}
""",
    )
    said = folder.run("apply", "demo.plan.yaml", "--yes")
    assert said.code == 0, said.text
    prompts = [json.loads(line)["prompt"] for line in (folder.path / "prompts").read_text().splitlines()]
    assert len(prompts) == 2 and "look again" in prompts[1]
    assert "lines in s1" in folder.run("logs", "task/.").out


def test_events_say_how_long_a_call_took_and_that_it_was_tried_again(folder: Folder) -> None:
    folder.write(
        "demo.plan.yaml",
        """plan: demo
goal: x
agent:
  tools: [shell]
  mixins: [lib:trace, {lib:retry: {backoff: 1ms}}]
  script: [{call: {shell: {command: "true"}}}, {done: so}]
""",
    )
    assert folder.run("apply", "demo.plan.yaml", "--yes").code == 0
    events = folder.run("events").out
    assert "shell ok, " in events


def test_why_names_the_mixin_that_denies(folder: Folder) -> None:
    folder.write(
        "demo.plan.yaml",
        """plan: demo
goal: x
agent: {extends: "lib:child", mixins: ["lib:denylist"], tools: [shell], script: [{done: so}]}
""",
    )
    assert folder.run("apply", "demo.plan.yaml", "--yes").code == 0
    assert "lib:mixins/denylist.yaml:3" in folder.run("explain", "--why", "task/./agent.deny").out
