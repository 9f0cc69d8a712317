"""Changes, handed on to whoever may make them: the plan's owner, or, with none alive, a moment of owning it here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from planloop.app.access import Access
from planloop.app.client import OwnerClient, OwnerGone
from planloop.app.exits import Halt
from planloop.schemas.encoding import Json, JsonObject
from planloop.server import authors
from planloop.server.answering import Host
from planloop.server.gateway.replica import Replica

SEEN_S: Final = 2.0  # Who changed something reads it back at once: so long is the replica waited for.
HOST_S: Final = 2.0  # Who runs a plan answers that in a millisecond; one that hangs is not waited for.
SPEAKS: Final = "web"  # Whoever changes something here is signed as `human:web`, whatever the body says.
AT_ONCE: Final = 8  # Changes under way at the same time; each holds a thread.


class Forwarding:
    """Posts to the plan of `replica`."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._access = Access(replica.place)
        self._owner = OwnerClient(replica.place.folder, timeout_s=HOST_S)
        self._limiter = anyio.CapacityLimiter(AT_ONCE)
        self._asking = anyio.CapacityLimiter(1)

    async def post(self, path: str, body: JsonObject) -> Json:
        """The answer to POST `path`, when what it changed can be read here. Raises Halt."""
        signed = {**body, authors.BY: SPEAKS}
        answer = await self._beside(partial(self._access.post, path, signed))
        if isinstance(answer, dict) and isinstance(rev := answer.get("rev"), int):
            with anyio.move_on_after(SEEN_S):
                await self._replica.until(rev)
        return answer

    async def host(self) -> Host:
        """Who runs the plan: the owner as it says, or nobody who answers soon."""
        try:
            ask = partial(self._owner.get, "status")
            found = await anyio.to_thread.run_sync(ask, limiter=self._asking, abandon_on_cancel=True)
        except (OwnerGone, Halt):
            file = self._replica.place.file
            return Host(self._replica.place.name, file=None if file is None else str(file))
        return Host(found["plan"], found["pid"], found["version"], found["file"])

    async def get(self, path: str, query: dict[str, str]) -> Json:
        """The owner's answer to GET `path`, for what the replica cannot say. Raises Halt."""
        return await self._beside(partial(self._access.get, path, **query))

    async def _beside(self, step: Callable[[], Json]) -> Json:
        # Left alone when the gateway ends: an owner that hangs must not hold up Ctrl-C.
        return await anyio.to_thread.run_sync(step, limiter=self._limiter, abandon_on_cancel=True)
