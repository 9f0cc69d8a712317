"""Forward changes to the plan's owner. If none is running, own the plan for the time of the change."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from planloop.client.exit_codes import CommandError
from planloop.client.owner_client import OwnerClient, OwnerGone
from planloop.client.plan_client import PlanClient
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.server import payloads
from planloop.server.gateway.replica import PlanReplica
from planloop.server.read_queries import OwnerInfo

SEEN_S: Final = 2.0  # To wait for the replica after a change, so that the client can read its change back.
HOST_S: Final = 2.0  # An owner answers `status` within a millisecond. Do not wait longer for a hung one.
AUTHOR: Final = "web"  # All changes through the gateway are signed as `human:web`, whatever the body says.
AT_ONCE: Final = 8  # Concurrent changes; each holds a thread.


class OwnerProxy:
    """Client of the owner of the plan of `replica`."""

    def __init__(self, replica: PlanReplica) -> None:
        self._replica = replica
        self._client = PlanClient(replica.place)
        self._owner = OwnerClient(replica.place.folder, timeout_s=HOST_S)
        self._limiter = anyio.CapacityLimiter(AT_ONCE)
        self._host_limiter = anyio.CapacityLimiter(1)

    async def post(self, path: str, body: JsonObject) -> Json:
        """Return the answer to POST `path` once the replica has the change. Raises CommandError."""
        signed = {**body, payloads.AUTHOR_FIELD: AUTHOR}
        answer = await self._in_thread(partial(self._client.post, path, signed))
        if isinstance(answer, dict) and isinstance(rev := answer.get("rev"), int):
            with anyio.move_on_after(SEEN_S):
                await self._replica.until(rev)
        return answer

    async def host(self) -> OwnerInfo:
        """Return the plan's owner process; without a pid if no owner answers in time."""
        try:
            ask = partial(self._owner.get, "status")
            found = await anyio.to_thread.run_sync(ask, limiter=self._host_limiter, abandon_on_cancel=True)
        except (OwnerGone, CommandError):
            file = self._replica.place.file
            return OwnerInfo(self._replica.place.name, file=None if file is None else str(file))
        return OwnerInfo(found["plan"], found["pid"], found["version"], found["file"])

    async def get(self, path: str, query: dict[str, str]) -> Json:
        """Return the owner's answer to GET `path`, for reads that the replica cannot answer. Raises CommandError."""
        return await self._in_thread(partial(self._client.get, path, **query))

    async def _in_thread(self, step: Callable[[], Json]) -> Json:
        # Abandoned when the gateway stops: a hung owner must not delay Ctrl-C.
        return await anyio.to_thread.run_sync(step, limiter=self._limiter, abandon_on_cancel=True)
