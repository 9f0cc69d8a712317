"""Files that a plan refers to, edited while it runs and without a save of the plan file: used from the next turn on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.folder import Folder
from tests.fakes.model_server.running import StartedServer, started

pytestmark = pytest.mark.process

WAIT = "until [ -e go ]; do sleep 0.05; done"


def thinking(folder: Folder, server: StartedServer, more: str = "") -> None:
    """A plan whose one agent thinks, with a prompt in a file and itself in a bundle; its first call waits for `go`."""
    folder.write("prompt.md", "Speak like a pirate.\n")
    folder.write("team.yaml", "agents:\n  worker: {model: m, prompt: 'file:prompt.md', tools: [shell]}\n")
    models = f"models: {{m: {{url: {server.url}, window: 32000, output: 1000}}}}\n"
    folder.write("hot.plan.yaml", f"plan: hot\nuse: [team.yaml]\n{models}{more}tasks: {{t: {{agent: worker}}}}\n")


STEPS: list[dict[str, Any]] = [
    {"reply": {"calls": [{"name": "shell", "arguments": {"command": WAIT}}]}},
    {"reply": {"text": "all done"}, "times": "always"},
]


def systems(server: StartedServer) -> list[str]:
    """The system message of each request."""
    return [str(body["messages"][0]["content"]) for body in server.asked]


def began(folder: Folder) -> None:
    """Returns when the agent's first call runs; the test's timeout is the bound."""
    while not any(call["status"].get("state") == "Started" for call in folder.json("get", "calls")):
        pass


def test_an_edited_prompt_file_is_what_the_model_reads_at_its_next_turn(folder: Folder) -> None:
    with started(STEPS, folder.path) as server:
        thinking(folder, server)
        with folder.started("--yes", "hot.plan.yaml") as owner:
            owner.until("running .*task/t")
            folder.write("prompt.md", "Speak like a poet.\n")
            owner.until("~ agent/t prompt ")
            folder.write("go", "")
            assert owner.ended() == 0

        first, second = systems(server)[0], systems(server)[-1]
    assert "pirate" in first
    assert "poet" in second and "pirate" not in second


def test_an_edited_bundle_gives_an_agent_its_tools_at_its_next_turn(folder: Folder) -> None:
    with started(STEPS, folder.path) as server:
        thinking(folder, server)
        with folder.started("--yes", "hot.plan.yaml") as owner:
            owner.until("running .*task/t")
            bundle = (folder.path / "team.yaml").read_text()
            folder.write("team.yaml", bundle.replace("[shell]", "[shell, read]"))
            owner.until("~ agent/t tools ")
            folder.write("go", "")
            assert owner.ended() == 0

        tools = [{tool["function"]["name"] for tool in body["tools"]} for body in server.asked]
    assert "read" not in tools[0]
    assert "read" in tools[-1]


def test_bundle_with_an_error_changes_nothing_until_it_is_fixed(folder: Folder) -> None:
    with started(STEPS, folder.path) as server:
        thinking(folder, server)
        with folder.started("--yes", "hot.plan.yaml") as owner:
            owner.until("running .*task/t")
            bundle = (folder.path / "team.yaml").read_text()
            folder.write("team.yaml", "agents: {worker: {modle: m}}\n")
            owner.until("P0201")
            assert folder.json("get", "agent/t")["spec"]["prompt"] == "Speak like a pirate."
            folder.write("team.yaml", bundle.replace("[shell]", "[shell, read]"))
            owner.until("~ agent/t tools ")
            folder.write("go", "")
            assert owner.ended() == 0


MIND = """
def step(turn):
    if turn["turn"] == 1:
        return {"call": {"shell": {"command": "%s"}}}
    return {"done": "%s"}
"""


def test_edited_python_decider_takes_the_next_turn_even_within_the_same_second(folder: Folder) -> None:
    folder.write("mind.py", MIND % (WAIT, "aaa"))
    folder.write("hot.plan.yaml", "plan: hot\ntasks: {t: {agent: {python: 'mind.py:step', tools: [shell]}}}\n")
    with folder.started("--yes", "hot.plan.yaml") as owner:
        owner.until("running .*task/t")
        began(folder)
        folder.write("mind.py", MIND % (WAIT, "bbb"))
        folder.write("go", "")
        assert owner.ended() == 0

    assert folder.json("get", "task/t")["status"]["result"]["text"] == "bbb"
    assert not (folder.path / "__pycache__").exists()


HOOK = """
def look(question):
    return {"comment": "%s"}
"""


def test_edited_hooks_are_asked_in_their_new_form(folder: Folder) -> None:
    steps = [*STEPS[:1], {"reply": {"calls": [{"name": "shell", "arguments": {"command": "true"}}]}}, STEPS[1]]
    with started(steps, folder.path) as server:
        folder.write("look.py", HOOK % "python one")
        rules = "hooks:\n  ruled: {on: [after-call], rule: [{when: {call: shell}, comment: rule one}]}\n"
        folder.write("rules.yaml", rules)
        more = "hooks: {seen: {on: [after-call], python: 'look.py:look'}, told: {extends: ruled}}\n"
        thinking(folder, server, more)
        plan = folder.path / "hot.plan.yaml"
        plan.write_text(plan.read_text().replace("[team.yaml]", "[team.yaml, rules.yaml]"))
        with folder.started("--yes", "hot.plan.yaml") as owner:
            owner.until("running .*task/t")
            began(folder)
            folder.write("rules.yaml", rules.replace("one", "two"))
            owner.until("through a file that it uses")
            folder.write("look.py", HOOK % "python two")
            folder.write("go", "")
            assert owner.ended() == 0

        last = json.dumps(server.asked[-1]["messages"])
    assert "rule two" in last and "python two" in last


def test_a_prompt_that_an_editor_empties_before_it_writes_is_never_empty(folder: Folder) -> None:
    with started(STEPS, folder.path) as server:
        thinking(folder, server)
        with folder.started("--yes", "hot.plan.yaml") as owner:
            owner.until("running .*task/t")
            prompt: Path = folder.path / "prompt.md"
            with prompt.open("w") as file:
                assert folder.json("get", "agent/t")["spec"]["prompt"] == "Speak like a pirate."
                file.write("Speak like a poet.\n")
            owner.until("~ agent/t prompt ")
            folder.write("go", "")
            assert owner.ended() == 0

        puts = [change for record in folder.records() for change in record["changes"] if change.get("put") == "agent/t"]
    assert [change["spec"]["prompt"] for change in puts] == ["Speak like a pirate.", "Speak like a poet."]
