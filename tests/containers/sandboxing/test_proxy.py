"""The way out of an enclosure: what is asked of the proxy, and what is asked of a host in its name."""

from __future__ import annotations

import socket
from pathlib import Path

import anyio
import pytest

from planloop.containers.sandbox import proxy
from planloop.containers.sandbox.proxy import ProxyRequest, parse_proxy_request

pytestmark = pytest.mark.anyio


def head(*lines: str) -> bytes:
    return "\r\n".join((*lines, "", "")).encode("latin-1")


@pytest.mark.parametrize(
    "said",
    [
        ["Host: other.example"],
        ["HOST : other.example", "host:other.example"],
        ["Proxy-Authorization: x", "Host: other.example", "Connection: keep-alive"],
        [],
    ],
)
def test_a_request_is_for_the_host_that_was_looked_at(said: list[str]) -> None:
    asked = parse_proxy_request(head("GET http://allowed.example:8080/a?b HTTP/1.1", *said, "Accept: */*"))

    wanted = head("GET /a?b HTTP/1.1", "Host: allowed.example:8080", "Accept: */*", "Connection: close")
    assert asked == ProxyRequest("allowed.example", 8080, wanted)


def test_user_name_before_the_host_is_not_sent() -> None:
    asked = parse_proxy_request(head("GET http://other.example:80@allowed.example/ HTTP/1.1"))

    assert asked is not None and asked.name == "allowed.example:80"
    assert b"\r\nHost: allowed.example\r\n" in asked.head


@pytest.mark.parametrize(
    "lines",
    [
        ["GET http://allowed.example/ HTTP/1.1", "X: a\nHost: other.example"],
        ["GET http://allowed.example/ HTTP/1.1", "X: a\rHost: other.example"],
        ["GET http://allowed.example/ HTTP/1.1", "X: a", " folded"],
        ["GET http://allowed.example/\nX: HTTP/1.1"],
        ["GET https://allowed.example/ HTTP/1.1"],
        ["GET /a HTTP/1.1", "Host: allowed.example"],
        ["CONNECT allowed.example HTTP/1.1"],
        ["hello"],
        [""],
    ],
)
def test_ambiguous_request_is_refused(lines: list[str]) -> None:
    assert parse_proxy_request(head(*lines)) is None


async def test_silent_client_gets_a_response_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "HEAD_S", 0.01)
    async with proxy.serve_proxy(tmp_path, ["*"]), await anyio.connect_unix(tmp_path / proxy.SOCKET) as quiet:
        with anyio.fail_after(45):
            answer = await quiet.receive()

    assert answer.startswith(b"HTTP/1.1 400 ")


async def test_the_socket_of_an_owner_that_was_killed_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / proxy.SOCKET))
        dead.listen()

    async with proxy.serve_proxy(tmp_path, []) as refused, await anyio.connect_unix(tmp_path / proxy.SOCKET) as client:
        await client.send(head("CONNECT a.example:443 HTTP/1.1"))
        answer = await client.receive()

    assert answer.startswith(b"HTTP/1.1 403 ") and refused == ["a.example:443"]
