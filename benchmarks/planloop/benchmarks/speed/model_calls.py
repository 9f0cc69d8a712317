"""Processor time of planloop for a streamed model call over local HTTP, alone and with many calls at the same time.

Floor, in the same run: aiohttp that sends the same bytes and reads the response without parsing it. The server is a
separate process that answers every request with the same streamed reply: some pieces of text, and a tool call.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

CALLS = 2_000
ROUNDS = 5
PIECES = (1, 20)
GOAL = "0.1 to 0.2 ms of processor time per call"
HISTORY = tuple(b'{"role":"user","content":"%b"}' % (b"word " * 100) for _ in range(40))

SERVER = """
import asyncio, json, sys
from aiohttp import web

def event(delta, **more):
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps(chunk | {"choices": [{"index": 0, "delta": delta, **more}]}).encode() + b"\\n\\n"

call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a.txt"}'}}
usage = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":9}}\\n\\n'
pieces = [event({"content": "word "}, finish_reason=None) for _ in range(int(sys.argv[1]))]
ending = [event({"tool_calls": [call]}), event({}, finish_reason="tool_calls"), usage, b"data: [DONE]\\n\\n"]
body = b"".join(pieces + ending)

async def answer(request):
    await request.read()
    return web.Response(body=body, content_type="text/event-stream")

app = web.Application(client_max_size=1 << 26)
app.router.add_post("/v1/chat/completions", answer)

async def main():
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def cpu_ms(once: Callable[[], Awaitable[object]], at_once: int) -> float:
    """Processor time of this process for one call, in ms."""

    async def worker(count: int) -> None:
        for _ in range(count):
            await once()

    await once()
    before = time.process_time()
    await asyncio.gather(*(worker(CALLS // at_once) for _ in range(at_once)))
    return (time.process_time() - before) / (CALLS // at_once * at_once) * 1000


async def measure(url: str) -> None:
    import aiohttp

    from planloop.controllers.agent.models.catalog import ModelEndpoint
    from planloop.controllers.agent.models.chat_request import ChatDialect, encode_body
    from planloop.controllers.agent.models.openai_chat import OpenAIChatAdapter
    from planloop.controllers.agent.models.port import ModelRequest, RequestKey

    request = ModelRequest(RequestKey("agent/a", "u", 1, 1, 1), "x/m", HISTORY)
    endpoint, chat = ModelEndpoint(url, "m"), OpenAIChatAdapter(time.time)
    body = encode_body("m", request, ChatDialect())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def floor() -> None:
            async with session.post(f"{url}/chat/completions", data=body) as response:
                await response.read()

        async def ours() -> None:
            reply = await chat.complete(endpoint, request)
            assert len(reply.calls) == 1

        for at_once in (1, 20, 100):
            pairs = [(await cpu_ms(floor, at_once), await cpu_ms(ours, at_once)) for _ in range(ROUNDS)]
            least, used = (statistics.median(side) for side in zip(*pairs, strict=True))
            print(
                f"{at_once:3} at once: {used:6.3f} ms per call   floor {least:6.3f} ms   {used / least:.1f} × the floor"
            )
    await chat.aclose()


def main() -> None:
    for pieces in PIECES:
        print(f"a reply of {pieces} pieces of text and a tool call")
        server = subprocess.Popen([sys.executable, "-c", SERVER, str(pieces)], stdout=subprocess.PIPE)
        assert server.stdout is not None
        try:
            asyncio.run(measure(f"http://127.0.0.1:{int(server.stdout.readline())}/v1"))
        finally:
            server.terminate()
            server.wait()
    print(f"goal: {GOAL}")


if __name__ == "__main__":
    main()
