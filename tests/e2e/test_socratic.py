"""The Socratic example, as a person sees it: `endo` and then `meta`, with scripts and with models."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from planloop.schemas.objects.plan import primary_agent
from tests import golden_text
from tests.e2e.folder import Folder
from tests.e2e.team import call
from tests.e2e.test_chat import chat
from tests.e2e.test_terminal import terminal
from tests.fakes.model_server.running import started

EXAMPLE = Path(__file__).parents[2] / "plans/examples/socratic"
LESSON = (
    "I want to understand recursion",
    "a function that calls itself",
    "to take lists apart",
    "no, for the empty list it just answers",
    "what have we learnt?",
)
SAID = [
    "Explain recursion to my pupil. They know nothing about it, and they are listening now.",
    "A function that calls itself. I see. And why would you do that?",
    "But what happens with the empty list? Does it go on for ever?",
    "So there is a case that does not call again, and it is what all others lead to. Now I understand.",
    "You have just explained recursion, base case and all. I only made you be asked.",
]

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]


@contextmanager
def running(folder: Folder, name: str, more: str = "") -> Iterator[Path]:
    """The example in the background."""
    plan = Path(shutil.copy(EXAMPLE / name, folder.path))
    if more:
        plan.write_text(plan.read_text() + more)
    said = folder.run("apply", "--yes", plan.name, "--detach")
    assert said.code == 0, said.text
    try:
        yield plan
    finally:
        folder.run("down")


def primary(folder: Folder) -> str:
    (plan,) = folder.json("get", "plans")
    return primary_agent(plan["status"])


def states(folder: Folder) -> dict[str, str]:
    return {agent["address"]: agent["status"].get("state", "") for agent in folder.json("get", "agents")}


def test_pupil_talks_with_the_operator_while_the_teacher_listens_and_returns(folder: Folder) -> None:
    with running(folder, "socratic.plan.yaml"):
        said = chat(folder, "\n".join((*LESSON, "")))
        assert said.out.splitlines() == SAID, said.err
        assert said.err.count("now talking to agent/pupil") == said.err.count("now talking to agent/.") == 1
        assert folder.states()["task/."] == "done"
    steps_ = [one for record in folder.records() for one in (record, *record.get("also", ()))]
    fired = [one for step in steps_ if step["type"] == "hook.fired" for one in step["data"]["fired"]]
    verdicts = [one["verdict"] for one in fired if one["point"] == "before-reply"]
    assert [one.get("decision", "allow") for one in verdicts] == ["allow", "deny", "allow"], "the rest was meta's"
    assert folder.run("replay", "--tree").code == 0


def test_the_same_lesson_over_many_conversations_and_a_crash(folder: Folder) -> None:
    out = []
    with running(folder, "socratic.plan.yaml"):
        for line in LESSON[:2]:
            out += chat(folder, f"{line}\n").out.splitlines()
        assert primary(folder) == "agent/pupil"
    plan = "socratic.plan.yaml"
    with folder.killed(plan):  # As if the power went.
        out += _when_up(folder, LESSON[2])
    assert folder.run("apply", plan, "--detach").code == 0
    try:
        for line in LESSON[3:]:
            out += chat(folder, f"{line}\n").out.splitlines()
    finally:
        folder.run("down")
    assert out == SAID


def _when_up(folder: Folder, line: str) -> list[str]:
    """What is answered to `line` by an owner that has only just been started."""
    while (said := chat(folder, f"{line}\n")).code == 6:
        pass
    return said.out.splitlines()


def test_an_open_chat_follows_the_session_and_talkwith_moves_it(folder: Folder) -> None:
    with running(folder, "socratic.plan.yaml"), terminal(folder, "chat") as live:
        live.until("socratic > ")
        live.press(f"{LESSON[0]}\r")
        live.until("now talking to agent/pupil")
        live.until("socratic pupil> ")
        live.press("/hooks\r")
        live.until("by-root")
        live.press("/talkwith .\r")
        live.until("now talking to agent/.")
        assert primary(folder) == "agent/."
        live.shown = ""  # The first "now talking to agent/pupil" is still in it.
        live.press("/talkwith pupil\r")
        live.until("now talking to agent/pupil")
        assert primary(folder) == "agent/pupil"
        live.press("/quit\r")


def test_named_agent_gets_the_message_wherever_the_session_is(folder: Folder) -> None:
    with running(folder, "socratic.plan.yaml"):
        chat(folder, f"{LESSON[0]}\n")
        said = chat(folder, "/agents\n", ".")
        assert "* .  " in said.out and primary(folder) == "agent/pupil"


def test_models_teach_in_the_same_way(folder: Folder) -> None:
    with started(steps(), folder.path) as server:
        with running(folder, "with-models.plan.yaml", f"models: {{ollama: {{url: {server.url}}}}}\n"):
            while primary(folder) != "agent/pupil" or states(folder).get("agent/pupil") != "asleep":
                pass
            said = chat(folder, "\n".join((LESSON[1], LESSON[4], "")))
            assert said.code == 0, said.err
            assert said.out.splitlines() == [
                "And how does it ever end?",
                "You have found the base case by yourself.",
            ], said.err
            assert primary(folder) == "agent/."
            assert folder.states() == {"task/.": "running", "task/pupil": "running"}, "talking ends no task"
        assert server.stop() == 0, server.left
    again = folder.run("replay", "--tree")
    assert again.code == 0, again.text
    told = "\n".join(str(message.get("content")) for body in server.asked for message in body["messages"])
    assert "you take that on trust" in told, "the pupil was told why its answer came back"
    golden_text.said_in(told)


def steps() -> list[dict[str, Any]]:
    """What the models say: the teacher at first and as a hook, the pupil in between."""
    top, low = {"system": "You teach by the Socratic method"}, {"system": "You know nothing about"}
    make = call("task", id="pupil", agent="pupil", goal="understand what recursion is")
    weak, good = "I see, I believe you.", "And how does it ever end?"
    return [
        {"when": top | {"last": "Start your task"}, "reply": {"calls": [make, call("endo", subagent="pupil")]}},
        {"when": top | {"after": "endo"}, "reply": {"text": "I listen."}, "times": "always"},
        {"when": low | {"last": "Start your task"}, "reply": {"text": "What is recursion?"}, "delay": 0.5},
        {"when": low | {"last": LESSON[1]}, "reply": {"text": weak}},
        {"when": top | {"last": weak}, "reply": {"text": "DENY: you take that on trust. Ask how it ends."}},
        {"when": low | {"last": "sent back"}, "reply": {"text": good}},
        {"when": top | {"last": good}, "reply": {"calls": [call("meta")]}},
        {"when": top | {"last": "before-reply"}, "reply": {"text": "ALLOW"}, "times": "always"},
        {"when": top | {"last": "on-input"}, "reply": {"text": "ALLOW"}, "times": "always"},
        {"when": top | {"after": "meta"}, "reply": {"text": "I am back."}},
        {"when": top | {"last": LESSON[4]}, "reply": {"text": "You have found the base case by yourself."}},
    ]
