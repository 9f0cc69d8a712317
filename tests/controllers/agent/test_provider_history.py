"""Whole conversations over HTTP, with servers that refuse what their providers are known to refuse."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from planloop.controllers.agent.models import chat_request
from planloop.controllers.agent.models.router import LOOPBACK_ONLY, ModelRouter, RouteContext
from planloop.schemas.objects.model import ModelTable
from tests.controllers.agent.arena import Arena, arena
from tests.fakes.model_server.running import RunningServer, Script, running
from tests.product import SystemClock

pytestmark = pytest.mark.anyio

WRITE = {"name": "write", "arguments": {"path": "out.txt", "content": "hello"}}
LIST = {"name": "list", "arguments": {}}
PLAN = """
goal: write out.txt
acceptance: [{{contains: {{path: out.txt, text: hello}}}}]
agent: {{model: "{model}", tools: [write, read, list], lock: task}}
"""


@asynccontextmanager
async def played(folder: Path, script: Script, *, name: str = "m") -> AsyncIterator[tuple[Arena, RunningServer]]:
    """An agent whose model is a server with `script`, after its task is done."""
    around = RouteContext({LOOPBACK_ONLY: "1"}, folder)
    async with running(script) as server:
        table = ModelTable(((name.partition("/")[0], {"url": server.url, "key": "file:key"}),))
        (folder / "key").write_text("k")
        routed = ModelRouter(lambda: table, around, SystemClock().now)
        async with routed.opened(), arena(folder, models=routed) as here:
            await here.apply(PLAN.format(model=name if "/" in name else f"{name}@{server.url}"))
            await here.until_state("task/.", "done", "failed")
            await here.settled()
            yield here, server


def replies(*each: Any) -> list[dict[str, Any]]:
    return [{"reply": {"text": one} if isinstance(one, str) else {"calls": one}} for one in each]


TURNS = replies("I am done", [LIST, LIST], [LIST], [LIST], [LIST], [WRITE | {"id": "aB3dE5gH7"}], "done")


async def test_mistral_takes_every_request_of_a_conversation_with_rejections_and_notes(tmp_path: Path) -> None:
    async with played(tmp_path, {"vendor": "mistral", "steps": TURNS}, name="mistral/m") as (here, server):
        assert here.state("task/.") == "done"
    assert server.faults == 0
    assert server.left == []


async def test_unknown_server_with_mistral_rules_gets_its_message_order_after_one_error(tmp_path: Path) -> None:
    rejected = replies([{"name": "done", "arguments": {"result": "x"}}], [WRITE], "done")
    async with played(tmp_path, {"vendor": "mistral", "steps": rejected}) as (here, server):
        assert here.state("task/.") == "done"
    assert server.faults == 1
    assert server.left == []


THOUGHTS = {"reasoning_content": "I have to write.", "thinking_blocks": [{"type": "thinking", "signature": "c2ln"}]}
SIGNED = {"extra_content": {"google": {"thought_signature": "c2ln"}}}


async def test_thoughts_and_signatures_go_back_with_the_message_and_the_call_that_had_them(tmp_path: Path) -> None:
    function = {"name": "write", "arguments": '{"path": "out.txt", "content": "hello"}'}
    piece = {"index": 0, "id": "x", "type": "function", "function": function, **SIGNED}
    first = {"reply": {"chunks": [THOUGHTS, {"tool_calls": [piece]}], "finish": "tool_calls"}}
    script = {"takes": list(THOUGHTS), "steps": [first, *replies("done")]}
    async with played(tmp_path, script) as (here, server):
        replied = [draft for draft in await here.log() if draft.type == "model.replied"]
    sent = next(message for message in server.asked[-1]["messages"] if message["role"] == "assistant")
    assert {name: sent[name] for name in THOUGHTS} == THOUGHTS
    assert {name: sent["tool_calls"][0][name] for name in SIGNED} == SIGNED
    assert server.faults == 0
    assert replied[0].data["extra"] == THOUGHTS, "a replay makes the same prompt from the log"
    assert replied[0].data["calls"][0]["extra"] == SIGNED


async def test_signature_that_a_proxy_keeps_in_the_id_is_returned_in_the_id(tmp_path: Path) -> None:
    async with played(tmp_path, replies([WRITE | {"id": "call_1__thought__c2ln"}], "done")) as (_, server):
        assistant, tool = server.asked[-1]["messages"][-2:]
    assert assistant["tool_calls"][0]["id"] == tool["tool_call_id"] == "c00010000__thought__c2ln"


async def test_a_reply_that_broke_runs_none_of_its_calls(tmp_path: Path) -> None:
    other = {"name": "write", "arguments": {"path": "broken.txt", "content": "x"}}
    broken = {"reply": {"calls": [other], "finish": "error"}}
    async with played(tmp_path, [broken, *replies([WRITE], "done")]) as (here, _):
        failed = [draft.data["reason"] for draft in await here.log() if draft.type == "model.failed"]
        assert not (tmp_path / "broken.txt").exists()
    assert failed == ["CutOff"]


async def test_a_reply_that_a_filter_cut_is_asked_for_once_more(tmp_path: Path) -> None:
    filtered = {"reply": {"text": "I will n", "finish": "content_filter"}}
    async with played(tmp_path, [filtered, *replies([WRITE], "done")]) as (here, _):
        failed = [draft.data for draft in await here.log() if draft.type == "model.failed"]
        assert here.state("task/.") == "done"
    assert [each["reason"] for each in failed] == ["Filtered"]


async def test_a_filter_that_cuts_again_blocks_the_agent_and_is_named(tmp_path: Path) -> None:
    filtered = {"reply": {"text": "I will n", "finish": "content_filter"}, "times": "always"}
    around = RouteContext({LOOPBACK_ONLY: "1"}, tmp_path)
    async with running([filtered]) as server:
        routed = ModelRouter(ModelTable, around, SystemClock().now)
        async with routed.opened(), arena(tmp_path, models=routed) as here:
            await here.apply(PLAN.format(model=f"m@{server.url}"))
            await here.until(lambda: here.state("agent/.") == "blocked")
            why = here.get("agent/.").status["why"]
    assert "Filtered" in str(why) and "content filter" in str(why)
    assert len(server.asked) == 2


async def test_calls_that_were_announced_and_are_missing_are_no_answer(tmp_path: Path) -> None:
    announced = {"reply": {"text": "Let me write that file:", "finish": "tool_calls"}}
    async with played(tmp_path, [announced, *replies([WRITE], "done")]) as (here, _):
        failed = [draft.data["reason"] for draft in await here.log() if draft.type == "model.failed"]
        assert here.state("task/.") == "done"
    assert failed == ["Empty"]


NO_ARGUMENTS = ["null", "", " null ", "{}", "[]", '"null"', '""', '"{}"']


async def test_every_spelling_of_no_arguments_is_accepted(tmp_path: Path) -> None:
    lists = [{"name": "list", "id": f"c{n}", "raw": raw} for n, raw in enumerate(NO_ARGUMENTS)]
    async with played(tmp_path, replies(lists, [WRITE], "done")) as (here, server):
        results = [draft.data["result"] for draft in await here.log() if draft.type == "call.settled"]
    assert [one["state"] for one in results[: len(NO_ARGUMENTS)]] == ["Succeeded"] * len(NO_ARGUMENTS)
    sent = server.asked[-1]["messages"][2]["tool_calls"]
    assert {call["function"]["arguments"] for call in sent} == {"{}"}


async def test_arguments_that_were_encoded_twice_are_read(tmp_path: Path) -> None:
    raw = '"{\\"path\\": \\"out.txt\\", \\"content\\": \\"hello\\"}"'
    async with played(tmp_path, replies([{"name": "write", "id": "c", "raw": raw}], "done")) as (here, _):
        assert here.state("task/.") == "done"


async def test_a_call_that_the_model_wrote_as_text_is_made(tmp_path: Path) -> None:
    text = f"I write it.\n<tool_call>\n{json.dumps(WRITE)}\n</tool_call>"
    async with played(tmp_path, replies(text, "done")) as (here, server):
        assert here.state("task/.") == "done"
    sent = next(message for message in server.asked[-1]["messages"] if message["role"] == "assistant")
    assert (sent["content"], len(sent["tool_calls"])) == ("I write it.", 1)


NAMES = ["functions.write", "default_api:write", "write<|channel|>commentary", "functions.write:0", " write "]


async def test_tool_is_found_with_any_template_around_its_name(tmp_path: Path) -> None:
    calls = [WRITE | {"name": name, "id": f"c{n}"} for n, name in enumerate(NAMES)]
    async with played(tmp_path, replies(calls, "done")) as (here, _):
        results = [draft.data["result"]["state"] for draft in await here.log() if draft.type == "call.settled"]
    assert results[: len(NAMES)] == ["Succeeded"] * len(NAMES)


def test_ids_of_calls_have_nine_letters_and_digits_and_differ() -> None:
    places = [(turn, index) for turn in (0, 1, 35, 36, 10_000, 1_600_000) for index in (0, 1, 63, 5_000)]
    ids = [chat_request.tool_call_id(turn, index) for turn, index in places]

    assert all(re.fullmatch("[a-zA-Z0-9]{9}", one) for one in ids)
    assert len(set(ids)) == len(ids)
