"""Results, lists and ends of servers that do not keep to the protocol, over their pipes, taken as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import methods
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

from planloop.controllers.mcp import lenient_results, results
from planloop.controllers.mcp import link as mcp_link
from planloop.controllers.mcp.server_offer import ToolServerOffer
from planloop.controllers.mcp.server_process import ToolServerLaunch
from planloop.controllers.mcp.server_request import ToolServerRequest
from planloop.schemas import limits
from planloop.schemas.objects.mcp import ServerFailed
from tests import rows
from tests.controllers.agent.arena import arena
from tests.controllers.mcp.plans import DONE, call, plan, texts
from tests.product import CallResult, JsonObject
from tests.servers.by_hand import TOOLS, ByHand, error, result
from tests.servers.by_hand import texts as said

pytestmark = pytest.mark.anyio

NAN = float("nan")
ECHO: JsonObject = {"op": "op", "tool": "echo", "arguments": {"text": "hello"}}
HELLO: JsonObject = {"type": "text", "text": "hello"}
ODD: list[Any] = [
    *({}, {"content": None}, {"content": []}, {"content": "bare"}, {"content": [None, 5, "x", {}]}, {"content": {}}),
    {"content": [HELLO], "isError": None, "structuredContent": None, "_meta": None},
    {"content": [{"type": "video", "data": "AA=="}, {"type": "resource", "resource": {"uri": "x:y"}}]},
    {"content": [{**HELLO, "annotations": {"audience": ["robot"], "priority": 7}}]},
    {"content": [{"type": "image"}, {"type": "audio", "data": 5}, {"type": "resource", "resource": None}]},
    {"structuredContent": [1, 2]},
    {"structuredContent": {"n": NAN}},
    {"toolResult": "as in 2024"},
    {"tools": "none", "prompts": 5, "resources": None, "nextCursor": 7, "messages": "x", "contents": {}},
]


@asynccontextmanager
async def connected(server: ByHand) -> AsyncIterator[mcp_link.ToolServerLink]:
    """A link to `server`, which serves requests until the block is left."""
    link = mcp_link.ToolServerLink(lambda _: None)
    transport = mcp_link.stdio_transport(server(ToolServerLaunch(("x",), "/", {}), _ended), lambda _: None, link.gone)
    try:
        async with link.opened(transport), anyio.create_task_group() as group:
            group.start_soon(link.serve)
            yield link
            group.cancel_scope.cancel()
    finally:
        link.close()


async def _ended(_: int) -> None: ...


async def asked(link: mcp_link.ToolServerLink, work: Any) -> Any:
    """What a request comes to, also if that is ServerFailed."""
    request = ToolServerRequest(work, 10.0)
    link.submit(request)
    try:
        return await request.result()
    except ServerFailed as fault:
        return fault


async def called(server: ByHand) -> CallResult:
    """What a call of `echo` comes to."""
    async with connected(server) as link:
        await asked(link, link.offered)
        answer = await asked(link, lambda: link.call(ECHO, None, {}))
        assert isinstance(answer, results.ToolServerAnswer), answer
        return results.call_result(answer, lambda _: "blob")


async def offered(server: ByHand) -> ToolServerOffer:
    async with connected(server) as link:
        offer = await asked(link, link.offered)
        assert isinstance(offer, ToolServerOffer), offer
        return offer


def names(offer: ToolServerOffer) -> list[str]:
    return [tool.name for tool in offer.tools]


@rows.each("version", KNOWN_PROTOCOL_VERSIONS)
def test_the_sdk_accepts_every_result_that_it_is_given(version: str) -> None:
    for method in ("tools/call", "tools/list", "prompts/list", "prompts/get", "resources/list", "resources/read"):
        for odd in ODD:
            made = lenient_results.acceptable_result(method, odd)
            methods.parse_server_result(method, version, made)
            assert made["_meta"][lenient_results.OWN_RESULT].keys() == odd.keys()


@rows.each(
    ("odd", "able"),
    [
        ({}, []),
        ({"capabilities": None, "serverInfo": None, "instructions": 5}, []),
        ({"capabilities": {"tools": True, "prompts": {"listChanged": 1}, "logging": None}}, ["prompts", "tools"]),
    ],
)
def test_the_sdk_accepts_every_handshake(odd: JsonObject, able: list[str]) -> None:
    made = lenient_results.acceptable_result("initialize", odd)
    methods.parse_server_result("initialize", "2025-06-18", made)
    assert sorted(made["capabilities"]) == able


@rows.each(
    ("own", "text"),
    [
        ({"content": [HELLO]}, "hello"),
        ({"content": "bare"}, "bare"),
        ({"content": {"text": "one part"}}, "one part"),
        ({"content": [HELLO, {"type": "text", "text": None}], "isError": None}, "hello"),
        ({"content": [{"type": "text", "text": {"a": 1}}]}, '{"a":1}'),
        ({"content": [{"type": "video", "url": "http://x/y"}]}, '[video: {"url":"http://x/y"}]'),
        ({"content": [{"type": "video", "data": "A" * 9_000}]}, "[video: not shown]"),
        ({"content": [{"type": "resource", "resource": {"uri": "x:y"}}]}, "[resource x:y: it has no content]"),
        ({"content": [HELLO], "structuredContent": {"said": "hello"}}, "hello"),
        ({"content": [{"type": "text", "text": "done"}], "structuredContent": {"n": 17}}, 'done\n{"n":17}'),
        ({"structuredContent": [1]}, "[1]"),
        ({"toolResult": "as in 2024"}, '{"toolResult":"as in 2024"}'),
        ({"content": []}, ""),
    ],
)
def test_a_result_of_any_form_is_shown(own: JsonObject, text: str) -> None:
    made = results.call_result(results.ToolServerAnswer(own), lambda _: "blob")

    assert (made.state, made.text) == ("Succeeded", text)


@rows.each("is_error", [True, "true"])
def test_only_a_result_marked_as_an_error_is_an_error(is_error: Any) -> None:
    assert (
        results.call_result(results.ToolServerAnswer({"content": "no", "isError": is_error}), lambda _: "").error
        == "ToolError"
    )


async def test_content_that_violates_its_output_schema_is_returned_with_a_note() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tools = {"tools": [{**TOOLS[0], "outputSchema": schema}]}
    absent = await called(ByHand({"tools/list": tools, "tools/call": said("order placed")}))
    other = await called(
        ByHand({"tools/list": tools, "tools/call": {**said("placed"), "structuredContent": {"n": "x"}}})
    )

    assert (absent.state, absent.text.splitlines()[0]) == ("Succeeded", "order placed")
    assert "output schema" in absent.text
    assert (other.state, other.value) == ("Succeeded", {"n": "x"}) and "`n`" in other.text


@rows.each(
    "answer",
    [
        '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"order pla',
        '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"order pla"}],"n":undefined}}',
        '{"jsonrpc":"2.0","result":{"note":"order pla","n":undefined',
    ],
)
async def test_an_answer_that_cannot_be_read_settles_its_call_with_what_came(answer: str) -> None:
    def broken(message: JsonObject) -> list[Any]:
        return ["order pla? no: a line of a log", answer.replace("ID", str(message["id"]))]

    with anyio.fail_after(5):
        made = await called(ByHand({"tools/call": broken}))

    assert made.state == "Succeeded" and "order pla" in made.text and "cannot be read" in made.text


async def test_unreadable_list_fails_immediately_with_the_reason() -> None:
    server = ByHand({"tools/list": lambda message: [f'{{"jsonrpc":"2.0","id":{message["id"]},"result":{{"tools":[']})

    with anyio.fail_after(5):
        async with connected(server) as link:
            fault = await asked(link, link.offered)
    assert isinstance(fault, ServerFailed) and "tools/list cannot be read" in str(fault)


async def test_a_server_that_ends_with_its_last_answer_has_answered(tmp_path: Path) -> None:
    def last(message: JsonObject) -> list[Any]:
        return [b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"bye"}]}}' % message["id"], ""]

    async with arena(tmp_path, start=ByHand({"tools/call": last})) as here:
        await here.apply(plan({"t": {"command": ["sh"]}}, call("t.echo", text="x"), DONE))
        await here.until_state("task/.", "done", "failed")
        assert await texts(here, "t.echo") == ["bye"]


async def test_answers_among_noise_and_in_batches_are_taken() -> None:
    def batched(message: JsonObject) -> list[Any]:
        log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "loud", "data": NAN}}
        return ["calling...", '{"level":"info","id":4}', [log, result(message, said("ok"))]]

    assert (await called(ByHand({"tools/call": batched}))).text == "ok"


async def test_error_of_any_code_is_the_servers_answer_and_not_a_broken_connection() -> None:
    server = ByHand({"tools/call": lambda message: [error(message, -32000, "quota used up")]})
    async with connected(server) as link:
        fault = await asked(link, lambda: link.call(ECHO, None, {}))
        assert (str(fault), fault.reason, link.gone.is_set()) == ("quota used up", "ServerError", False)


async def test_invalid_tool_is_left_out_alone() -> None:
    bad: list[Any] = [
        {"name": 5},
        None,
        "x",
        {"name": ""},
        {"inputSchema": {}},
        {"name": "big", "description": "x" * 70_000},
    ]
    odd: list[Any] = [{"name": "odd", "description": 7, "inputSchema": "none", "annotations": "x", "title": None}]
    offer = await offered(ByHand({"tools/list": {"tools": [*bad, *odd, *TOOLS, *TOOLS], "nextCursor": None}}))

    assert names(offer) == ["odd", "echo"]
    assert len(offer.left_out) == len(bad) + 1
    assert str(limits.SERVER_OFFER_BYTES_MAX) in dict(offer.left_out)["big"]


@rows.each(
    ("pages", "most"),
    [
        ([""], 1),
        (["a", "a"], 2),
        (["a", "b", "a"], 3),
        ([7, 8, None], 3),
    ],
)
async def test_listing_ends_when_its_cursor_repeats(pages: list[Any], most: int) -> None:
    server = ByHand({})
    server.answers = {"tools/list": lambda message: [result(message, {"tools": TOOLS, "nextCursor": page()})]}
    left = iter(pages)

    def page() -> Any:
        return next(left, pages[-1])

    assert names(await offered(server)) == ["echo"]
    assert server.asked.count("tools/list") == most


@rows.each("capabilities", [{}, None, {"tools": None}, {"tools": True}])
async def test_tools_that_a_server_did_not_declare_are_found(capabilities: Any) -> None:
    assert names(await offered(ByHand({}, capabilities))) == ["echo"]


async def test_a_server_without_tools_is_used_for_its_prompts() -> None:
    server = ByHand({"tools/list": lambda message: [error(message, -32600, "no tools")]}, {"prompts": {}})
    server.answers = {**server.answers, "prompts/list": {"prompts": [{"name": "p", "arguments": None}, {"name": 5}]}}
    offer = await offered(server)

    assert (names(offer), [each["name"] for each in offer.prompts]) == ([], ["p"])


@rows.each(
    ("own", "text"),
    [
        (
            {"messages": [{"role": "user", "content": HELLO}, {"role": None, "content": "bare"}, "x"]},
            "hello\n\nbare\n\nx",
        ),
        ({"messages": [{"role": "assistant", "content": [HELLO]}]}, "[assistant] hello"),
        ({"messages": None}, ""),
    ],
)
def test_a_prompt_of_any_form_is_read(own: JsonObject, text: str) -> None:
    assert results.prompt_text(own, lambda _: "blob") == text


@rows.each(
    ("own", "text"),
    [
        ({"contents": [{"uri": "x:y", "text": "hi", "mimeType": None}]}, "hi"),
        ({"contents": {"uri": "x:y", "text": "hi"}}, "hi"),
        (
            {"contents": [{"uri": "x:y", "blob": "aGk="}, {"uri": "x:z"}, None]},
            "[data of no stated type, 2 bytes: blob b]",
        ),
        ({"contents": None}, ""),
    ],
)
def test_a_resource_of_any_form_is_read(own: JsonObject, text: str) -> None:
    assert results.resource_text(own, lambda _: "b").split("\n")[0] == text


async def test_missing_list_is_left_out_alone() -> None:
    able: JsonObject = {"tools": {}, "prompts": {}, "resources": {}}
    server = ByHand({"resources/list": {"resources": [{"uri": "x:y"}, {"name": "no address"}]}}, able)
    offer = await offered(server)

    assert names(offer) == ["echo"]
    assert [each["uri"] for each in offer.resources] == ["x:y"]
    assert offer.missing == (("prompts/list", "Method not found"),)


async def test_call_of_a_missing_tool_gets_the_reason(tmp_path: Path) -> None:
    big = {"name": "big", "description": "x" * 70_000}
    server = ByHand({"tools/list": {"tools": [big, *TOOLS]}})
    async with arena(tmp_path, start=server) as here:
        await here.apply(plan({"t": {"command": ["sh"]}}, call("t.big"), {"expect": {"error": "UnknownTool"}}, DONE))
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        assert any(str(limits.SERVER_OFFER_BYTES_MAX) in str(draft.data) for draft in await here.log())
        assert "big" in here.get("mcp/t").status["conditions"]["ToolsMissing"]["message"]
        await here.settled()


@rows.each("method", ["initialize", "tools/list"])
async def test_a_server_that_refuses_is_shown_with_its_own_reason(method: str, tmp_path: Path) -> None:
    server = ByHand({method: lambda message: [error(message, -32000, "the licence has expired")]})
    folder = tmp_path / method.replace("/", "-")
    folder.mkdir()
    async with arena(folder, start=server) as here:
        await here.apply(plan({"t": {"command": ["sh"]}}, call("t.echo"), DONE))
        await here.until(lambda: here.get("mcp/t").status.get("why") is not None)
        assert "licence has expired" in here.get("mcp/t").status["why"]


async def test_arguments_go_to_the_server_under_its_own_names(tmp_path: Path) -> None:
    def told(message: JsonObject) -> list[Any]:
        return [result(message, said(str(sorted(message["params"]["arguments"]))))]

    schema = {"type": "object", "properties": {"$filter": {"type": "string"}}}
    server = ByHand({"tools/list": {"tools": [{"name": "find", "inputSchema": schema}]}, "tools/call": told})
    async with arena(tmp_path, start=server) as here:
        await here.apply(plan({"t": {"command": ["sh"]}}, call("t.find", _filter="x"), DONE))
        await here.until_state("task/.", "done", "failed")
        assert await texts(here, "t.find") == ["['$filter']"]
