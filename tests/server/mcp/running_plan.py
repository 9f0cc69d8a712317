"""A running plan in this process, with clients that act on it as those of `plan mcp` do, but for the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.from_thread

from planloop.client.owner_client import OwnerUnanswered
from planloop.client.plan_paths import PlanPaths
from planloop.server import external_agents
from planloop.server.mcp.call_tracker import CallTracker
from planloop.server.mcp.leases import AT_ONCE, McpClientState, McpContext
from planloop.server.mcp.tool_handlers import ToolAnswer, ToolHandlers
from planloop.server.opened_plan import OpenedPlan
from tests.controllers.agent.arena import Arena, arena
from tests.product import CommandExit as Exit
from tests.product import Json, JsonObject, RandomIds, Record, Resource


@dataclass
class StoreLog:
    """The store's view as the replica of it that a process of its own would have."""

    here: Arena
    _moved: anyio.Event = field(default_factory=anyio.Event)

    @property
    def rev(self) -> int:
        return self.here.store.view.rev

    def get(self, address: str) -> Resource | None:
        return self.here.store.view.get(address)

    def list(self, kind: str) -> Sequence[Resource]:
        return self.here.store.view.list(kind)

    async def until(self, rev: int) -> None:
        await self.here.until(lambda: self.rev >= rev)

    async def moved(self) -> None:
        await self._moved.wait()

    def wake(self) -> None:
        moved, self._moved = self._moved, anyio.Event()
        moved.set()


@dataclass
class Posts:
    """Acts on the plan from a worker thread, as over the owner's socket. `broken` acts break off after they are done.

    `hindered` raises in their place.
    """

    core: OpenedPlan
    broken: int = 0

    def post(self, path: str, body: JsonObject) -> Json:
        async def act() -> Json:
            return await external_agents.handle_request(self.core, path.removeprefix("guest/"), body, is_run=True)

        answer = anyio.from_thread.run(act)
        if self.broken:
            self.broken -= 1
            raise OwnerUnanswered(Exit.FAILED)
        return answer


@dataclass
class Caller:
    """One client. `progress` is what it was told while calls were under way."""

    client: McpClientState
    progress: list[str] = field(default_factory=list)

    async def call(self, tool: str, **arguments: Any) -> ToolAnswer:
        return await ToolHandlers(self.client).do(tool, arguments, self.report)

    async def report(self, words: str) -> None:
        self.progress.append(words)


@dataclass
class RunningPlan:
    """The plan, and who came to it."""

    here: Arena
    running: McpContext
    posts: Posts

    def caller(self, name: str = "helper", label: str = "ann 1.0") -> Caller:
        return Caller(McpClientState(self.running, name, label))

    async def seat(self, agent: str = "agent/guide") -> JsonObject | None:
        found: JsonObject | None = self.here.get(agent).status.get("seat")
        return found


@asynccontextmanager
async def run_plan(folder: Path, text: str, **more: Any) -> AsyncIterator[RunningPlan]:
    """The plan of `text` (its first line is made) with an owner, in `folder`."""
    async with arena(folder, **more) as here:
        if text:
            await here.apply(text)
        place = PlanPaths("arena", folder / ".plan" / "arena")
        core = OpenedPlan(
            place,
            here.store,
            here.store.reader,
            here.gate,
            here.world.clock,
            here.world.ids,
            cast("Any", None),
            had_plan=True,
        )
        log, following, posts = StoreLog(here), CallTracker(), Posts(core)

        def heard(record: Record, _: Sequence[str]) -> None:
            following.note(record)
            log.wake()

        here.store.on_change(heard)
        running = McpContext(posts, log, following, RandomIds().mint, anyio.CapacityLimiter(AT_ONCE))
        yield RunningPlan(here, running, posts)
