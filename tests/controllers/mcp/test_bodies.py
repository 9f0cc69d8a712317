"""Answers over HTTP as servers and gateways give them: of a wrong type, broken off, refused, for a lost session."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from planloop.controllers.mcp import http_transport, results
from planloop.controllers.mcp import link as mcp_link
from planloop.controllers.mcp.server_request import ToolServerRequest
from planloop.schemas.objects.call import CallResult
from planloop.schemas.objects.mcp import ServerFailed
from tests import rows
from tests.controllers.agent.arena import arena
from tests.controllers.mcp.plans import DONE, call, plan, texts
from tests.product import JsonObject
from tests.servers.by_hand import Answer, ByHand, Message, over_http, result
from tests.servers.by_hand import texts as said

pytestmark = pytest.mark.anyio

LINES = 20_000
EVENTS = "text/event-stream"
ECHO: JsonObject = {"op": "op", "tool": "echo", "arguments": {}}


def served(
    calls: Callable[[Message], Answer], *, session: str = ""
) -> Callable[[str, Message, Mapping[str, str]], Answer]:
    """A server whose calls are answered by `calls`, and all else as usual."""
    usual = ByHand({})

    def respond(method: str, message: Message, headers: Mapping[str, str]) -> Answer:
        if method != "POST":
            return Answer(status=405)
        if message["method"] == "tools/call":
            return calls(message)
        answers = list(usual.answer(message))
        named = {"mcp-session-id": session} if session and message["method"] == "initialize" else {}
        return Answer(json.dumps(answers[0]).encode(), headers=named) if answers else Answer(status=202)

    return respond


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[mcp_link.ToolServerLink]:
    link = mcp_link.ToolServerLink(lambda _: None)
    try:
        async with link.opened(mcp_link.http_transport(url, {}, link.gone.set)), anyio.create_task_group() as group:
            group.start_soon(link.serve)
            yield link
            group.cancel_scope.cancel()
    finally:
        link.close()


async def outcome(calls: Callable[[Message], Answer], *, session: str = "") -> CallResult | ServerFailed:
    """What a call comes to that is answered so."""
    async with over_http(served(calls, session=session)) as url, connected(url) as link:
        request = ToolServerRequest(lambda: link.call(ECHO, None, {}), 5.0)
        link.submit(request)
        try:
            return results.call_result(await request.result(), lambda _: "blob")
        except ServerFailed as fault:
            return fault


async def called(calls: Callable[[Message], Answer]) -> CallResult:
    made = await outcome(calls)
    assert isinstance(made, CallResult), made
    return made


async def refused(answer: Answer, *, session: str = "") -> ServerFailed:
    made = await outcome(lambda _: answer, session=session)
    assert isinstance(made, ServerFailed), made
    return made


def plain(message: Message, text: str = "hi") -> bytes:
    return json.dumps(result(message, said(text))).encode()


@rows.each(
    ("make", "text"),
    [
        (lambda message: Answer(plain(message)), "hi"),
        (lambda message: Answer(plain(message), kind="text/plain"), "hi"),
        (lambda message: Answer(plain(message), kind=EVENTS), "hi"),
        (lambda message: Answer(b"\xef\xbb\xbf\n" + plain(message)), "hi"),
        (lambda message: Answer(b"[" + plain(message) + b"]"), "hi"),
        (lambda message: Answer(b": ping\r\n\r\nid: 1\r\ndata: " + plain(message) + b"\r\n\r\n"), "hi"),
        (lambda message: Answer(b"data:" + plain(message), kind=EVENTS), "hi"),
        (lambda message: Answer(b"event: message\rdata: " + plain(message) + b"\r\r", kind=EVENTS), "hi"),
        (lambda message: Answer(b"data: " + plain(message).replace(b"hi", rb"h\ud83di"), kind=EVENTS), "h\ufffdi"),
        (lambda message: Answer(plain(message).replace(b'"hi"', b"NaN")), "NaN"),
        (lambda message: Answer(b"data: " + plain(message, "z" * 2_000_000) + b"\n\n", kind=EVENTS), "z" * 100),
        (lambda message: Answer(plain({**message, "id": "other"})), "hi"),
    ],
)
async def test_body_is_read_whatever_its_headers(make: Callable[[Message], Answer], text: str) -> None:
    made = await called(make)

    assert (made.state, made.text[: len(text)]) == ("Succeeded", text)


@rows.each("kind", ["application/json", EVENTS])
async def test_a_body_that_cannot_be_read_settles_its_call_with_what_came(kind: str) -> None:
    def cut(message: Message) -> Answer:
        body = plain(message, "order placed")[:-8]
        return Answer(body if kind != EVENTS else b"data: " + body + b"\n\n", kind=kind)

    made = await called(cut)

    assert made.state == "Succeeded" and "order pla" in made.text and "cannot be read" in made.text


@rows.each(
    ("answer", "reason", "words"),
    [
        (Answer(b"upstream is tired", 500, "text/plain"), "ServerError", "HTTP 500 Said: upstream is tired"),
        (Answer(b'{"error":"slow down"}', 429), "ServerError", "slow down"),
        (
            Answer(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no text"}}', 400),
            "ServerError",
            "no text",
        ),
        (Answer(b"<html>log in</html>", 200, "text/html"), "ServerError", "<html>log in"),
        # The server may have taken the call: its end is unknown.
        (Answer(b"", 502, "text/plain"), "Disconnected", "HTTP 502"),
        (Answer(status=202), "Disconnected", "HTTP 202"),
        (Answer(b"{", is_cut=True), "Disconnected", ""),
    ],
)
async def test_refusal_quotes_the_server(answer: Answer, reason: str, words: str) -> None:
    fault = await refused(answer)

    assert fault.reason == reason and words in str(fault)


@rows.each(
    ("answer", "reason"),
    [
        (Answer(b"gone", 404, "text/plain"), "Unreachable"),
        (Answer(b'{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"}}', 404), "Unreachable"),
        (Answer(b"Invalid or missing session ID", 400, "text/plain"), "Unreachable"),
        (Answer(b'{"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"no such method"}}', 404), "ServerError"),
        (Answer(b"no text", 400, "text/plain"), "ServerError"),
    ],
)
async def test_call_in_an_expired_session_was_never_taken(answer: Answer, reason: str) -> None:
    fault = await refused(answer, session="s1")

    assert (fault.reason, fault.has_begun) == (reason, reason != "Unreachable")


@rows.each(
    "gone",
    [Answer(b"", 404, "text/plain"), Answer(b'{"error":"Bad Request: No valid session ID provided"}', 400)],
)
async def test_call_with_an_expired_session_is_made_in_a_new_one(gone: Answer, tmp_path: Path) -> None:
    folder = tmp_path / str(gone.status)
    folder.mkdir()
    sessions: list[str] = []
    taken: list[Any] = []

    def respond(method: str, message: Message, headers: Mapping[str, str]) -> Answer:
        if method == "POST" and message["method"] == "initialize":
            sessions.append(f"s{len(sessions)}")
        elif method == "POST" and message["method"] != "server/discover":
            if headers.get("mcp-session-id") != sessions[-1]:
                return gone
            if message["method"] == "tools/call":
                taken.append(message["params"]["arguments"])
                if len(taken) == 1:
                    sessions.append("restarted")
        return served(lambda one: Answer(plain(one, f"call {len(taken)}")), session=(sessions or [""])[-1])(
            method, message, headers
        )

    async with over_http(respond) as url, arena(folder) as here:
        await here.apply(plan({"t": {"url": url}}, call("t.echo", text="a"), call("t.echo", text="b"), DONE))
        await here.until_state("task/.", "done", "failed")
        assert await texts(here, "t.echo") == ["call 1", "call 2"]
    assert taken == [{"text": "a"}, {"text": "b"}]


@asynccontextmanager
async def of_2024(calls: Callable[[Message], bytes], *, endpoint: str = "/messages?s=1") -> AsyncIterator[str]:
    """The URL of a server that answers on one stream of events, which ends with a call that has no answer."""
    put, take = anyio.create_memory_object_stream[bytes](100)
    usual = ByHand({})

    def respond(method: str, message: Message, headers: Mapping[str, str]) -> Answer:
        if method == "GET":
            return Answer(f"event: endpoint\ndata: {endpoint}\n\n".encode(), kind=EVENTS, pieces=take)
        if message["method"] == "tools/call":
            answer = calls(message)
            if answer == b"lost":
                return Answer(b"no such session", 404, "text/plain")
            put.send_nowait(b"data: " + answer + b"\n\n") if answer else put.close()
        else:
            for one in usual.answer(message):
                put.send_nowait(b"event: message\ndata: " + json.dumps(one).encode() + b"\n\n")
        return Answer(b"Accepted", 202, "text/plain")

    async with put, take, over_http(respond) as url:
        yield url.replace("/mcp", "/sse")


@rows.each(
    ("calls", "said_or_reason"),
    [
        (plain, "hi"),
        (lambda message: plain(message).replace(b"hi", rb"h\ud83di"), "h\ufffdi"),
        (lambda message: plain(message, "order placed")[:-8], "order pla"),
        (lambda message: b"lost", "Unreachable"),
        (lambda message: b"", "Disconnected"),
    ],
)
async def test_servers_of_2024_are_spoken_to_over_their_stream(
    calls: Callable[[Message], bytes], said_or_reason: str
) -> None:
    async with of_2024(calls) as url, connected(url) as link:
        request = ToolServerRequest(lambda: link.call(ECHO, None, {}), 5.0)
        link.submit(request)
        try:
            found = results.call_result(await request.result(), lambda _: "blob").text
        except ServerFailed as fault:
            found = fault.reason
    assert said_or_reason in found


async def test_server_of_2024_cannot_redirect_requests(tmp_path: Path) -> None:
    async with of_2024(plain, endpoint="http://127.0.0.1:9/x") as url, arena(tmp_path) as here:
        await here.apply(plan({"t": {"url": url}}, call("t.echo", text="a"), DONE))
        await here.until(lambda: here.get("mcp/t").status.get("why") is not None)
        assert "127.0.0.1:9" in here.get("mcp/t").status["why"]


async def test_an_event_without_end_is_kept_within_bounds() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"id: 7\n"
        for number in range(LINES):
            yield b": %d\nx%d: y\ndata:\n" % (number, number)
        yield f"data: {json.dumps({'jsonrpc': '2.0', 'id': 1, 'result': {}})}\n\n".encode()

    (event,) = [each async for each in http_transport._events(pieces(), None)]
    assert event.splitlines()[:2] == [b"id: 7", b": %d" % (LINES - 1)]
    assert json.loads(event.splitlines()[2].removeprefix(b"data: ")) == {"jsonrpc": "2.0", "id": 1, "result": {}}
