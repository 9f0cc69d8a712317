"""Lease of one task by an MCP client: take it, make calls under it, give it back.

A call is said once, under an id of ours, and then waited for in the log: whoever runs the plan may die and be replaced
meanwhile. One whose client goes away or cancels is withdrawn.
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from functools import partial
from typing import Final, Protocol

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.owner_client import OwnerUnanswered
from planloop.schemas.canonical_json import Json, JsonObject, sha256_hex
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.objects.agent import AgentState
from planloop.schemas.objects.call import CallResult, CallState
from planloop.schemas.objects.task import ENDED
from planloop.schemas.resource import Resource
from planloop.server.mcp.call_tracker import (
    CallEnded,
    CallEvent,
    CallListener,
    CallProgress,
    CallTracker,
    FollowedReplica,
)
from planloop.server.mcp.identities import ExternalRole, external_roles

CLEANUP_S: Final = 5.0  # For taking back what a client that goes away has asked for.
HAND_OVER_S: Final = 20.0  # For a task that is being given up to be free: what ran for it is stopped first.
AGAIN_S: Final = 0.5  # Before something that may or may not have been heard is said once more.
TRIES_MAX: Final = 20
AT_ONCE: Final = 32  # Acts under way at the same time, of all clients; each holds a thread.

ReportProgress = Callable[[str], Awaitable[None]]


class OwnerPosts(Protocol):
    """Hands an act to who may do it: `planloop.client.plan_client`. Blocks."""

    def post(self, path: str, body: JsonObject) -> Json: ...


@frozen
class McpContext:
    """What all clients share: the plan, its log, who acts on it, and where ids come from."""

    access: OwnerPosts
    log: FollowedReplica
    following: CallTracker
    mint: Callable[[], str]
    threads: anyio.CapacityLimiter

    async def act(self, how: str, body: JsonObject) -> JsonObject:
        """Has the owner do something, or does it where there is none. Raises CommandError.

        An act that broke off may have been done: each bears being done again. Whoever ends the wait for one leaves it
        alone, so that an owner that hangs holds up nobody who goes; but what is said is waited for, since taking it
        back comes after it.
        """
        is_left_alone = how != "say"
        for attempt in range(TRIES_MAX):
            try:
                post = partial(self.access.post, f"guest/{how}", body)
                answer: JsonObject = await anyio.to_thread.run_sync(
                    post, limiter=self.threads, abandon_on_cancel=is_left_alone
                )
            except (OSError, OwnerUnanswered):  # The owner was killed while it answered.
                if attempt == TRIES_MAX - 1:
                    raise
                await anyio.sleep(AGAIN_S)
            else:
                return answer
        raise AssertionError("it returns or raises")


@frozen
class TaskLease:
    """The seat that a client has."""

    agent: str
    task: str
    number: int
    key: str
    lease_s: float
    briefing: str

    @property
    def path(self) -> str:
        return self.task.partition("/")[2]

    def body(self, **more: Json) -> JsonObject:
        return {"agent": self.agent, "seat": self.number, "key": self.key, **more}


@mutable
class McpClientState:
    """A client with the identity `name`; `taken` is what it has, `calls` how many calls of it are under way."""

    house: McpContext
    name: str
    label: str = "an MCP client"
    taken: TaskLease | None = None
    calls: int = field(default=0)
    _renewed_at: float = field(default=0.0)
    _taking: anyio.Lock = field(default_factory=anyio.Lock)  # Who asks for two tasks at once gets one.

    def parts(self) -> list[ExternalRole]:
        """The tasks of its identity."""
        return external_roles(self.house.log, self.name)

    def mine(self) -> TaskLease:
        """What it has. Raises CommandError when that is nothing, or nothing any more."""
        taken = self.taken
        if taken is None:
            raise CommandError(ExitCode.REFUSED, "you have no task", "list_tasks shows them, take_task takes one")
        agent = self.house.log.get(taken.agent)
        seat = None if agent is None else agent.status.get("seat")
        if seat is None or seat.get("number") != taken.number:
            task = self.house.log.get(taken.task)
            self.taken = None
            if task is not None and task.state in ENDED:
                raise CommandError(ExitCode.REFUSED, f"{taken.task} is {task.state}", "take_task takes another")
            raise CommandError(
                ExitCode.REFUSED, f"{taken.task} is no longer yours", "take_task takes it again, if it is free"
            )
        return taken

    def _still(self) -> TaskLease | None:
        with suppress(CommandError):
            return self.mine()
        return None

    async def take(self, path: str, report: ReportProgress) -> TaskLease:
        """Takes the task at `path`, the first free one if that is empty. Raises CommandError."""
        async with self._taking:
            return await self._take_one(path, report)

    async def _take_one(self, path: str, report: ReportProgress) -> TaskLease:
        if (mine := self._still()) is not None:
            if path in ("", mine.path, mine.task):
                return mine
            raise CommandError(
                ExitCode.CONFLICT, f"you have {mine.task}", "finish it with `done`, or give it back: leave_task"
            )
        parts = self.parts()
        wanted = [one for one in parts if path in (one.path, one.task.address)] if path else parts
        if not wanted:
            raise CommandError(
                ExitCode.NOT_FOUND, f"you have no task `{path}`", "list_tasks shows those that you may take"
            )
        if not path:
            wanted = [one for one in parts if one.is_free] or parts
        refused: CommandError | None = None
        for part in wanted:
            try:
                self.taken = await self._take(part, report)
                return self.taken
            except CommandError as halt:
                refused = refused or halt
        assert refused is not None, "each was refused"
        raise refused

    async def _take(self, part: ExternalRole, report: ReportProgress) -> TaskLease:
        key = self.house.mint()
        body: JsonObject = {"agent": part.agent.address, "key": key, "client": self.label}
        with anyio.move_on_after(HAND_OVER_S):
            while self._is_going(part.agent.address):
                await report(f"{part.task.address} is being given up by who had it")
                await self.house.log.moved()
        answer = await self.house.act("take", body)
        await self.house.log.until(int(answer["rev"]))
        self._renewed_at = anyio.current_time()
        return TaskLease(
            part.agent.address,
            part.task.address,
            int(answer["seat"]),
            key,
            float(answer["lease_s"]),
            str(answer["briefing"]),
        )

    def _is_going(self, agent: str) -> bool:
        found = self.house.log.get(agent)
        return found is not None and bool((found.status.get("seat") or {}).get("leaving"))

    def go_on(self, key: str) -> None:
        """Has what the lease `key` says it has: it may have been taken before this process began."""
        for part in self.parts():
            seat = part.agent.status.get("seat") or {}
            if hmac.compare_digest(str(seat.get("key", "")), sha256_hex(key.encode())):
                lease_s = float(part.agent.spec["mind"]["lease_s"])
                self.taken = TaskLease(part.agent.address, part.task.address, int(seat["number"]), key, lease_s, "")

    async def leave(self, why: str) -> None:
        """Gives back what it has; nothing when that is nothing."""
        taken, self.taken = self.taken, None
        if taken is not None:
            with suppress(CommandError, OSError):
                await self.house.act("leave", taken.body(why=why))

    async def seen(self) -> None:
        """It has shown that it lives, without a call: said on when a good part of its lease is over."""
        taken = self.taken
        if taken is not None and anyio.current_time() - self._renewed_at > taken.lease_s / 3:
            await self._renew(taken)

    async def _renew(self, taken: TaskLease) -> bool:
        """Whether somebody runs the plan."""
        self._renewed_at = anyio.current_time()
        with suppress(CommandError, OSError):
            return bool((await self.house.act("renew", taken.body())).get("is_run"))
        return True

    async def call(self, tool: str, arguments: Json, report: ReportProgress) -> CallEnded:
        """Makes a call and gives what came of it, however long that takes. No `tool`: only hears what is new."""
        taken, said = self.mine(), self.house.mint()
        self.calls += 1
        try:
            with self.house.following.call(taken.agent, said) as (listener, heard):
                await self.house.act("say", taken.body(id=said, tool=tool, arguments=arguments))
                self._renewed_at = anyio.current_time()
                async with self.waits(taken, report):
                    return await self._end_of(taken, said, listener, heard, report)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(CLEANUP_S, shield=True):
                await self._withdraw(taken, said)
            raise
        finally:
            self.calls -= 1

    @asynccontextmanager
    async def waits(self, taken: TaskLease, report: ReportProgress) -> AsyncIterator[None]:
        """Its client waits for an answer as long as the block lasts: that is a sign of life, and keeps its lease."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._keep, taken, report)
            try:
                yield
            finally:
                group.cancel_scope.cancel()

    async def _keep(self, taken: TaskLease, report: ReportProgress) -> None:
        while True:
            await anyio.sleep(taken.lease_s / 3)
            if not await self._renew(taken):
                await report("nobody runs the plan now: plan apply goes on with it")

    async def _end_of(
        self,
        taken: TaskLease,
        said: str,
        listener: CallListener,
        heard: MemoryObjectReceiveStream[CallEvent],
        report: ReportProgress,
    ) -> CallEnded:
        while True:
            if not listener.has_begun and (why := self._never(taken)) and await self._withdraw(taken, said):
                return CallEnded(CallResult(CallState.DENIED, why, "Parked"))
            match await heard.receive():
                case CallEnded() as ended:
                    return ended
                case CallProgress(words=words) if words:
                    await report(words)

    def _never(self, taken: TaskLease) -> str:
        """Why its agent will take no turn by itself; empty when it may."""
        agent = self.house.log.get(taken.agent)
        if agent is None:
            return "the agent is gone"
        if agent.state in (AgentState.PARKED, AgentState.ENDED):
            return _in_words(agent)
        return ""

    async def _withdraw(self, taken: TaskLease, said: str) -> bool:
        """Takes a call back; whether it had not begun."""
        with suppress(CommandError, OSError):
            return str((await self.house.act("withdraw", taken.body(id=said))).get("was")) == "waiting"
        return False


def _in_words(agent: Resource) -> str:
    unblocks = [
        str(way) for one in agent.status.get("conditions", {}).values() for way in (one or {}).get("unblocks") or ()
    ]
    ways = f"; {' or '.join(unblocks)} would help" if unblocks else ""
    return f"{agent.status.get('why') or agent.state}{ways}"
