"""The log over a websocket of a real `plan serve`, while another process writes it: every revision once, in order."""

from __future__ import annotations

import shutil
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from planloop.reconciler.store import state_files
from tests.golden_text import said
from tests.server.gateway.gateways import Answer, Served, frames, listening, served
from tests.server.gateway.writers import Writer, deleted, writing

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Where the state of the plan `demo` is going to be."""
    return tmp_path / ".plan" / "demo"


@pytest.fixture
def writer(state: Path) -> Iterator[Writer]:
    with writing(state) as writer:
        yield writer


@pytest.fixture
def gateway(state: Path, writer: Writer) -> Iterator[Served]:
    with served(state.parent.parent) as gateway:
        yield gateway


class Watcher:
    """A listener that reconnects as needed and counts the frames."""

    def __init__(self, after: int) -> None:
        self.rev = after
        self.log = ""

    def take(self, records: list[dict[str, int]]) -> None:
        for record in records:
            assert record["rev"] == self.rev + 1, "every revision once, in order"
            self.rev = record["rev"]

    async def listen(self, gateway: Served, until: int, *, drop: bool = False) -> None:
        """Until that revision is there; with `drop` only some of the frame that brings it is taken, as in a crash."""
        async with listening(gateway, f"after={self.rev}&log={self.log}") as socket:
            async for frame in frames(socket):
                records = frame["records"]
                self.take(
                    records[: max(1, len(records) // 2)] if drop and self.rev + len(records) >= until else records
                )
                if self.rev >= until or (drop and self.rev + len(records) >= until):
                    assert socket._writer is not None
                    socket._writer.transport.abort()  # Like a network failure: without a close frame.
                    return
        raise AssertionError(f"it ended with {socket.close_code}")


@pytest.mark.process
async def test_every_revision_arrives_once_and_in_order_through_twenty_reconnects(
    gateway: Served, writer: Writer
) -> None:
    watcher, last = Watcher(0), writer.rev + 5_000
    writer.start(5_000, 1_000)

    for _ in range(20):
        await watcher.listen(gateway, watcher.rev + 200, drop=True)
    await watcher.listen(gateway, last)

    assert watcher.rev == writer.wait() == last


@pytest.mark.process
async def test_late_listener_gets_everything_and_then_what_is_new(gateway: Served, writer: Writer) -> None:
    writer.write(2_500)
    early, late = Watcher(writer.rev), Watcher(0)
    last = writer.rev + 300
    writer.start(300, 10_000)

    await late.listen(gateway, last)
    await early.listen(gateway, last)

    assert early.rev == late.rev == writer.wait()


@pytest.mark.process
async def test_an_owner_that_is_killed_and_replaced_is_not_noticed(
    gateway: Served, writer: Writer, state: Path
) -> None:
    watcher = Watcher(0)
    async with listening(gateway, "after=0") as socket:
        writer.kill()
        with writing(state) as successor:
            last = successor.write(50)
            async for frame in frames(socket):
                watcher.take(frame["records"])
                if watcher.rev == last:
                    break
    assert gateway.get("status")["epoch"] == 2


def _until(gateway: Served, status: int) -> Answer:
    """What it answers once it has taken note of what became of the log, a moment ago."""
    answer = gateway.ask("GET", gateway.path("objects"))
    while answer.status != status:
        answer = gateway.ask("GET", gateway.path("objects"))
    return answer


async def _closed(socket: aiohttp.ClientWebSocketResponse) -> int | None:
    async for _ in frames(socket):
        pass
    return socket.close_code


@pytest.mark.process
async def test_log_that_is_deleted_and_recreated_starts_again(gateway: Served, writer: Writer, state: Path) -> None:
    last = writer.write(100)
    while (before := gateway.get("status"))["rev"] != last:
        pass  # What is durable is read a moment later.
    async with listening(gateway, "after=0") as socket:
        writer.kill()
        deleted(state.parent)
        with writing(state) as successor:
            assert await _closed(socket) == 4409
            while not (now := _until(gateway, 200).json)["log"]:
                pass  # It is there, and its first record is on its way.
            assert now["log"] != before["log"]
            # A listener of the old log is informed, even if its revisions are not beyond the new ones.
            for query in (f"after=1&log={before['log']}", f"after={before['rev']}&log={now['log']}"):
                async with listening(gateway, query) as stale:
                    assert await _closed(stale) == 4409
            watcher = Watcher(0)
            watcher.log = now["log"]
            await watcher.listen(gateway, successor.write(10))


@pytest.mark.process
async def test_missing_log_is_reported_until_there_is_one(gateway: Served, writer: Writer, state: Path) -> None:
    writer.kill()
    aside = state.with_name("aside")
    state.rename(aside)

    answer = _until(gateway, 404)
    assert answer.status == 404
    said(answer.summary)

    aside.rename(state)
    with writing(state) as successor:
        await Watcher(0).listen(gateway, successor.write(10))


@pytest.mark.process
async def test_an_older_copy_put_in_its_place_is_another_log(
    gateway: Served, writer: Writer, state: Path, tmp_path: Path
) -> None:
    writer.kill()
    copy = tmp_path / "copy"
    shutil.copytree(state, copy)
    with writing(state) as more:
        known = more.write(500)
        more.kill()
    async with listening(gateway, "after=0") as socket:
        watcher = Watcher(0)
        async for frame in frames(socket):
            watcher.take(frame["records"])
            if watcher.rev == known:
                break
        deleted(state)
        copy.rename(state)
        assert await _closed(socket) == 4409
    assert gateway.get("status")["rev"] < known


@pytest.mark.process
async def test_damaged_log_is_reported_and_read_again_once_it_is_intact(
    gateway: Served, writer: Writer, state: Path
) -> None:
    writer.write(50)
    writer.kill()
    log = state_files.log_file(state)
    whole = {file: file.read_bytes() for file in state.glob("log.db*")}

    beside = state / "damaged"
    beside.write_bytes(b"no database" * 1000)
    for file in whole:
        file.unlink()
    beside.rename(log)
    answer = _until(gateway, 502)
    said(answer.summary)

    for file, content in whole.items():
        beside.write_bytes(content)
        beside.rename(file)
    with writing(state) as successor:
        await Watcher(0).listen(gateway, successor.write(1))


@pytest.mark.process
async def test_new_links_disconnect_clients_of_the_old_ones(gateway: Served, writer: Writer, state: Path) -> None:
    async with listening(gateway, "after=0", token=gateway.read) as socket:
        with served(state.parent.parent, "--new-links") as other:
            assert await _closed(socket) == 1008
            assert gateway.ask("GET", "/v1/session").status == 401
            assert gateway.ask("GET", "/v1/session", token=other.change).json["right"] == "change"


@pytest.mark.process
async def test_ctrl_c_tells_listeners_and_is_quick(gateway: Served, writer: Writer) -> None:
    async with listening(gateway, "after=0") as socket, listening(gateway, "words=1") as other:
        gateway.process.send_signal(2)
        assert (await _closed(socket), await _closed(other)) == (1001, 1001)
    assert gateway.process.wait() == 0


@pytest.mark.process
async def test_client_that_leaves_during_the_handshake_is_not_reported(gateway: Served) -> None:
    head = [
        f"GET {gateway.path('tail')} HTTP/1.1",
        f"Host: {gateway.netloc}",
        f"Authorization: Bearer {gateway.change}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol: planloop.v1",
    ]
    for _ in range(200):
        with socket.create_connection(("127.0.0.1", gateway.port)) as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # It is cut, not closed.
            line.sendall("\r\n".join([*head, "", ""]).encode())

    assert gateway.end() == ""
