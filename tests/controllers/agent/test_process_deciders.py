"""Programs and Python functions as deciders, and invalid output."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from planloop.controllers.agent.deciders import port
from planloop.controllers.agent.deciders.program import reply_from_output
from planloop.owner.replay import history
from planloop.schemas import limits
from planloop.schemas.objects.agent import DeciderSpec
from tests.controllers.agent.arena import Arena, arena

pytestmark = pytest.mark.anyio

PROGRAM = """
import json, sys
turn = json.loads(sys.stdin.readline())
step = turn["memory"] or 0
print("thinking about", turn["goal"])
if step == 0:
    print(json.dumps({"say": "hello"}))
    print(json.dumps({"call": {"write": {"path": "out.txt", "content": turn["goal"]}}}))
    print(json.dumps({"memory": 1}))
else:
    print(json.dumps({"done": turn["results"][0]["result"]["state"]}))
"""


async def ended(here: Arena, task: str = "task/.") -> str:
    await here.until_state(task, "done", "failed")
    await here.settled()
    return here.state(task)


async def test_program_gets_a_turn_as_a_line_and_answers_with_lines(tmp_path: Path) -> None:
    (tmp_path / "mind.py").write_text(PROGRAM)
    async with arena(tmp_path) as here:
        await here.apply("goal: a program\nagent: {tools: [write], run: [python3, mind.py]}")
        assert await ended(here) == "done"
        assert here.read("out.txt") == "a program"
        assert here.get("task/.").status["result"]["text"] == "Succeeded"
        assert here.get("agent/.").status["used"]["turns"] == 2


async def test_reply_is_in_the_open_turn_of_its_record(tmp_path: Path) -> None:
    (tmp_path / "mind.py").write_text(PROGRAM.replace('"write"', '"unheard-of"'))
    async with arena(tmp_path) as here:
        await here.apply("goal: a program\nagent: {run: [python3, mind.py]}")
        assert await ended(here) == "done"
        drafts = [one.draft for one in await here.store.log(0, limits.HISTORY_SHOWN_MAX)]
        replied = [one for one in drafts if any(said.type == "model.replied" for said in one.entries)]
        opened = [history.status_in(one, "agent/.")["open"] for one in replied]
        assert [bool(one and one["reply"]) for one in opened] == [True, True]


async def test_program_that_dies_fails_with_its_last_words(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply('agent: {run: [sh, -c, "echo no idea >&2; exit 7"]}')
        assert await ended(here) == "failed"
        said = here.get("agent/.").status["claim"]["result"][0]
        assert "exited with 7" in said and "no idea" in said


async def test_missing_program_fails_with_a_message(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("agent: {run: [no-such-program]}")
        assert await ended(here) == "failed"
        assert "no-such-program" in here.get("agent/.").status["claim"]["result"][0]


async def test_a_python_function_runs_in_its_own_process_and_keeps_its_memory(tmp_path: Path) -> None:
    (tmp_path / "minds.py").write_text(
        "import os\n"
        "def step(turn):\n"
        "    print('a remark')\n"
        "    seen = (turn['memory'] or []) + [os.getpid()]\n"
        "    if len(seen) < 3:\n"
        "        return ['again', {'again': True}, {'memory': seen}]\n"
        "    return {'done': len(set(seen))}\n"
    )
    async with arena(tmp_path) as here:
        await here.apply('agent: {python: "minds.py:step"}')
        assert await ended(here) == "done"
        assert here.get("task/.").status["result"]["text"] == 3


async def test_python_decider_can_be_beside_the_plan_while_its_task_works_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "minds.py").write_text(
        "def step(turn):\n"
        "    if turn['results']:\n"
        "        return {'done': None}\n"
        "    return {'call': {'write': {'path': 'here.txt', 'content': 'x'}}}\n"
    )
    async with arena(tmp_path) as here:
        await here.apply('cwd: deep/er\nagent: {tools: [write], python: "minds.py:step"}')
        assert await ended(here) == "done"
        assert here.read("deep/er/here.txt") == "x"


@pytest.mark.parametrize("target", ["absent.py:step", "minds.py:absent"])
async def test_missing_python_decider_fails_with_a_message(tmp_path: Path, target: str) -> None:
    (tmp_path / "minds.py").write_text("")
    async with arena(tmp_path) as here:
        await here.apply(f'agent: {{python: "{target}"}}')
        assert await ended(here) == "failed"
        assert here.get("agent/.").status["claim"]["result"][0]


async def test_a_model_that_cannot_be_asked_blocks_with_a_way_out(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("agent: {model: ollama/qwen3}")
        await here.until_state("agent/.", "blocked")
        await here.settled()
        assert here.get("agent/.").status["conditions"]["NoModel"]["unblocks"]


def test_lines_that_are_not_json_are_remarks() -> None:
    reply = reply_from_output('starting\n{"say": "hi"}\n\n{"sleep": "2s"}\nbye', memory=1)
    assert (reply.text, reply.sleep_s, reply.memory, reply.calls) == ("hi", 2.0, 1, ())


def test_contradictory_action_becomes_a_call_with_an_error() -> None:
    for action in (
        {"call": {"read": {"path": "a"}}, "with": {"path": "b"}},
        {"say": {"to": "a", "text": "b"}, "to": "c"},
    ):
        (call,) = port.reply_from_actions([action]).calls
        assert call.fault and (call.tool, call.arguments) == ("?", action)


def test_broken_json_and_unknown_actions_become_calls_with_an_error() -> None:
    reply = reply_from_output('{"say": \n{"jump": 3}\n{"say": 1, "done": 2}', memory=None)
    assert len(reply.calls) == 3 and all(call.fault for call in reply.calls)


CLAIMER = """
import json, sys
turn = json.loads(sys.stdin.readline())
print(json.dumps({"done": turn["turn"]}))
"""
REPEATER = """
import json, sys
turn = json.loads(sys.stdin.readline())
print(json.dumps({"call": {"plan_view": {}}}))
"""


@pytest.mark.process
async def test_decider_that_only_ever_claims_to_be_done_fails_in_the_end(tmp_path: Path) -> None:
    (tmp_path / "mind.py").write_text(CLAIMER)
    async with arena(tmp_path) as here:
        await here.apply("agent: {run: [python3, mind.py]}\nacceptance: [{require-file: never}]")
        assert await ended(here) == "failed"
        assert here.get("agent/.").status["claims"] == limits.CLAIMS_REJECTED_MAX


async def test_decider_that_repeats_its_turn_is_asked_less_and_less_often(tmp_path: Path) -> None:
    (tmp_path / "mind.py").write_text(REPEATER)
    async with arena(tmp_path) as here:
        await here.apply("agent: {run: [python3, mind.py]}")
        await here.until(lambda: bool(here.get("agent/.").status.get("wake_at")))
        status = here.get("agent/.").status
        assert status["turn"] > limits.SAME_CALL_MAX
        assert status["past"][0]["tool"] == "plan_view"


@pytest.mark.parametrize("value", ["1e999", "NaN", '"\\ud800"', "[" * 500 + "]" * 500, "[" * 100_000])
def test_unstorable_reply_becomes_a_call_with_an_error(value: str) -> None:
    reply = reply_from_output(f'{{"done": {value}}}', memory=None)
    assert len(reply.calls) == 1 and reply.calls[0].fault


@pytest.mark.parametrize(("given", "seconds"), [("2s", 2), ("1m30s", 90), (1.5, 1.5), ("250ms", 0.25), ("1h", 3600)])
def test_durations_are_read(given: object, seconds: float) -> None:
    assert port.action_seconds(given) == seconds


@pytest.mark.parametrize("given", ["soon", -1, True, None, "2 parsecs", "", 1e300, "9" * 400 + "d"])
def test_invalid_duration_is_rejected(given: object) -> None:
    assert port.action_seconds(given) is None


def test_parallel_marks_its_calls() -> None:
    reply = port.reply_from_actions(
        [{"parallel": [{"call": {"shell": {"command": "a"}}}, {"call": {"shell": {"command": "b"}}}]}]
    )
    assert [call.is_parallel for call in reply.calls] == [True, True]


def test_every_kind_of_decider_has_traits() -> None:
    assert set(port.TRAITS_BY_KIND) == set(get_args(DeciderSpec))
