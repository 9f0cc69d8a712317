"""Programs from outside in a running plan: the official MCP client over both transports, and `plan mcp` itself."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2 as httpx
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from planloop.server.mcp.server import FACTS
from tests.e2e import command
from tests.e2e.command import PLAN
from tests.e2e.folder import Folder

HANDBOOK = """\
plan: handbook
goal: a handbook
agents:
  helper:
    outside: {lease: 60}
    tools: [lib:work]
    deny: ["shell(git push*)"]
tasks:
  guide:
    goal: write guide.md
    agent: helper
    acceptance: [{contains: {path: guide.md, text: planloop}}]
  print:
    needs: [guide]
    run: cat guide.md
"""


@dataclass(frozen=True)
class Told:
    """What a tool answered."""

    text: str
    facts: Any
    is_error: bool


@dataclass
class Caller:
    """A client in use. `notices` are what the server said unasked, `progress` how calls went on."""

    client: Client
    notices: list[Any] = field(default_factory=list)
    progress: list[str] = field(default_factory=list)

    async def call(self, tool: str, **arguments: Any) -> Told:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            self.progress.append(message or "")

        answer = await self.client.call_tool(tool, arguments, progress_callback=on_progress)
        texts = [part.text for part in answer.content if isinstance(part, types.TextContent)]
        return Told("\n\n".join(texts), (answer.meta or {}).get(FACTS), bool(answer.is_error))

    async def until(self, fits: Callable[[Any], bool]) -> Any:
        """The first unasked word that fits, waiting for it; the test's timeout is the bound."""
        for _ in iter(lambda: any(map(fits, self.notices)), True):
            await anyio.sleep(0.01)
        return next(filter(fits, self.notices))

    async def read(self, uri: str) -> str:
        (content,) = (await self.client.read_resource(uri)).contents
        assert isinstance(content, types.TextResourceContents)
        return content.text


def steps(folder: Folder, type_: str) -> list[Any]:
    """Return the data of every step of that type in the order of the log. A record can have several steps."""
    said = (one for record in folder.records() for one in (record, *record.get("also", ())))
    return [one["data"] for one in said if one["type"] == type_]


async def there(file: Path) -> None:
    """Returns when the file is there; the test's timeout is the bound."""
    for _ in iter(file.exists, True):
        await anyio.sleep(0.02)


@contextmanager
def running(folder: Folder, text: str = HANDBOOK, name: str = "plan.yaml") -> Iterator[None]:
    """The plan, with an owner in the background that stays until the end of the block."""
    with folder.owned(name, text):
        yield


@asynccontextmanager
async def over_stdio(folder: Folder, *words: str, mode: str = "legacy") -> AsyncIterator[Caller]:
    """A client that has started `plan mcp` itself."""
    server = StdioServerParameters(command=PLAN[0], args=[*PLAN[1:], "mcp", *words], cwd=folder.path)
    notices: list[Any] = []

    async def heard(message: Any) -> None:
        notices.append(message)

    async with Client(server, mode=mode, message_handler=heard) as client:
        yield Caller(client, notices)


@dataclass(frozen=True)
class Door:
    """`plan mcp --http`, listening: where, and the token of each identity."""

    url: str
    tokens: dict[str, str]

    @asynccontextmanager
    async def client(self, name: str = "helper", mode: str = "legacy") -> AsyncIterator[Caller]:
        notices: list[Any] = []

        async def heard(message: Any) -> None:
            notices.append(message)

        headers = {"Authorization": f"Bearer {self.tokens[name]}"}
        async with httpx.AsyncClient(headers=headers, timeout=60) as web:
            transport = streamable_http_client(self.url, http_client=web)
            async with Client(transport, mode=mode, message_handler=heard) as client:
                yield Caller(client, notices)


@contextmanager
def over_http(folder: Folder, *words: str) -> Iterator[Door]:
    """`plan mcp --http` on a free port."""
    with command.start("mcp", "--http", "--port", "0", *words, cwd=folder.path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        tokens: dict[str, str] = {}
        url = ""
        for line in process.stdout:
            found = re.fullmatch(r"\S+ as (\S+)  (\S+)  Authorization: Bearer (\S+)\n", line)
            if found is None:
                break
            tokens[found[1]], url = found[3], found[2]
        try:
            yield Door(url, tokens)
        finally:
            process.terminate()
            process.wait()


class Raw:
    """A script that exchanges JSON-RPC lines with `plan mcp`, as an inspector does."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._count = 0
        self.unasked: list[dict[str, Any]] = []

    def tell(self, method: str, **params: Any) -> None:
        self._write({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, **params: Any) -> Any:
        """Return the result of a request. Earlier messages go to `unasked`."""
        return self.answer(self.begin(method, **params))

    def begin(self, method: str, **params: Any) -> int:
        self._count += 1
        self._write({"jsonrpc": "2.0", "id": self._count, "method": method, "params": params})
        return self._count

    def answer(self, number: int) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self.unasked.append(message)
        raise AssertionError("it ended without an answer")

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.ask("tools/call", name=tool, arguments=arguments)

    def kill(self) -> None:
        """Kills `plan mcp`: its client is gone without a word."""
        self._process.kill()

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()


@contextmanager
def by_hand(folder: Folder, *words: str) -> Iterator[Raw]:
    """`plan mcp` with a script at the other end, after the handshake; its input is closed when the block ends."""
    pipe = subprocess.PIPE
    with command.start("mcp", *words, cwd=folder.path, stdin=pipe, stdout=pipe) as process:
        raw = Raw(process)
        try:
            said = {"name": "script", "version": "1"}
            raw.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=said)
            raw.tell("notifications/initialized")
            yield raw
        finally:
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait(20)
