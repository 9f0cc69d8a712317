"""Hooks that think, with the real command and a model over HTTP: kill -9 in the middle of a question, and a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import golden_text
from tests.e2e.folder import Folder
from tests.e2e.team import call
from tests.e2e.test_chat import chat
from tests.fakes.model_server.running import StartedServer, started

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

Step = dict[str, Any]
WRITE = {"calls": [call("write", path="a.txt", content="hello")]}


def steps(*guard: Step) -> list[Step]:
    worker: list[Step] = [{"reply": WRITE}, {"reply": {"text": "it is written"}}]
    return [*({"model": "guard", **each} for each in guard), *({"model": "worker", **each} for each in worker)]


def plan(folder: Folder, server: StartedServer, more: str = "") -> Path:
    text = f"""\
plan: demo
goal: write the file
agent: {{model: ollama/worker, tools: [read, write]}}
hooks:
  careful:
    on: [before-call]
    match: write(*)
    agent: {{model: ollama/guard, prompt: watch the files}}
{more}
models: {{ollama: {{url: {server.url}}}}}
"""
    return folder.write("demo.plan.yaml", text)


def until(holds: Any) -> None:
    """Returns when it holds; the test's timeout is the bound."""
    while not holds():
        pass


def fired(folder: Folder) -> list[dict[str, Any]]:
    every = [one for record in folder.records() for one in (record, *record.get("also", ()))]
    return [one["verdict"] for step in every if step["type"] == "hook.fired" for one in step["data"]["fired"]]


def asked_of(server: StartedServer, model: str) -> int:
    return sum(body["model"] == model for body in server.asked)


def test_an_owner_that_is_killed_while_a_hook_thinks_leaves_one_verdict(folder: Folder) -> None:
    slow = {"delay": 30, "reply": {"text": "ALLOW"}}
    allow = {"reply": {"text": "ALLOW, but be quick"}}
    with started(steps(slow, allow), folder.path) as server:
        file = plan(folder, server)
        with folder.killed(file.name):
            until(lambda: asked_of(server, "guard") == 1)
        assert not (folder.path / "a.txt").exists()
        said = folder.run("apply", "--yes", file.name)
    assert said.code == 0, said.text
    assert (folder.path / "a.txt").read_text() == "hello"
    assert fired(folder) == [{"comment": "but be quick"}]
    told = "\n".join(str(message.get("content")) for message in server.asked[-1]["messages"])
    assert "but be quick" in told, "the agent was told what its hook says to the call"
    assert folder.run("replay", "--tree").code == 0


def test_operator_talks_with_the_agent_behind_a_hook_and_with_the_watched_one(folder: Folder) -> None:
    plain = {"when": {"last": "what do you watch"}, "reply": {"text": "The files."}}
    waits = [
        {"model": "worker", "when": {"last": "Start your"}, "reply": {"text": "I wait.", "calls": [call("plan_view")]}},
        {"model": "worker", "when": {"after": "plan_view"}, "reply": {"text": "I have looked."}},
    ]
    with started([*waits, *steps(plain)[:1]], folder.path) as server:
        file = plan(folder, server)
        assert folder.run("apply", "--yes", file.name, "--detach").code == 0
        try:
            said = chat(folder, "/hooks\n/talkwith ~careful\nwhat do you watch?\n/talkwith .\n")
        finally:
            folder.run("down")
    lines = said.out.splitlines()
    assert "careful" in lines[0] and "~careful" in lines[0]
    golden_text.said(lines[1:])
