"""A real `plan serve` in a process of its own, and clients that may send it whatever they like."""

from __future__ import annotations

import http.client
import re
import signal
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.e2e import command
from tests.product import decode

LINK = re.compile(r"(https?)://(\S+)/#token=(\S+)")
Frames = AsyncIterator[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return decode(self.body)

    @property
    def summary(self) -> str:
        """What it says is wrong."""
        return str(self.json["error"]["summary"])


@dataclass(frozen=True, slots=True)
class Served:
    """A gateway that answers, its process, and the tokens of its two links (empty: no such link)."""

    process: subprocess.Popen[str]
    plan: str
    scheme: str
    netloc: str
    change: str
    read: str
    said: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.netloc.rpartition(":")[2])

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.netloc}"

    def path(self, path: str) -> str:
        return f"/v1/plans/{self.plan}/{path}"

    def ask(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        address: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
    ) -> Answer:
        """One request, as written: nothing of `path` or `headers` is made better. `token` None is that for changes."""
        if tls is None:
            connection = http.client.HTTPConnection(address, self.port, timeout=10)
        else:
            connection = http.client.HTTPSConnection(address, self.port, timeout=10, context=tls)
        given = self.change if token is None else token
        sent = {"Host": self.netloc, **({"Authorization": f"Bearer {given}"} if given else {}), **(headers or {})}
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                if value:
                    connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """The answer at `path` of the plan, with the right to change."""
        answer = self.ask("GET", self.path(path))
        assert answer.status == 200, answer
        return answer.json

    def end(self) -> str:
        """Ctrl-C; what it said from then on."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.stdout is not None
        rest = self.process.stdout.read()
        assert self.process.wait() == 0, rest
        return rest


@contextmanager
def served(folder: Path, *words: str) -> Iterator[Served]:
    """`plan serve` in `folder` on a free port, until the block ends, when it must end well and in silence."""
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    with command.start("serve", "--port", "0", *words, cwd=folder, stdout=pipe, stderr=both) as process:
        try:
            gateway = _said(process)
            yield gateway
            if process.poll() is None:
                rest = gateway.end()
                assert rest == "", f"it says what is of no use to who started it:\n{rest}"
        finally:
            process.kill()


def _said(process: subprocess.Popen[str]) -> Served:
    assert process.stdout is not None
    said: list[str] = []
    links: list[re.Match[str]] = []
    plan = ""
    for line in process.stdout:
        said.append(line)
        if link := LINK.search(line):
            plan = plan or line.split()[0]
            links.append(link)
        if "Ctrl-C" in line:
            change = links[0][3] if len(links) > 1 else ""
            return Served(process, plan, links[0][1], links[0][2], change, links[-1][3], said)
    raise AssertionError(f"it ended with {process.wait()}:\n{''.join(said)}")


@asynccontextmanager
async def listening(
    gateway: Served, query: str, *, token: str | None = None, tls: ssl.SSLContext | bool = True
) -> AsyncIterator[Any]:
    """A websocket to the tail, as a program opens it."""
    headers = {"Authorization": f"Bearer {gateway.change if token is None else token}"}
    url = f"{gateway.origin}{gateway.path('tail')}?{query}"
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, headers=headers, protocols=("planloop.v1",), max_msg_size=0, ssl=tls) as socket,
    ):
        yield socket


async def frames(socket: aiohttp.ClientWebSocketResponse) -> Frames:
    """What comes over the tail, until it ends."""
    async for message in socket:
        yield decode(message.data)
