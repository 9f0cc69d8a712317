"""Output of containers and commands in them over the API, also without an owner."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import anyio
import pytest

from planloop.reconciler.store import owner_lock
from tests.e2e.container_harness import IMAGE, ContainerHarness
from tests.golden_text import said
from tests.product import decode
from tests.server.gateway.gateways import Served, served

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]

PLAN = f"""\
plan: p
containers:
  service: {{image: {IMAGE}, env: {{NAME: the service}}}}
"""


@asynccontextmanager
async def _heard(gateway: Served, path: str) -> AsyncIterator[Any]:
    headers = {"Authorization": f"Bearer {gateway.change}"}
    url = f"{gateway.origin}{gateway.path(path)}"
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.ws_connect(url, protocols=("planloop.v1",)) as socket,
    ):
        yield socket


def test_output_is_followed_past_the_end_of_the_owner(harness: ContainerHarness) -> None:
    """The owner is killed while a client listens. The client must reconnect, and then reads from the engine."""
    folder = harness.folder
    folder.write("p.plan.yaml", PLAN)
    assert folder.run("apply", "--yes", "--detach", "p.plan.yaml").code == 0
    harness.until_states(service="running")

    async def follow(gateway: Served) -> None:
        async with _heard(gateway, "containers/service/logs/tail") as socket:
            text = ""
            while "is up" not in text:
                text += decode((await socket.receive()).data)["text"]
            owner = owner_lock.current_owner(harness.place.folder)
            assert owner is not None
            os.kill(owner.pid, signal.SIGKILL)
            message = await socket.receive()
            assert message.type is aiohttp.WSMsgType.CLOSE
            assert message.data == 1012
        async with _heard(gateway, "containers/service/logs/tail") as socket:
            first = decode((await socket.receive()).data)
            assert "the service is up" in first["text"]
            say = ("sh", "-c", "echo no client looks >/proc/1/fd/1")
            await anyio.to_thread.run_sync(harness.said_inside, "service", *say)
            while "no client looks" not in first["text"]:
                first = decode((await socket.receive()).data)

    with served(folder.path) as gateway:
        anyio.run(follow, gateway)
        answer = gateway.ask("GET", gateway.path("containers/service/chat"), headers=UPGRADE)
        assert answer.status == 404
        said(answer.summary, "container/service")
        assert gateway.ask("GET", gateway.path("containers/none/chat"), headers=UPGRADE).status == 404
        assert gateway.ask("GET", gateway.path("containers/none/logs?log=1&before=5")).status == 404
        gone = gateway.ask("GET", gateway.path("containers/service/logs?log=1&before=5"))
        assert gone.status == 404
        said(gone.summary)
    assert folder.run("down").code == 0


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol": "planloop.v1",
}
