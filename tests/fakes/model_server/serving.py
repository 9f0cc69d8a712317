"""The HTTP of the scripted server: /v1/chat/completions, streamed or not, and /v1/models.

Every request is one line of the log when it arrives, and one when it has ended: `answered`, `refused`, `failed`,
`cut`, or `closed` when the client hung up first.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.fakes.model_server import chunking
from tests.fakes.model_server.script import Player, Question, Step, text_of
from tests.fakes.model_server.validating import Invalid, check

Entry = dict[str, Any]
BODY_BYTES_MAX = 64 << 20


class ScriptedServer:
    """Answers from `player`; tells `note` what happens."""

    def __init__(self, player: Player, note: Callable[[Entry], None]) -> None:
        self.player = player
        self.faults = 0  # Requests that a vendor would refuse, or that no step answers.
        self._note = note
        self._count = 0

    def app(self) -> web.Application:
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._models)
        return app

    async def _models(self, request: web.Request) -> web.Response:
        names = dict.fromkeys(step.model for step in self.player.steps)
        return web.json_response({"object": "list", "data": [{"id": name, "object": "model"} for name in names]})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        self._count += 1
        number = self._count
        headers = {name.lower(): value for name, value in request.headers.items()}
        peer = request.transport.get_extra_info("peername") if request.transport else None
        entry: Entry = {"event": "asked", "request": number, "headers": headers, "connection": peer and peer[1]}
        body: Any = None
        try:
            body = json.loads(await request.read())
            check(body, self.player.takes, self.player.vendor)
        except (ValueError, Invalid) as fault:
            self._note(entry | {"body": body, "step": None, "left": self.player.unused})
            return self._refuse(number, str(fault))
        tools = [tool["function"]["name"] for tool in body.get("tools", ())]
        question = Question(body["model"], body["messages"], tools)
        step = self.player.take(question)
        self._note(entry | {"body": body, "step": step and step.name, "left": self.player.unused})
        if step is None:
            last = text_of(question.messages[-1])
            return self._refuse(number, f"no step is left for {question.model} and a last message of {last[:200]!r}")
        answer = _Answer(request, step, question, body)
        try:
            response = await answer.give()
        except (asyncio.CancelledError, ConnectionError):
            self._end(number, "closed", answer.sent)
            raise
        self._end(number, answer.how, answer.sent)
        return response

    def _refuse(self, number: int, reason: str) -> web.Response:
        self.faults += 1
        self._note({"event": "ended", "request": number, "how": "refused", "reason": reason})
        return web.json_response(
            {"error": {"message": reason, "type": "invalid_request_error", "code": None}}, status=400
        )

    def _end(self, number: int, how: str, sent: int) -> None:
        self._note({"event": "ended", "request": number, "how": how, "pieces": sent})


@asynccontextmanager
async def listening(server: ScriptedServer, port: int = 0) -> AsyncIterator[int]:
    """The port of the loopback on which `server` answers during the block; 0 takes any."""
    runner = web.AppRunner(server.app(), handler_cancellation=True, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


class _Answer:
    """One answer on its way. `sent` counts the pieces of the stream, `how` says how it ended."""

    def __init__(self, request: web.Request, step: Step, question: Question, body: dict[str, Any]) -> None:
        self.how = "answered"
        self.sent = 0
        self._request, self._step, self._question, self._body = request, step, question, body

    async def give(self) -> web.StreamResponse:
        step = self._step
        await asyncio.sleep(step.delay_s)
        if step.status != 200:
            self.how = "failed"
            return web.json_response(chunking.error_of(step), status=step.status, headers=step.headers)
        if step.garbage is not None:
            self.how = "failed"
            headers = {"Content-Type": self._content_type()} | step.headers
            return web.Response(body=step.garbage.encode(), headers=headers)
        return await (self._stream() if self._body.get("stream") else self._whole())

    def _content_type(self) -> str:
        return "text/event-stream" if self._body.get("stream") else "application/json"

    async def _whole(self) -> web.StreamResponse:
        step = self._step
        if step.hang_after is not None:
            await asyncio.Event().wait()
        if step.cut_after is not None:
            return self._hang_up(web.Response())
        choice = {
            "index": 0,
            "message": chunking.message_of(step, self._question),
            "finish_reason": chunking.finish_of(step),
        }
        usage = chunking.usage_of(step, self._question)
        return web.json_response(
            self._envelope("chat.completion") | {"choices": [choice]} | ({"usage": usage} if usage else {})
        )

    async def _stream(self) -> web.StreamResponse:
        step = self._step
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"} | step.headers)
        await response.prepare(self._request)
        for delta in chunking.deltas_of(step, self._question):
            if self.sent == step.hang_after:
                await asyncio.Event().wait()
            if self.sent == step.cut_after:
                return self._hang_up(response)
            await self._send(response, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            self.sent += 1
        if step.hang_after is not None:
            await asyncio.Event().wait()
        if step.cut_after is not None:
            return self._hang_up(response)
        await self._send(response, {"choices": [{"index": 0, "delta": {}, "finish_reason": chunking.finish_of(step)}]})
        usage = chunking.usage_of(step, self._question)
        if usage is not None and (self._body.get("stream_options") or {}).get("include_usage"):
            await self._send(response, {"choices": [], "usage": usage})
        await self._write(response, b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    async def _send(self, response: web.StreamResponse, chunk: dict[str, Any]) -> None:
        text = json.dumps(self._envelope("chat.completion.chunk") | chunk, ensure_ascii=False)
        await self._write(response, b"data: " + text.encode() + b"\n\n")

    async def _write(self, response: web.StreamResponse, line: bytes) -> None:
        size = self._step.reply.get("bytes") or len(line)
        for at in range(0, len(line), size):
            await response.write(line[at : at + size])

    def _envelope(self, kind: str) -> dict[str, Any]:
        return {"id": "chatcmpl-1", "object": kind, "created": 1_700_000_000, "model": self._body["model"]}

    def _hang_up(self, response: web.StreamResponse) -> web.StreamResponse:
        self.how = "cut"
        if self._request.transport is not None:
            self._request.transport.close()
        return response
