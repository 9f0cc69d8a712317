"""The owner's API on its unix socket: who may ask, and from when on. What is answered is the desk's, over HTTP.

The socket listens at once, but HTTP itself (100 ms of imports) is fetched when the first client connects: most short
runs end without one. Only the user who may read the state folder can connect (mode 0600), so there is no other
authentication.
"""

from __future__ import annotations

import importlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread

from planloop.app import sockets
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.record import Record


class Desk(Protocol):
    """Who answers."""

    async def get(self, path: str, query: dict[str, str]) -> Json: ...

    async def post(self, path: str, body: JsonObject) -> Json: ...

    def watch(self, after: int) -> AsyncIterator[Record]: ...

    def hear(self) -> AsyncIterator[JsonObject]: ...


@asynccontextmanager
async def serving(desk: Desk, folder: Path) -> AsyncIterator[tuple[int, ...]]:
    """The API of `desk` on the socket in `folder`, for as long as the block lasts; gives what tells its file."""
    listener: socket.socket = sockets.listen(folder)
    own = sockets.made(folder)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_answer, desk, listener)
            try:
                yield own
            finally:
                sockets.remove(folder, own)
                group.cancel_scope.cancel()
    finally:
        listener.close()


async def _answer(desk: Desk, listener: socket.socket) -> None:
    await anyio.wait_readable(listener)
    # On a thread: the first question must not hold up what runs. The kernel keeps it until we listen to it.
    http_api = await anyio.to_thread.run_sync(importlib.import_module, "planloop.server.http_api")
    await http_api.answer(desk, listener)
