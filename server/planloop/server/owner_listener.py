"""Listen on the owner's unix socket, and load the HTTP server for the first client.

The socket listens immediately. The HTTP server (100 ms of imports) is loaded when the first client connects, because
most short runs have none. Only the user who owns the state folder can connect (mode 0600), so other
authentication is not needed.
"""

from __future__ import annotations

import importlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread

from planloop.client import owner_client
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.log.record import Record


class OwnerRequests(Protocol):
    """The answers to the API's requests."""

    async def get(self, path: str, query: dict[str, str]) -> Json: ...

    async def post(self, path: str, body: JsonObject) -> Json: ...

    def watch(self, after: int) -> AsyncIterator[Record]: ...

    def hear(self) -> AsyncIterator[JsonObject]: ...


@asynccontextmanager
async def serve_owner(make_service: Callable[[], OwnerRequests], folder: Path) -> AsyncIterator[tuple[int, ...]]:
    """Serve the API on the socket in `folder` while the block runs. Yields the identity of the socket's file.

    `make_service` is called in a thread when the first client connects.
    """
    listener: socket.socket = owner_client.listen_on_socket(folder)
    own = owner_client.socket_identity(folder)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_answer, make_service, listener)
            try:
                yield own
            finally:
                owner_client.remove_socket(folder, own)
                group.cancel_scope.cancel()
    finally:
        listener.close()


async def _answer(make_service: Callable[[], OwnerRequests], listener: socket.socket) -> None:
    await anyio.wait_readable(listener)
    # In a thread, so that imports do not block the plan. The kernel keeps the request until it is accepted.
    service = await anyio.to_thread.run_sync(make_service)
    owner_api = await anyio.to_thread.run_sync(importlib.import_module, "planloop.server.owner_api")
    await owner_api.serve_socket(service, listener)
