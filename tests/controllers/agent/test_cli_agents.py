"""CLI agents as deciders: a real small program in a real process, within the limits of every decider."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from planloop.controllers.agent.deciders import program
from planloop.schemas.objects.agent import CliAgentSpec
from tests.controllers.agent.arena import Arena, arena
from tests.controllers.agent.mortal import lived
from tests.controllers.task.harness import is_alive
from tests.product import JsonObject

pytestmark = pytest.mark.anyio

PROGRAM = Path(__file__).parents[2] / "fakes" / "cli_agent.py"


def plan(goal: str, *arguments: str, shape: str = "", more: str = "") -> str:
    run = json.dumps([sys.executable, str(PROGRAM), *arguments])
    return f"goal: {json.dumps(goal)}\nagent:\n  outside: {{run: {run}{', ' if shape else ''}{shape}}}\n{more}"


async def run(here: Arena, text: str) -> None:
    await here.apply(text)
    await here.until_state("task/.", "done", "failed")
    await here.settled()


def prompts(folder: Path) -> list[JsonObject]:
    return [json.loads(line) for line in (folder / "prompts").read_text().splitlines()]


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        ((), ""),
        ((), "prompt: argument"),
        (("--print", "lines"), "output: json-lines"),
        (("--print", "lines"), "output: json-lines, field: /result, prompt: argument"),
        (("--print", "json"), "output: json"),
    ],
)
async def test_output_of_a_cli_agent_is_its_claim_and_the_checks_pass(
    tmp_path: Path, arguments: tuple[str, ...], shape: str
) -> None:
    async with arena(tmp_path) as here:
        more = "acceptance: [{contains: {path: a.txt, text: hello}}]"
        await run(here, plan("WRITE a.txt hello\nSAY all written", *arguments, shape=shape, more=more))
        assert here.state("task/.") == "done", here.get("agent/.").status
        assert here.get("task/.").status["result"]["text"] == "all written"
        (first,) = prompts(tmp_path)
        assert "a.txt" in first["prompt"] and "contains" in first["prompt"], "its prompt holds the task and the checks"


async def test_reported_usage_is_in_the_log_and_the_whole_output_is_kept(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await run(here, plan("SAY x", "--print", "lines", shape="output: json-lines"))
        (replied,) = [draft for draft in await here.log() if draft.type == "model.replied"]
        usage = replied.data["usage"]
        assert (usage["in"], usage["out"], usage["cached"], usage["usd"]) == (150, 7, 50, "0.25")
        assert b"starting up" in (here.store.get_blob(replied.data["blob"]) or b"")


async def test_a_rejected_claim_is_a_turn_with_what_failed(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        more = 'acceptance: [{sh: "test -e b.txt || { echo no b $((1+1)); exit 1; }"}]\nbudget: {turns: 2}'
        await here.apply(plan("SAY done", more=more))
        await here.until(lambda: here.get("agent/.").status.get("used", {}).get("turns") == 2)
        first, second = prompts(tmp_path)
        assert "no b 2" not in first["prompt"]
        assert "no b 2" in second["prompt"] and "SAY done" in second["prompt"]


async def test_later_turn_in_a_session_gets_only_the_news(tmp_path: Path) -> None:
    resume = json.dumps([sys.executable, str(PROGRAM), "--print", "lines", "--resume", "{session}"])
    async with arena(tmp_path) as here:
        shape = f"output: json-lines, session: /session_id, continue: {resume}"
        more = "acceptance: [{require-file: b.txt}]\nbudget: {turns: 2}"
        await here.apply(plan("SAY done", "--print", "lines", shape=shape, more=more))
        await here.until(lambda: here.get("agent/.").status.get("used", {}).get("turns") == 2)
        _, second = prompts(tmp_path)
        assert second["resume"] == "s1" and "b.txt" in second["prompt"]
        assert "You work alone" not in second["prompt"]


@pytest.mark.parametrize(
    ("goal", "shape", "reason"),
    [
        ("EXIT 3", "", "exited with 3: something broke"),
        ("FAIL", "output: json-lines", "reported an error: I could not"),
        ("SLEEP 30", "timeout: 300ms", "timed out"),
        ("SAY x", "output: json, field: /nothing", "gave no answer"),
    ],
)
async def test_a_failure_fails_the_task_with_its_tail(tmp_path: Path, goal: str, shape: str, reason: str) -> None:
    async with arena(tmp_path) as here:
        await run(here, plan(goal, "--print", "lines", shape=shape))
        assert here.state("task/.") == "failed"
        assert reason in str(here.get("task/.").status), here.get("task/.").status


async def test_cli_agent_sees_the_clean_environment_and_no_log_shows_a_secret(tmp_path: Path) -> None:
    (tmp_path / "env.py").write_text("import os, json\nprint('SECRET=' + os.environ['TOKEN'], sorted(os.environ))\n")
    run_it = json.dumps([sys.executable, "env.py"])
    text = f"goal: g\nagent:\n  outside: {{run: {run_it}, env: {{TOKEN: 'env:OUR_TOKEN', MODE: fast}}}}"
    async with arena(tmp_path, surrounding={"OUR_TOKEN": "hush-hush-hush", "OTHER": "x"}) as here:
        await run(here, text)
        assert here.state("task/.") == "done", str(here.get("task/.").status)
        answer = here.get("task/.").status["result"]["text"]
        assert "MODE" in answer and "OTHER" not in answer and "SECRET=•••" in answer
        assert "hush-hush-hush" not in str(await here.log())


async def test_missing_variable_fails_the_task_by_its_name(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await run(here, plan("SAY x", shape="env: {KEY: 'env:NO_SUCH'}"))
        assert "NO_SUCH" in str(here.get("task/.").status)


def has_text(path: Path) -> bool:
    return path.exists() and path.read_text().strip() != ""


async def test_a_removed_task_takes_its_process_group_with_it(tmp_path: Path) -> None:
    line = "sh -c 'echo $$ > pid; sleep 60 & wait'"
    text = f'tasks:\n  a:\n    goal: g\n    agent: {{outside: {{run: "{line}"}}}}\n  b: {{run: "true"}}'
    async with arena(tmp_path) as here:
        await here.apply(text)
        await here.until(lambda: has_text(tmp_path / "pid"))
        pid = int((tmp_path / "pid").read_text())
        await here.apply('tasks:\n  b: {run: "true"}')
        await here.until(lambda: here.find("agent/a") is None)
        assert not is_alive(pid)


async def test_another_goal_in_mid_turn_stops_it_and_asks_again(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(plan("SLEEP 60"))
        await here.until((tmp_path / "sleeping").exists)
        await here.tell("agent/.", "SAY something else", "m1", delivery="interrupt")
        await here.until(lambda: len(prompts(tmp_path)) == 2)
        assert "SAY something else" in prompts(tmp_path)[1]["prompt"]


@pytest.mark.process
async def test_law_5_what_outlives_its_owner_is_taken_up_and_not_run_twice(tmp_path: Path) -> None:
    line = "echo began >> begins; while ! test -e go; do sleep 0.02; done; echo finished"
    text = f"goal: g\nagent:\n  outside: {{run: '{line}'}}"

    async def until_it_dies(here: Arena) -> None:
        await here.apply(text)
        await here.until((tmp_path / "begins").exists)
        for number in range(20):
            await here.tell("agent/.", "still there?", f"m{number}")

    assert not await lived(until_it_dies, tmp_path, 1, 15)
    async with arena(tmp_path, epoch=2, is_inline=True) as here:
        (tmp_path / "go").touch()
        await here.until_state("task/.", "done", "failed")
        assert here.get("task/.").status["result"]["text"] == "finished"
        assert (tmp_path / "begins").read_text() == "began\n"


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (['{"text": "one"}', '{"text": "two"}'], "two"),
        (['{"type": "assistant", "message": {"content": [{"type": "text", "text": "a"}]}}'], "a"),
        (['{"result": "r"}', '{"text": "later remark"}'], "r"),
        (['{"type": "item.completed", "item": {"type": "agent_message", "text": "c"}}', '{"usage": {}}'], "c"),
        (['{"message": {"role": "user", "content": [{"type": "tool_result", "content": "x"}]}}'], None),
        (['{"type": "item.completed", "item": {"type": "reasoning", "text": "hm"}}'], None),
        (["plain words"], None),
        (['{"choices": 3}', "{broken"], None),
        (['[{"text": "in a list"}]'], "in a list"),
    ],
)
def test_the_answer_is_found_in_the_usual_shapes(lines: list[str], answer: str | None) -> None:
    found = program.read_output("\n".join(lines), CliAgentSpec(("x",), output="json-lines"))
    assert found.answer == answer


async def test_reported_usage_is_billed_and_the_budget_stops_the_agent(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        more = "acceptance: [{require-file: never.txt}]\nbudget: {tokens: 400, usd: 5}"
        await here.apply(plan("SAY x", "--print", "lines", shape="output: json-lines", more=more))
        await here.until_state("agent/.", "parked")
        ledger = here.get("task/.").status["ledger"]
        assert len(prompts(tmp_path)) in (2, 3, 4)
        assert float(ledger["tokens"]["spent"]) == 157 * len(prompts(tmp_path))
        assert float(ledger["usd"]["spent"]) == 0.25 * len(prompts(tmp_path))


async def test_an_edited_goal_stops_it_in_mid_turn_and_it_is_asked_again_with_the_new_one(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(plan("SLEEP 60"))
        await here.until((tmp_path / "sleeping").exists)
        await here.patch({"op": "replace", "path": "/goal", "value": "SAY another"})
        await here.until_state("task/.", "done", "failed")
        assert here.get("task/.").status["result"]["text"] == "another"
        assert len(prompts(tmp_path)) == 2 and "SAY another" in prompts(tmp_path)[1]["prompt"]
