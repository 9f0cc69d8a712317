"""`lib:websearch` against a real server: an engine's JSON, pages, and readers on scripted models."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from planloop.controllers.agent.library import websearch
from tests.controllers.agent.arena import Arena, arena
from tests.fakes.pages import Answer, Pages, page, serving
from tests.fakes.scripted_models import ScriptedModels
from tests.product import JsonObject

pytestmark = pytest.mark.anyio


def engine(*paths: str) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.query["format"] == "json"
        base = f"http://localhost:{request.url.port}"
        found = [{"url": base + path, "title": f"About {path}", "content": "…", "engine": "x"} for path in paths]
        return web.json_response({"query": request.query["q"], "results": [*found, {"url": "ftp://no"}, "odd"]})

    return answer


def reads(url: str, says: str) -> list[JsonObject]:
    """A reader's two replies: it fetches its page, then answers."""
    call = {"name": "fetch", "arguments": {"url": url}}
    return [
        {"when": {"system": url, "not": "from http"}, "reply": {"calls": [call]}},
        {"when": {"system": url}, "reply": {"text": says}},
    ]


def plan(pages: Pages, goal: str = "how high is it", more: str = "") -> str:
    return f"""
        rights:
          network: all
          hosts: ["localhost:{pages.port}"]
          tiers: [{{models: [big/one]}}, {{models: [small/one]}}]
        goal: {json.dumps(goal)}
        agent: {{extends: lib:websearch, options: {{url: "{pages.url("/search")}"{more}}}}}
    """


async def outcome(here: Arena, text: str) -> dict[str, Any]:
    await here.apply(text)
    await here.until_state("task/.", "done", "failed")
    await here.settled()
    found: dict[str, Any] = here.get("task/.").status
    return found


async def test_readers_use_the_weaker_model_in_parallel_and_findings_have_sources(tmp_path: Path) -> None:
    served = {"/search": engine("/a", "/b", "/a#twice"), "/a": page("<p>It is 3 m"), "/b": page("<p>It is 4 m")}
    async with serving(served) as pages:
        models = ScriptedModels([*reads(pages.url("/a"), "3 m high"), *reads(pages.url("/b"), "4 m high")])
        async with arena(tmp_path, models=models) as here:
            status = await outcome(here, plan(pages))
            assert status["stage"] != "failed", status
            result = status["result"]
            result = result.get("text", result) if "findings" not in result else result
            assert result["trust"].startswith("untrusted")
            assert {(one["url"], one["answer"]) for one in result["findings"]} == {
                (pages.url("/a"), "3 m high"),
                (pages.url("/b"), "4 m high"),
            }
            assert {request.model for request in models.asked} == {"small/one"}
            asked = [draft for draft in await here.log() if draft.type in ("model.requested", "model.replied")]
            before = itertools.takewhile(
                lambda draft: draft.type == "model.requested" or draft.subject == "agent/.", asked
            )
            readers = {draft.subject for draft in before if draft.subject != "agent/."}
            assert readers == {"agent/page-1-1", "agent/page-1-2"}, "both are asked before either has answered"
    assert models.left == []


async def test_a_page_that_cannot_be_read_is_a_finding_with_its_error(tmp_path: Path) -> None:
    served = {"/search": engine("/a", "/gone"), "/a": page("<p>It is 3 m")}
    async with serving(served) as pages:
        gone = pages.url("/gone")
        call = {"name": "fail", "arguments": {"reason": "it is not there"}}
        steps = [
            *reads(pages.url("/a"), "3 m"),
            {"when": {"system": gone}, "reply": {"calls": [{"name": "fetch", "arguments": {"url": gone}}]}},
            {"when": {"system": gone}, "reply": {"calls": [call]}},
        ]
        async with arena(tmp_path, models=ScriptedModels(steps)) as here:
            status = await outcome(here, plan(pages))
            assert "3 m" in str(status["result"]) and "it is not there" in str(status["result"])


@pytest.mark.parametrize(
    ("answer", "word"),
    [(page("<p>no JSON here"), "options.url"), (page("x", status=500), "did not answer"), (None, "did not answer")],
)
async def test_an_engine_that_does_not_answer_fails_the_search(
    tmp_path: Path, answer: Answer | None, word: str
) -> None:
    async with serving({} if answer is None else {"/search": answer}) as pages, arena(tmp_path) as here:
        status = await outcome(here, plan(pages))
        assert status["state"] == "failed" and word in str(status), status


async def test_empty_search_result_is_an_answer(tmp_path: Path) -> None:
    async with serving({"/search": engine()}) as pages, arena(tmp_path) as here:
        status = await outcome(here, plan(pages))
        assert status["state"] == "done" and "findings" in str(status["result"])


async def test_without_the_right_to_the_engines_host_nothing_is_asked(tmp_path: Path) -> None:
    async with serving({"/search": engine("/a")}) as pages, arena(tmp_path) as here:
        text = plan(pages).replace(f'hosts: ["localhost:{pages.port}"]', "hosts: []")
        status = await outcome(here, text)
        assert status["state"] == "failed" and "hosts" in str(status)
        assert pages.asked == []


