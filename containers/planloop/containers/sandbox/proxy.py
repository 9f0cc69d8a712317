"""HTTP proxy for sandboxes without a network: listens on a unix socket of the owner and allows only listed hosts.

It tunnels (`CONNECT`), forwards plain HTTP requests, and resolves names itself: the sandbox has no DNS that could leak
data. Refused hosts are listed at the end of the command's output.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteStream

from planloop.schemas import limits, patterns
from planloop.schemas.frozen import frozen

SOCKET: Final = "proxy"
HEAD_BYTES_MAX: Final = 64 << 10
PIECE_BYTES: Final = 64 << 10
HEAD_S: Final = 30.0  # For the whole head of a request. A silent client does not block others.
CONNECT_S: Final = 30.0
HTTP_PORT: Final = 80
_OURS: Final = ("proxy-", "connection:", "host:")  # Headers that the proxy sets itself, or drops.
_FORGED: Final = re.compile(r"[\r\n\0]|^[ \t]")
"""Characters in a header line that some programs take as its end, or as a continuation of the previous line."""

_ENDS: Final = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


@frozen
class ProxyRequest:
    """The target of a request, and the first bytes to send to it, empty for a tunnel. Its `Host` is the target."""

    host: str
    port: int
    head: bytes

    @property
    def name(self) -> str:
        return f"{self.host}:{self.port}"


@asynccontextmanager
async def serve_proxy(folder: Path, hosts: Sequence[str]) -> AsyncIterator[list[str]]:
    """Listen at `proxy` in `folder` during the block. Yields the growing list of refused hosts."""
    refused: list[str] = []
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # The path of a socket has at most 108 bytes, but plans may be in deep folders.
        listener = await anyio.create_unix_listener(f"/proc/self/fd/{handle}/{SOCKET}", mode=0o600)
        slots = anyio.Semaphore(limits.SANDBOX_CONNECTIONS_MAX)

        async def answer(client: ByteStream) -> None:
            async with client, slots:
                with suppress(*_ENDS, OSError):
                    await _answer(client, hosts, refused)

        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, answer)
            try:
                yield refused
            finally:
                group.cancel_scope.cancel()
    finally:
        os.close(handle)


async def _answer(client: ByteStream, hosts: Sequence[str], refused: list[str]) -> None:
    head, rest = b"", b""
    with anyio.move_on_after(HEAD_S):
        head, rest = await _head(client)
    asked = parse_proxy_request(head)
    if asked is None:
        await client.send(_response(400, "this proxy supports only http and https"))
        return
    if not is_host_allowed(asked.name, hosts):
        if asked.name not in refused and len(refused) < limits.SANDBOX_REFUSALS_TOLD:
            refused.append(asked.name)
        words = f"access to {asked.name} is not allowed. Add it to `rights: {{hosts: [...]}}` in the plan"
        await client.send(_response(403, words))
        return
    try:
        with anyio.fail_after(CONNECT_S):
            server = await anyio.connect_tcp(asked.host, asked.port)
    except (OSError, TimeoutError, ValueError) as error:  # ValueError: the name is invalid.
        await client.send(_response(502, f"{asked.name} does not respond: {error}"))
        return
    async with server:
        if asked.head:
            await server.send(asked.head + rest)
        else:
            await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            if rest:
                await server.send(rest)
        async with anyio.create_task_group() as group:
            group.start_soon(_pour, client, server)
            await _pour(server, client)
            group.cancel_scope.cancel()


async def _head(client: ByteStream) -> tuple[bytes, bytes]:
    """Read the head of a request with its empty line, and the bytes after it. A head that is too long is invalid."""
    data = b""
    while b"\r\n\r\n" not in data and len(data) < HEAD_BYTES_MAX:
        data += await client.receive(PIECE_BYTES)
    head, end, rest = data.partition(b"\r\n\r\n")
    return head + end, rest


async def _pour(source: ByteStream, sink: ByteStream) -> None:
    with suppress(*_ENDS, OSError):
        async for piece in source:
            await sink.send(piece)
    with suppress(*_ENDS, OSError):
        await sink.send_eof()


def parse_proxy_request(head: bytes) -> ProxyRequest | None:
    """The target of a request to the proxy; None for an invalid request."""
    lines = head.decode("latin-1").split("\r\n")
    if any(map(_FORGED.search, lines)):
        return None
    method, _, rest = lines[0].partition(" ")
    target, _, version = rest.rpartition(" ")
    if not version.startswith("HTTP/1."):
        return None
    try:
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        port = parts.port
    except ValueError:
        return None
    if not parts.hostname or (method == "CONNECT" and port is None) or parts.scheme not in ("", "http"):
        return None
    if method == "CONNECT":
        return ProxyRequest(parts.hostname, port or 0, b"")
    if parts.scheme != "http":
        return None
    path = parts._replace(scheme="", netloc="").geturl() or "/"
    # Servers select a site by `Host`, so it is always the host that was checked, whatever the request contains.
    host = parts.netloc.rpartition("@")[2]
    kept = [line for line in lines[1:-2] if not _name_of(line).startswith(_OURS)]
    sent = [f"{method} {path} {version}", f"Host: {host}", *kept, "Connection: close", "", ""]
    return ProxyRequest(parts.hostname, port or HTTP_PORT, "\r\n".join(sent).encode("latin-1"))


def _name_of(line: str) -> str:
    return line.partition(":")[0].strip().lower() + ":"


def is_host_allowed(name: str, hosts: Sequence[str]) -> bool:
    """Whether `host:port` matches one of the patterns `hosts`."""
    return patterns.name_matches([each.lower() for each in hosts], name.lower())


def _response(code: int, words: str) -> bytes:
    body = f"planloop: {words}\n".encode()
    head = f"HTTP/1.1 {code} planloop\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body
