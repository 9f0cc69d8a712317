"""Hooks are asked at every point, with the right facts, and questions are cancelled when they should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.controllers.agent.arena import Arena, arena
from tests.controllers.agent.hooking.test_verdicts import run, verdicts
from tests.fakes.scripted_models import ScriptedModels

pytestmark = pytest.mark.anyio

POINTS = (
    *("on-input", "before-call", "after-call", "before-reply", "on-wake", "on-sleep", "on-child", "on-patch"),
    *("on-conflict", "on-budget", "on-end"),
)
NOTING = """
import json
import pathlib


def note(q):
    with open("asked", "a") as file:
        file.write(json.dumps(q) + "\\n")
    pathlib.Path(q["hook_event_name"]).touch()
"""
WAITS = "while [ ! -e on-sleep ]; do sleep 0.02; done"
TOUCHES = 'agent: {script: [{call: {shell: {command: "touch ran"}}}, {done: ok}]}\n'


def asked(folder: Path, point: str = "") -> list[dict[str, Any]]:
    """The questions, in order; of one point if it is named."""
    found = [json.loads(line) for line in (folder / "asked").read_text().splitlines()]
    return [one for one in found if point in ("", one["hook_event_name"])]


def hooked(on: str, more: str) -> str:
    return f'goal: the goal\nhooks: {{h: {{on: [{on}], python: "note.py:note", copy: none}}}}\n{more}'


async def test_a_turn_asks_at_each_of_its_moments_in_order(tmp_path: Path) -> None:
    (tmp_path / "note.py").write_text(NOTING)
    steps = [
        {"reply": {"text": "", "calls": [{"name": "write", "arguments": {"path": "a", "content": "x"}}]}},
        {"reply": {"text": "", "calls": [{"name": "task", "arguments": {"id": "kid", "goal": "g", "run": WAITS}}]}},
        {"reply": {"text": "I wait"}},
        {"reply": {"text": "all done"}},
    ]
    text = hooked(", ".join(POINTS), "agent: {model: test/m, tools: [write, task]}\n")
    async with arena(tmp_path, models=ScriptedModels(steps)) as here:
        assert await run(here, text) == "done"
    points = [one["hook_event_name"] for one in asked(tmp_path)]
    assert points == [
        *("on-wake", "on-input", "before-call", "after-call", "on-patch", "after-call", "on-sleep"),
        *("on-wake", "on-child", "before-reply", "on-end"),
    ]


async def test_question_holds_its_documented_fields(tmp_path: Path) -> None:
    (tmp_path / "note.py").write_text(NOTING)
    script = 'agent: {script: [{call: {shell: {command: "echo hi"}}}, {done: fine}]}\n'
    async with arena(tmp_path) as here:
        assert await run(here, hooked("on-input, before-call, after-call, before-reply, on-end", script)) == "done"
    (told,) = asked(tmp_path, "on-input")
    assert (told["version"], told["agent"], told["task"], told["prompt"]) == (1, "agent/.", "task/.", "the goal")
    assert (told["cwd"], told["turn"], told["depth"], told["state"]) == (str(tmp_path), 1, 0, None)
    (before,) = asked(tmp_path, "before-call")
    assert (before["tool_name"], before["tool_input"]) == ("shell", {"command": "echo hi"})
    (after,) = asked(tmp_path, "after-call")
    assert after["tool_response"]["text"] == "hi\n" and after["tool_use_id"] == before["tool_use_id"]
    (reply,) = asked(tmp_path, "before-reply")
    assert reply["reply"] == "fine"
    (end,) = asked(tmp_path, "on-end")
    assert end["claim"] == "done"
    assert len({one["id"] for one in asked(tmp_path)}) == len(asked(tmp_path))


async def test_a_file_that_changed_behind_the_agents_back_is_among_the_facts(tmp_path: Path) -> None:
    (tmp_path / "note.py").write_text(NOTING)
    steps = '{call: {write: {path: a, content: "one"}}}, {call: {shell: {command: "echo two > a"}}}, {done: fine}'
    async with arena(tmp_path) as here:
        assert await run(here, hooked("after-call", f"agent: {{script: [{steps}]}}\n")) == "done"
    written, changed = asked(tmp_path, "after-call")
    assert (written["files_known"], written["files_changed"]) == (["a"], {})
    assert list(changed["files_changed"]) == ["a"]


def slow(folder: Path, on: str, agent: str) -> str:
    """A plan whose hook waits until the file `go` exists."""
    (folder / "hook.sh").write_text("echo x >> asked; while [ ! -e go ]; do sleep 0.05; done; echo '{}'\n")
    return f"goal: g\nhooks: {{h: {{on: [{on}], run: [sh, hook.sh]}}}}\n{agent}"


async def begun(here: Arena, times: int = 1) -> None:
    """Return when the hook was asked this number of times."""
    file = here.folder / "asked"
    await here.until(lambda: file.exists() and file.read_text().count("x") >= times)


async def test_interrupting_message_cancels_a_call_and_the_questions_to_its_hooks(tmp_path: Path) -> None:
    agent = TOUCHES.replace("{done: ok}", "{expect: {error: Interrupted}}, {done: ok}")
    text = slow(tmp_path, "before-call", agent)
    async with arena(tmp_path) as here:
        await here.apply(text.replace("on: [before-call]", "on: [before-call], match: shell"))
        await begun(here)
        await here.tell("agent/.", "stop", "m1", "interrupt")
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done"
        assert verdicts(await here.log()) == []
    assert not (tmp_path / "ran").exists()


async def test_a_new_goal_while_the_opening_is_asked_becomes_part_of_the_turn(tmp_path: Path) -> None:
    text = slow(tmp_path, "on-input", "agent: {model: test/m, tools: []}\n")
    models = ScriptedModels([{"reply": {"text": "done"}}])
    async with arena(tmp_path, models=models) as here:
        await here.apply(text)
        await begun(here)
        await here.apply(text.replace("goal: g", "goal: another"))
        await begun(here, 2)
        (tmp_path / "go").touch()
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done"
    assert len(models.asked) == 1 and b"another" in models.asked[0].messages[-1]


async def test_pause_lets_the_asked_hook_answer_and_starts_nothing_new(tmp_path: Path) -> None:
    text = slow(tmp_path, "before-call", TOUCHES)
    async with arena(tmp_path) as here:
        await here.apply(text)
        await begun(here)
        await here.patch({"op": "add", "path": "/pause", "value": True})
        (tmp_path / "go").touch()
        await here.until_state("agent/.", "blocked")
        await here.settled()
        assert len(verdicts(await here.log())) == 1 and not (tmp_path / "ran").exists()
        await here.patch({"op": "remove", "path": "/pause"})
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
    assert (tmp_path / "ran").exists()


async def test_a_task_that_is_cancelled_stops_the_hook_that_is_asked(tmp_path: Path) -> None:
    text = slow(tmp_path, "before-call", TOUCHES)
    async with arena(tmp_path) as here:
        await here.apply(text)
        await begun(here)
        await here.patch({"op": "add", "path": "/cancel", "value": True})
        await here.until_state("task/.", "cancelled")
        await here.settled()
        assert here.work.live_count == 0
    assert not (tmp_path / "ran").exists()


async def test_an_agent_without_hooks_has_no_record_of_any(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        assert await run(here, 'goal: g\nagent: {script: [{call: {shell: {command: "true"}}}, {done: ok}]}\n') == "done"
        assert verdicts(await here.log()) == []
        assert not {"fired", "sent_back", "nudges", "spoken"} & here.get("agent/.").status.keys()


async def test_time_of_a_hook_counts_as_the_agents_time(tmp_path: Path) -> None:
    (tmp_path / "hook.sh").write_text("sleep 0.3\n")
    text = "goal: g\nhooks: {h: {on: [on-wake], run: [sh, hook.sh]}}\nagent: {script: [{done: ok}]}\n"
    async with arena(tmp_path) as here:
        assert await run(here, text) == "done"
        assert here.get("agent/.").status["used"]["time_s"] >= 0.3


async def test_approval_of_a_request_is_a_patch_and_an_answer_to_a_question_is_not(tmp_path: Path) -> None:
    text = """
        goal: g
        hooks:
          no-patch: {on: on-patch, match: answer, copy: none, rule: [{deny: "nothing more is granted"}]}
        agent:
          script:
            - task:
                id: kid
                goal: a
                budget: {turns: 5}
                script:
                  - call: {request: {kind: budget, what: {turns: 5}, why: it is long}}
                  - {when: {message: make do}, done: x}
            - when: {message: it is long}
              call: {answer: {to: kid.1, answer: " Yes "}}
            - expect: {error: Denied}
            - call: {answer: {to: kid.1, answer: "no", why: make do}}
            - when: {children: done}
              done: x
    """
    async with arena(tmp_path) as here:
        await here.apply(text)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        assert here.get("task/kid").spec["budget"]["turns"] == 5
