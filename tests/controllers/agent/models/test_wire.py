"""Answers as bytes: proxies that close early, compress, state wrong lengths or send long headers."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from planloop.controllers.agent.models.catalog import ModelEndpoint
from planloop.controllers.agent.models.openai_chat import OpenAIChatAdapter
from tests.controllers.agent.models.test_bodies import DONE, END, HALF, WHOLE, delta, event
from tests.controllers.agent.models.test_openai_chat import request
from tests.product import ModelFailed, SystemClock

pytestmark = pytest.mark.anyio

STREAM, REPLY = (HALF + END + DONE).encode(), json.dumps(WHOLE).encode()
CLOSE = "Connection: close\r\n"


def answer(body: bytes, headers: str = CLOSE, status: str = "200 OK", version: str = "1.1") -> bytes:
    return f"HTTP/{version} {status}\r\n{headers}\r\n".encode() + body


def chunked(*pieces: str) -> bytes:
    """Chunks without the last one, which is empty: the connection ends before it."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(one.encode()), one.encode()) for one in pieces)
    return answer(body, "Transfer-Encoding: chunked\r\n")


def packed(body: bytes, said: str = "Content-Encoding: gzip\r\n", status: str = "200 OK") -> bytes:
    return answer(body, CLOSE + said, status)


@asynccontextmanager
async def answering(content: bytes) -> AsyncIterator[str]:
    """A server that answers each request with `content` and closes the connection."""

    async def serve(stream: SocketStream) -> None:
        async with stream:
            asked = b""
            while b"\r\n\r\n" not in asked:
                asked += await stream.receive()
            head, _, body = asked.partition(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            while len(body) < length:
                body += await stream.receive()
            await stream.send(content)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/v1"
        group.cancel_scope.cancel()


async def outcome(content: bytes) -> str:
    """The text of the reply, or the reason of the failure."""
    chat = OpenAIChatAdapter(SystemClock().now)
    async with answering(content) as url:
        try:
            return (await chat.complete(ModelEndpoint(url, "m"), request())).text
        except ModelFailed as failed:
            return failed.reason
        finally:
            await chat.aclose()


ANSWERS = {
    "HTTP/1.0 without a length": (answer(STREAM, "", version="1.0"), "yes"),
    "HTTP/1.0 without a length, whole": (answer(REPLY, "", version="1.0"), "yes"),
    "a length that is too large, a stream": (answer(STREAM, "Content-Length: 5000\r\n"), "yes"),
    "a length that is too large, whole": (answer(REPLY, "Content-Length: 5000\r\n"), "yes"),
    "closed after the end was stated": (chunked(HALF, END), "yes"),
    "closed before the end was stated": (chunked(HALF), "CutOff"),
    "closed in a whole reply": (answer(REPLY[:40], "Content-Length: 5000\r\n"), "CutOff"),
    "closed, an end in each piece": (chunked(*[event(delta("yes", "stop"))] * 3), "CutOff"),
    "gzip": (packed(gzip.compress(STREAM)), "yes"),
    "gzip that no header states": (packed(gzip.compress(STREAM), ""), "yes"),
    "gzip in two parts": (packed(gzip.compress(HALF.encode()) + gzip.compress((END + DONE).encode())), "yes"),
    "gzip that is none": (packed(STREAM), "yes"),
    "deflate": (packed(zlib.compress(STREAM), "Content-Encoding: deflate\r\n"), "yes"),
    "gzip of an error": (packed(gzip.compress(b'{"error": "prompt is too long"}'), status="400 X"), "ContextTooLong"),
    "gzip that is damaged": (packed(gzip.compress(STREAM)[:20] + b"x" * 40), "Garbage"),
    "gzip of more than any reply has": (packed(gzip.compress(b" " * (40 << 20), 1)), "Garbage"),
    "a header of 20,000 characters": (answer(STREAM, f"X-Policy: {'a' * 20_000}\r\n{CLOSE}"), "yes"),
    "status 201": (answer(REPLY, status="201 Created"), "yes"),
    "status 204": (answer(b"", status="204 No Content"), "CutOff"),
    "hints before the answer": (b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" + answer(REPLY), "yes"),
    "a page": (answer(b"<!doctype html><html>"), "Garbage"),
    "nothing": (b"", "CutOff"),
}


async def test_an_answer_is_read_as_far_as_it_came() -> None:
    found = {name: await outcome(content) for name, (content, _) in ANSWERS.items()}

    assert found == {name: wanted for name, (_, wanted) in ANSWERS.items()}
