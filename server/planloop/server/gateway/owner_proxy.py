"""Forward changes to the plan's owner, or open the plan for the moment of a change."""

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

SEEN_S: Final = 2.0  # Who changed something reads it back at once: so long is the replica waited for.
HOST_S: Final = 2.0  # Who runs a plan answers that in a millisecond; one that hangs is not waited for.
SPEAKS: Final = "web"  # Whoever changes something here is signed as `human:web`, whatever the body says.
AT_ONCE: Final = 8  # Changes under way at the same time; each holds a thread.


class OwnerProxy:
    """Posts to the plan of `replica`."""

    def __init__(self, replica: PlanReplica) -> None:
        self._replica = replica
        self._access = PlanClient(replica.place)
        self._owner = OwnerClient(replica.place.folder, timeout_s=HOST_S)
        self._limiter = anyio.CapacityLimiter(AT_ONCE)
        self._asking = anyio.CapacityLimiter(1)

    async def post(self, path: str, body: JsonObject) -> Json:
        """The answer to POST `path`, when what it changed can be read here. Raises CommandError."""
        signed = {**body, payloads.AUTHOR_FIELD: SPEAKS}
        answer = await self._beside(partial(self._access.post, path, signed))
        if isinstance(answer, dict) and isinstance(rev := answer.get("rev"), int):
            with anyio.move_on_after(SEEN_S):
                await self._replica.until(rev)
        return answer

    async def host(self) -> OwnerInfo:
        """Who runs the plan: the owner as it says, or nobody who answers soon."""
        try:
            ask = partial(self._owner.get, "status")
            found = await anyio.to_thread.run_sync(ask, limiter=self._asking, abandon_on_cancel=True)
        except (OwnerGone, CommandError):
            file = self._replica.place.file
            return OwnerInfo(self._replica.place.name, file=None if file is None else str(file))
        return OwnerInfo(found["plan"], found["pid"], found["version"], found["file"])

    async def get(self, path: str, query: dict[str, str]) -> Json:
        """The owner's answer to GET `path`, for what the replica cannot say. Raises CommandError."""
        return await self._beside(partial(self._access.get, path, **query))

    async def _beside(self, step: Callable[[], Json]) -> Json:
        # Left alone when the gateway ends: an owner that hangs must not hold up Ctrl-C.
        return await anyio.to_thread.run_sync(step, limiter=self._limiter, abandon_on_cancel=True)
