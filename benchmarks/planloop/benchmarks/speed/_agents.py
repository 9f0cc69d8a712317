"""Shared by the scripts about agents: a fast model server in a separate process, and an owner in this process.

The server uses plain sockets, so that it is not what is measured. `owner` is `plan apply` without the screen and the
API: store, gate, engine, all controllers, models over aiohttp.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

# The answer depends on the text of the request: a call of `read` while it has fewer than TURNS results, then text. With
# `hang` in the URL: one word, and then nothing until the connection is closed. With `case`: calls of `read` and `done`
# in one reply. If asked to report, the server prints each request with its time of arrival on stdout.
SERVER = r"""
import asyncio, json, sys, time

turns, reports = int(sys.argv[1]), sys.argv[2] == "report"

def event(delta, **more):
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps(chunk | {"choices": [{"index": 0, "delta": delta, **more}]}).encode() + b"\n\n"

def reply(*events):
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":9}}\n\n'
    body = b"".join((*events, usage, b"data: [DONE]\n\n"))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(body)
    return head + body

def calling(*calls):
    functions = ({"name": name, "arguments": json.dumps(arguments)} for name, arguments in calls)
    called = [
        {"index": at, "id": f"c{at + 1}", "type": "function", "function": one} for at, one in enumerate(functions)
    ]
    return event({"tool_calls": called}), event({}, finish_reason="tool_calls")

callings = [calling(("read", {"path": f"notes/{number}.txt"})) for number in range(turns)]
case = reply(*calling(("read", {"path": "a.txt"}), ("done", {"result": "ok"})))
ending = event({}, finish_reason="stop")
word = event({"content": "Well, "})
hanging = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
hanging += b"%x\r\n%b\r\n" % (len(word), word)

def answer(body):
    # Answers differ between agents, or all conversations would be the same blobs.
    at = body.find(b"You are agent/") + 14
    who = body[at : body.find(b".", at)].decode() if at > 13 else "agent"
    done = body.count(b'"role":"tool"')
    if done >= turns:
        return reply(event({"content": "It is done."}), ending)
    return reply(event({"content": f"{who} looks at note {done}."}), *callings[done])

class Connection(asyncio.Protocol):
    def __init__(self):
        self.buffer = bytearray()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self.buffer[:end]).lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0])
            if len(self.buffer) < end + 4 + length:
                return
            body = bytes(self.buffer[end + 4 : end + 4 + length])
            del self.buffer[: end + 4 + length]
            if reports:
                print(json.dumps([time.monotonic(), len(body), head.split(b" ", 2)[1].decode()]), flush=True)
            path = head.split(b"\r\n", 1)[0]
            self.transport.write(hanging if b"/hang/" in path else case if b"/case/" in path else answer(body))

async def main():
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0, backlog=20_000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


@dataclass
class Server:
    """A running model server: its port, and its reports (time of arrival on the monotonic clock, bytes, path)."""

    port: int
    reports: IO[bytes]

    def url(self, what: str = "v1") -> str:
        return f"http://127.0.0.1:{self.port}/{what}"


@contextmanager
def model_server(turns: int, *, reports: bool = False) -> Iterator[Server]:
    """Run a server whose models call a tool in each of `turns` turns and then end."""
    command = [sys.executable, "-c", SERVER, str(turns), "report" if reports else ""]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield Server(int(process.stdout.readline()), process.stdout)
    finally:
        process.terminate()
        process.wait()


def plan_of(agents: int, url: str) -> str:
    """A plan with `agents` agents, each with a task and the tool `read`."""
    rows = "".join(
        f"  a{n}: {{goal: read the notes, agent: {{model: fast/m, tools: [read]}}}}\n" for n in range(agents)
    )
    bounds = "limits: {parallel: 128, models: {'*': 20000}}"
    return f"plan: p\n{bounds}\nmodels: {{fast: {{url: '{url}', window: 1000000}}}}\ntasks:\n{rows}"


def notes(folder: Path, count: int) -> None:
    """Write the files that the agents read, 40 bytes each."""
    (folder / "notes").mkdir()
    for number in range(count):
        (folder / "notes" / f"{number}.txt").write_text(f"note {number:4}: nothing of importance here.\n")


@dataclass
class Running:
    """A running owner, the turns that its agents have ended, and how often they went to sleep."""

    folder: Path
    core: object
    machine: object
    turns: int = 0
    slept: int = 0

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return when a record makes `holds` true."""
        event = asyncio.Event()

        def look(*_: object) -> None:
            if holds():
                event.set()

        self.core.store.on_change(look)  # type: ignore[attr-defined]
        look()
        await event.wait()


@asynccontextmanager
async def owner(folder: Path, text: str) -> AsyncIterator[Running]:
    """Apply the plan `text` in `folder`, and run its owner."""
    import anyio

    from planloop.client.plan_file import compile_plan
    from planloop.client.plan_paths import paths_of_file
    from planloop.owner import build
    from planloop.reconciler.diff.file_patch import FileSave
    from planloop.server import opened_plan

    file = folder / "p.plan.yaml"
    file.write_text(text)
    made = compile_plan(file, text.encode(), size_max=64 << 20)
    assert not made.errors, made.errors
    async with opened_plan.open_plan(paths_of_file(file, "p")) as core:
        bounds = made.document["limits"]
        machine = build.build_runtime(core, parallel=bounds["parallel"], models=bounds["models"])
        machine.engine.on_bug = lambda bug: print("bug:", bug.address, repr(bug.error))
        running = Running(folder, core, machine)

        def count(record: object, _: object) -> None:
            for one in record.draft.entries:  # type: ignore[attr-defined]
                running.turns += one.type == "turn.ended"
                running.slept += one.type == "agent.slept"

        core.store.on_change(count)
        await core.gate.submit_file(FileSave(file.name, text.encode(), made.document))
        async with anyio.create_task_group() as group:
            group.start_soon(machine.background.run)
            await group.start(machine.engine.run)
            yield running
            group.cancel_scope.cancel()


async def cpu_per_turn(folder: Path, text: str, agents: int, marks: tuple[int, ...]) -> list[float]:
    """Milliseconds of processor time per turn between each two `marks`, average numbers of turns of an agent."""
    found: list[float] = []
    async with owner(folder, text) as running:
        before = 0.0
        for mark, last in zip(marks, (0, *marks), strict=False):
            await running.until(lambda: running.turns >= agents * mark)  # noqa: B023 - awaited here
            now = time.process_time()
            if last:
                found.append((now - before) / (agents * (mark - last)) * 1000)
            before = now
    return found