async def test_a_model_hands_a_search_to_it_with_the_task_tool(tmp_path: Path) -> None:
    async with serving({"/search": engine("/a"), "/a": page("<p>It is 3 m")}) as pages:
        options = {"url": pages.url("/search")}
        agent = {"extends": "lib:websearch", "options": options}
        call = {"name": "task", "arguments": {"id": "look", "prompt": "how high is it", "agent": agent}}
        steps = [
            {"when": {"system": "find the height", "not": "3 m high"}, "reply": {"calls": [call]}},
            {"when": {"system": "find the height", "any": "3 m high"}, "reply": {"text": "it is 3 m high"}},
            *reads(pages.url("/a"), "3 m high"),
        ]
        models = ScriptedModels(steps)
        async with arena(tmp_path, models=models) as here:
            text = f"""
                rights: {{network: all, hosts: ["localhost:{pages.port}"]}}
                goal: find the height
                agent: {{model: big/one, tools: [task]}}
            """
            text = text.replace("tools: [task]", "tools: [task, fetch, terminate]")
            status = await outcome(here, text)
            assert status["state"] == "done", status
            result = (await here.results("task"))[-1]
            assert "untrusted" in result["text"] and pages.url("/a") in result["text"]


def test_address_of_the_engine_keeps_its_query_and_requests_json() -> None:
    url = websearch.search_url("a b&c", {"url": "http://h/s?lang=en", "params": {"safesearch": 1}})
    assert url == "http://h/s?lang=en&q=a+b%26c&format=json&safesearch=1"


def test_another_goal_starts_another_search_and_releases_the_readers() -> None:
    memory = {"stage": "read", "query": "old", "round": 1, "readers": {"page-1-1": {}, "page-1-2": {}}}
    children = [{"task": "task/s/page-1-1", "is_removing": False}]
    turn = {"goal": "new", "memory": memory, "options": {}, "children": children, "results": [], "messages": []}
    actions = websearch.step(turn)
    assert actions[0] == {"call": {"terminate": {"name": "page-1-1"}}}
    assert actions[-1]["memory"] == {"stage": "search", "query": "new", "round": 2}


async def test_search_is_called_like_a_tool(tmp_path: Path) -> None:
    async with serving({"/search": engine("/a"), "/a": page("<p>It is 3 m")}) as pages:
        call = {"name": "agent:websearch", "arguments": {"prompt": "how high is it"}}
        steps = [
            {"when": {"system": "find the height", "not": "3 m high"}, "reply": {"calls": [call]}},
            {"when": {"system": "find the height", "any": "3 m high"}, "reply": {"text": "it is 3 m high"}},
            *reads(pages.url("/a"), "3 m high"),
        ]
        async with arena(tmp_path, models=ScriptedModels(steps)) as here:
            status = await outcome(
                here,
                f"""
                rights: {{network: all, hosts: ["localhost:{pages.port}"]}}
                goal: find the height
                agents: {{websearch: {{extends: lib:websearch, options: {{url: "{pages.url("/search")}"}}}}}}
                agent: {{model: big/one, tools: ["agent:websearch", fetch, task, terminate]}}
                """,
            )
            assert status["state"] == "done", status
            (result,) = await here.results("agent:websearch")
            assert "untrusted" in result["text"] and pages.url("/a") in result["text"]


async def test_called_again_it_is_another_search(tmp_path: Path) -> None:
    served = {"/search": engine("/a"), "/a": page("<p>It is 3 m high and 2 m wide")}
    async with serving(served) as pages:
        first = {"name": "agent:websearch", "arguments": {"prompt": "how high is it"}}
        second = {"name": "agent:websearch", "arguments": {"prompt": "how wide is it"}}
        reader = {"name": "fetch", "arguments": {"url": pages.url("/a")}}
        steps = [
            {"when": {"system": "find the size", "not": "3 m high"}, "reply": {"calls": [first]}},
            {"when": {"system": "find the size", "not": "2 m wide"}, "reply": {"calls": [second]}},
            {"when": {"system": "find the size"}, "reply": {"text": "3 by 2"}},
            {"when": {"system": "how high is it", "not": "from http"}, "reply": {"calls": [reader]}},
            {"when": {"system": "how high is it"}, "reply": {"text": "3 m high"}},
            {"when": {"system": "how wide is it", "not": "from http"}, "reply": {"calls": [reader]}},
            {"when": {"system": "how wide is it"}, "reply": {"text": "2 m wide"}},
        ]
        async with arena(tmp_path, models=ScriptedModels(steps)) as here:
            status = await outcome(
                here,
                f"""
                rights: {{network: all, hosts: ["localhost:{pages.port}"]}}
                goal: find the size
                agents: {{websearch: {{extends: lib:websearch, options: {{url: "{pages.url("/search")}"}}}}}}
                agent: {{model: big/one, tools: ["agent:websearch", fetch, task, terminate]}}
                """,
            )
            assert status["state"] == "done", status
            answers = [result["text"] for result in await here.results("agent:websearch")]
            assert "3 m high" in answers[0] and "2 m wide" in answers[1]
