"""Agents with a scripted model: turns, transcripts, and every kind of unusual reply."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import golden_text
from tests.controllers.agent.arena import Arena, arena
from tests.fakes.scripted_models import ScriptedModels

pytestmark = pytest.mark.anyio

PLAN = """
goal: write the file
agent: {model: test/m, tools: [read, write, shell, list]}
"""


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def calls(*each: dict[str, Any], text: str = "") -> dict[str, Any]:
    return {"reply": {"text": text, "calls": list(each)}}


def says(text: str) -> dict[str, Any]:
    return {"reply": {"text": text}}


async def run(here: Arena, plan: str = PLAN) -> str:
    """Run the plan to its end. Returns the state of the task."""
    await here.apply(plan)
    await here.until_state("task/.", "done", "failed")
    await here.settled()
    return here.state("task/.")


def asked(models: ScriptedModels, index: int = -1) -> list[dict[str, Any]]:
    """The messages of one request."""
    return [json.loads(each) for each in models.asked[index].messages]


async def test_a_model_works_with_tools_until_it_answers(tmp_path: Path) -> None:
    models = ScriptedModels(
        [calls(call("write", path="a.txt", content="hello")), calls(call("read", path="a.txt")), says("it is written")]
    )
    async with arena(tmp_path, models=models) as here:
        assert await run(here) == "done"
        assert here.read("a.txt") == "hello"
        assert here.get("task/.").status["result"]["text"] == "it is written"
    assert models.left == []
    roles = [message["role"] for message in asked(models)]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert asked(models)[-1]["content"] == "hello"


# Replies that are odd: each call has one result with a class, and the next request is one that a vendor takes.


async def results_of(here: Arena) -> list[tuple[str, str]]:
    return [(each["state"], each.get("error", "")) for each in await here.results()]


@pytest.mark.parametrize(
    ("wanted", "made"),
    [
        ({"name": "write", "raw": '{"path": "a", '}, ("Failed", "Malformed")),
        ({"name": "write", "raw": "[1, 2]"}, ("Failed", "BadArguments")),
        ({"name": "write", "raw": "not json"}, ("Failed", "Malformed")),
        ({"name": "write", "arguments": {"path": 3}}, ("Failed", "BadArguments")),
        ({"name": "wriite", "arguments": {}}, ("Failed", "UnknownTool")),
        ({"name": "task", "arguments": {"tasks": []}}, ("Denied", "Denied")),
        ({"name": "shell", "arguments": {"command": "exit 3"}}, ("Failed", "Exit")),
    ],
    ids=["cut", "list", "text", "types", "name", "right", "exit"],
)
async def test_a_call_that_cannot_be_is_a_result_that_the_model_reads(
    tmp_path: Path, wanted: dict[str, Any], made: tuple[str, str]
) -> None:
    models = ScriptedModels([calls(wanted), says("so be it")])
    async with arena(tmp_path, models=models) as here:
        assert await run(here) == "done"
        results = [draft.data.get("result") for draft in await here.log() if draft.type == "call.settled"]
        rulings = [draft.data for draft in await here.log() if draft.type == "call.authorized"]
        replied = next(draft.data["calls"][0] for draft in await here.log() if draft.type == "model.replied")
    assert replied["tool"] == wanted["name"], "what was asked for is in the log, also what there is not"
    assert ("fault" in replied, replied["arguments"] == wanted.get("raw")) == (made[1] == "Malformed",) * 2
    said = asked(models)[-1]
    assert said["role"] == "tool" and said["content"].startswith(f"{made[0]} ({made[1]}): ")
    assert len(results) <= 2, rulings


async def test_failed_calls_among_good_ones_are_returned_in_the_order_of_the_calls(tmp_path: Path) -> None:
    models = ScriptedModels(
        [
            calls(
                call("shell", command="echo first"),
                call("nothing"),
                {"name": "list", "raw": "{"},
                call("shell", command="echo last"),
            ),
            says("done"),
        ]
    )
    async with arena(tmp_path, models=models) as here:
        assert await run(here) == "done"
    told = [message["content"] for message in asked(models) if message["role"] == "tool"]
    assert [words.split()[0] for words in told] == ["first", "Failed", "Failed", "last"]
    wanted = [each["id"] for message in asked(models) for each in message.get("tool_calls", ())]
    assert [message["tool_call_id"] for message in asked(models) if message["role"] == "tool"] == wanted


async def test_ids_of_the_provider_are_replaced_by_ours_which_are_the_same_in_every_run(tmp_path: Path) -> None:
    seen: list[list[Any]] = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        steps = [calls({**call("list"), "id": f"provider-{number}"}), says("ok")]
        models = ScriptedModels(steps)
        async with arena(folder, models=models) as here:
            assert await run(here) == "done"
        assert "provider" not in str(asked(models))
        seen.append([request.prompt_digest for request in models.asked])
    assert seen[0] == seen[1]


@pytest.mark.parametrize("ids", [("same", "same"), ("", "")], ids=["duplicate", "missing"])
async def test_duplicate_and_missing_ids_leave_one_result_for_each_call(tmp_path: Path, ids: tuple[str, str]) -> None:
    both = [{**call("shell", command="echo x >> log"), "id": each} for each in ids]
    models = ScriptedModels([calls(*both), says("ok")])
    async with arena(tmp_path, models=models) as here:
        assert await run(here) == "done"
        assert here.read("log").count("x") == (1 if ids[0] else 2)
    told = [message for message in asked(models) if message["role"] == "tool"]
    assert len(told) == 2 == len({message["tool_call_id"] for message in told})


async def test_a_reply_with_text_and_calls_is_not_final(tmp_path: Path) -> None:
    models = ScriptedModels([calls(call("write", path="a", content="1"), text="I am done."), says("now I am")])
    async with arena(tmp_path, models=models) as here:
        assert await run(here) == "done"
        assert here.get("task/.").status["result"]["text"] == "now I am"
        assert here.read("a") == "1"
    assert asked(models)[2]["content"] == "I am done."


async def test_an_empty_list_of_calls_is_an_answer_like_any_other(tmp_path: Path) -> None:
    models = ScriptedModels([{"reply": {"text": "nothing to do", "calls": []}}])
    async with arena(tmp_path, models=models) as here:
        assert await run(here) == "done"
        assert here.get("task/.").status["result"]["text"] == "nothing to do"


async def test_final_answer_with_failed_checks_is_returned_with_the_failures(tmp_path: Path) -> None:
    models = ScriptedModels([says("finished"), calls(call("write", path="b.txt", content="x")), says("finished")])
    plan = PLAN + "acceptance: [{require-file: b.txt}]\n"
    async with arena(tmp_path, models=models) as here:
        assert await run(here, plan) == "done"
    told = asked(models, 1)[-1]
    assert told["role"] == "user" and "b.txt" in told["content"]


async def test_cut_off_answer_is_not_final_and_the_model_is_told(tmp_path: Path) -> None:
    models = ScriptedModels([{"reply": {"text": "it is lon", "finish": "length"}}, says("short")])
    async with arena(tmp_path, models=models) as here:
        assert await run(here) == "done"
        assert here.get("task/.").status["result"]["text"] == "short"
    assert "cut off" in asked(models)[-1]["content"]


async def test_cut_off_call_is_reported_as_cut_off(tmp_path: Path) -> None:
    cut = {"reply": {"calls": [{"name": "write", "raw": '{"path": "a", "content": "lon'}], "finish": "length"}}
    models = ScriptedModels([cut, says("ok")])
    async with arena(tmp_path, models=models) as here:
        assert await run(here) == "done"
    tool = asked(models)[-1]
    assert tool["role"] == "tool"
    assert "cut off inside this call" in tool["content"] and "Go on in smaller pieces" in tool["content"]


async def test_an_empty_reply_is_asked_again_once_with_the_same_news(tmp_path: Path) -> None:
    models = ScriptedModels([says(""), says("yes")])
    async with arena(tmp_path, models=models) as here:
        assert await run(here) == "done"
        failed = [draft.data for draft in await here.log() if draft.type == "model.failed"]
    assert [each["reason"] for each in failed] == ["Empty"]
    assert models.asked[0].messages == models.asked[1].messages
    assert [request.key.attempt for request in models.asked] == [1, 2]


async def test_two_empty_replies_ask_an_operator_and_lose_no_message(tmp_path: Path) -> None:
    models = ScriptedModels([says(""), says(""), says("here I am")])
    async with arena(tmp_path, models=models) as here:
        await here.apply(PLAN)
        await here.until(lambda: here.state("agent/.") == "blocked")
        await here.settled()
        condition = here.get("agent/.").status["conditions"]["NoModel"]
        assert "Empty" in condition["message"] and len(models.asked) == 2
        await here.tell("agent/.", "are you there?", "m")
        await here.until_state("task/.", "done")
        await here.settled()
        assert "NoModel" not in here.get("agent/.").status["conditions"]
    assert "are you there?" in asked(models)[-1]["content"]


async def test_same_call_three_times_in_a_row_is_a_condition_and_the_model_is_told(tmp_path: Path) -> None:
    models = ScriptedModels([{**calls(call("list")), "times": 3}, says("I was stuck")])
    async with arena(tmp_path, models=models) as here:
        await here.apply(PLAN)
        await here.until(
            lambda: "Stuck" in here.get("agent/.").status.get("conditions", {}) if here.find("agent/.") else False
        )
        await here.until_state("task/.", "done")
    assert "same call" in asked(models)[-1]["content"]


@pytest.mark.parametrize("name", ["a.b.c", "näme", "x" * 200, "", "../etc", "shell\n", "read\x1b[31m", "__", "a b"])
async def test_a_call_of_any_name_stays_in_a_conversation_that_providers_take(tmp_path: Path, name: str) -> None:
    steps = [calls(call(name)), says("done")]  # The player refuses what providers refuse.
    async with arena(tmp_path, models=ScriptedModels(steps)) as here:
        assert await run(here) == "done"


@pytest.mark.parametrize(
    "raw", ["{", "[1]", '"text"', "null", '{"path": NaN}', "[" * 500, "\x00", '{"path": "\\ud800"}']
)
async def test_arguments_of_any_shape_stay_in_a_conversation_that_providers_take(tmp_path: Path, raw: str) -> None:
    steps = [calls({"name": "read", "raw": raw}), says("done")]
    async with arena(tmp_path, models=(models := ScriptedModels(steps))) as here:
        assert await run(here) == "done"

    made = next(each["tool_calls"] for each in asked(models) if each.get("tool_calls"))
    assert isinstance(json.loads(made[0]["function"]["arguments"]), dict)


async def test_provider_that_asks_for_a_very_long_wait_blocks_with_a_fix(tmp_path: Path) -> None:
    steps = [{"status": 429, "headers": {"retry-after": "99999999999"}}, says("done")]
    async with arena(tmp_path, models=ScriptedModels(steps)) as here:
        await here.apply(PLAN)
        await here.until_state("agent/.", "blocked")

        status = here.get("agent/.").status
        golden_text.said(status["why"])
        golden_text.said_in(status["conditions"]["NoModel"]["unblocks"])
