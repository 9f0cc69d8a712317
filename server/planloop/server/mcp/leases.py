"""Tasks that an MCP client may take, and its lease of one: take it, make calls under it, give it back.

Each call has an id, and its result is read from the log, because the owner may crash and be replaced before the call
ends. If the client disconnects or cancels a call, the call is withdrawn.
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
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
from planloop.server.plan_reader import ObjectReader


@frozen
class ExternalRole:
    """A task that the identity may take, with its agent."""

    agent: Resource
    task: Resource

    @property
    def path(self) -> str:
        return self.task.address.partition("/")[2]

    @property
    def holder(self) -> str:
        """The client that holds the lease; empty if none does."""
        return str((self.agent.status.get("seat") or {}).get("client", ""))

    @property
    def is_free(self) -> bool:
        """Whether a client can take the task now."""
        is_open = self.task.state not in ENDED and self.task.status.get("go") is not None
        return is_open and not self.holder and self.agent.status.get("incarnation") == self.task.status.get("go")


def external_roles(objects: ObjectReader, name: str) -> list[ExternalRole]:
    """Return the tasks of the identity `name`: a declared agent, or the path or address of one task's agent."""
    found = [(agent, objects.get(str(agent.spec["task"]))) for agent in _called(objects, name)]
    return [ExternalRole(agent, task) for agent, task in found if task is not None]


def identity_names(objects: ObjectReader) -> list[str]:
    """Return the identities of the plan, without duplicates."""
    return list(dict.fromkeys(agent.spec["prototype"] or agent.address for agent in _external_agents(objects)))


def choose_identities(objects: ObjectReader, wanted: Sequence[str]) -> list[str]:
    """Return the identities to serve: those wanted, or all. Raises CommandError."""
    known = identity_names(objects)
    if not known:
        hint = "declare `agents: {helper: {outside: true}}`, set `agent: helper` on a task, then run plan apply"
        raise CommandError(ExitCode.NOT_FOUND, "no task of the plan has an external agent", hint)
    for name in wanted:
        if not external_roles(objects, name):
            raise CommandError(
                ExitCode.NOT_FOUND, f"the plan has no external agent `{name}`", f"the plan has {', '.join(known)}"
            )
    return list(dict.fromkeys(wanted)) or known


def require_single_identity(objects: ObjectReader, wanted: Sequence[str]) -> str:
    """Return the only identity. Raises CommandError if there are several to choose from."""
    found = choose_identities(objects, wanted)
    if len(found) > 1:
        raise CommandError(
            ExitCode.USAGE, "the plan has several external agents", f"choose one: --as {' or --as '.join(found)}"
        )
    return found[0]


def _external_agents(objects: ObjectReader) -> list[Resource]:
    agents = (each for each in objects.list("agent") if not each.deleting and not each.spec.get("watches"))
    return [agent for agent in agents if agent.spec["mind"]["kind"] == "guest"]


def _called(objects: ObjectReader, name: str) -> list[Resource]:
    """Return the agents with this identity. The name of a declared agent takes precedence over a task's."""
    if any(agent.spec["prototype"] == name for agent in objects.list("agent")):
        return [agent for agent in _external_agents(objects) if agent.spec["prototype"] == name]
    return [agent for agent in _external_agents(objects) if name in (agent.address, agent.address.partition("/")[2])]


CLEANUP_S: Final = 5.0  # To withdraw a call after its client has disconnected.
HAND_OVER_S: Final = 20.0  # To wait for a task that is being released: the owner stops its processes first.
AGAIN_S: Final = 0.5  # Before a request of unknown outcome is repeated.
TRIES_MAX: Final = 20
AT_ONCE: Final = 32  # Concurrent requests to the owner, from all clients. Each uses a thread.

ReportProgress = Callable[[str], Awaitable[None]]


class OwnerPosts(Protocol):
    """Port for blocking POST requests to the owner: `planloop.client.plan_client`."""

    def post(self, path: str, body: JsonObject) -> Json: ...


@frozen
class McpContext:
    """What all MCP clients of a plan share: its owner, its log, the call tracker and a source of ids."""

    owner: OwnerPosts
    log: FollowedReplica
    tracker: CallTracker
    mint: Callable[[], str]
    threads: anyio.CapacityLimiter

    async def act(self, how: str, body: JsonObject) -> JsonObject:
        """Send the request `how` to the owner, or handle it here if no owner is running. Raises CommandError.

        All requests are idempotent, so that one of unknown outcome can be repeated. If the caller is cancelled, the
        request is abandoned, so that a hung owner does not delay the caller. Only `say` is awaited, because its
        withdrawal must follow it.
        """
        is_abandoned = how != "say"
        for attempt in range(TRIES_MAX):
            try:
                post = partial(self.owner.post, f"guest/{how}", body)
                answer: JsonObject = await anyio.to_thread.run_sync(
                    post, limiter=self.threads, abandon_on_cancel=is_abandoned
                )
            except (OSError, OwnerUnanswered):  # The owner was killed before it answered.
                if attempt == TRIES_MAX - 1:
                    raise
                await anyio.sleep(AGAIN_S)
            else:
                return answer
        raise AssertionError("it returns or raises")


@frozen
class TaskLease:
    """Lease on a task held by an MCP client."""

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
    """A client with the identity `name`, its lease, and the number of its running calls."""

    context: McpContext
    name: str
    label: str = "an MCP client"
    lease: TaskLease | None = None
    calls: int = field(default=0)
    _renewed_at: float = field(default=0.0)
    _taking: anyio.Lock = field(default_factory=anyio.Lock)  # So that concurrent requests do not take two tasks.

    def parts(self) -> list[ExternalRole]:
        """Return the tasks of the client's identity."""
        return external_roles(self.context.log, self.name)

    def mine(self) -> TaskLease:
        """Return the client's lease. Raises CommandError if it has none or has lost it."""
        lease = self.lease
        if lease is None:
            raise CommandError(
                ExitCode.REFUSED,
                "you have not taken a task",
                "call `list_tasks` to see the available tasks, then `take_task`",
            )
        agent = self.context.log.get(lease.agent)
        seat = None if agent is None else agent.status.get("seat")
        if seat is None or seat.get("number") != lease.number:
            task = self.context.log.get(lease.task)
            self.lease = None
            if task is not None and task.state in ENDED:
                raise CommandError(ExitCode.REFUSED, f"{lease.task} is {task.state}", "take another: take_task")
            raise CommandError(
                ExitCode.REFUSED, f"you no longer have {lease.task}", "if it is free, take it again: take_task"
            )
        return lease

    def _still(self) -> TaskLease | None:
        with suppress(CommandError):
            return self.mine()
        return None

    async def take(self, path: str, report: ReportProgress) -> TaskLease:
        """Take the task at `path`, by default the first free one. Raises CommandError."""
        async with self._taking:
            return await self._take_one(path, report)

    async def _take_one(self, path: str, report: ReportProgress) -> TaskLease:
        if (mine := self._still()) is not None:
            if path in ("", mine.path, mine.task):
                return mine
            raise CommandError(
                ExitCode.CONFLICT, f"you have {mine.task} already", "finish it (done) or give it back (leave_task)"
            )
        parts = self.parts()
        wanted = [one for one in parts if path in (one.path, one.task.address)] if path else parts
        if not wanted:
            raise CommandError(
                ExitCode.NOT_FOUND,
                f"you may not take `{path}`, or it does not exist",
                "list_tasks shows the tasks that you may take",
            )
        if not path:
            wanted = [one for one in parts if one.is_free] or parts
        refused: CommandError | None = None
        for part in wanted:
            try:
                self.lease = await self._take(part, report)
                return self.lease
            except CommandError as halt:
                refused = refused or halt
        assert refused is not None, "each was refused"
        raise refused

    async def _take(self, part: ExternalRole, report: ReportProgress) -> TaskLease:
        key = self.context.mint()
        body: JsonObject = {"agent": part.agent.address, "key": key, "client": self.label}
        with anyio.move_on_after(HAND_OVER_S):
            while self._is_going(part.agent.address):
                await report(f"waiting until the previous client has released {part.task.address}")
                await self.context.log.moved()
        answer = await self.context.act("take", body)
        await self.context.log.until(int(answer["rev"]))
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
        found = self.context.log.get(agent)
        return found is not None and bool((found.status.get("seat") or {}).get("leaving"))

    def resume(self, key: str) -> None:
        """Resume the lease with the secret `key`, which may have been taken from an earlier process."""
        for part in self.parts():
            seat = part.agent.status.get("seat") or {}
            if hmac.compare_digest(str(seat.get("key", "")), sha256_hex(key.encode())):
                lease_s = float(part.agent.spec["mind"]["lease_s"])
                self.lease = TaskLease(part.agent.address, part.task.address, int(seat["number"]), key, lease_s, "")

    async def leave(self, why: str) -> None:
        """Release the client's lease, if it has one."""
        lease, self.lease = self.lease, None
        if lease is not None:
            with suppress(CommandError, OSError):
                await self.context.act("leave", lease.body(why=why))

    async def keep_alive(self) -> None:
        """Renew the lease after a request that is not a call, if a third of it has passed."""
        lease = self.lease
        if lease is not None and anyio.current_time() - self._renewed_at > lease.lease_s / 3:
            await self._renew(lease)

    async def _renew(self, lease: TaskLease) -> bool:
        """Renew the lease. Return whether an owner is running."""
        self._renewed_at = anyio.current_time()
        with suppress(CommandError, OSError):
            return bool((await self.context.act("renew", lease.body())).get("is_run"))
        return True

    async def call(self, tool: str, arguments: Json, report: ReportProgress) -> CallEnded:
        """Make a call and wait for its result, without a time limit. Without a `tool`, only read the news."""
        lease, said = self.mine(), self.context.mint()
        self.calls += 1
        try:
            with self.context.tracker.call(lease.agent, said) as (listener, heard):
                await self.context.act("say", lease.body(id=said, tool=tool, arguments=arguments))
                self._renewed_at = anyio.current_time()
                async with self.waits(lease, report):
                    return await self._end_of(lease, said, listener, heard, report)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(CLEANUP_S, shield=True):
                await self._withdraw(lease, said)
            raise
        finally:
            self.calls -= 1

    @asynccontextmanager
    async def waits(self, lease: TaskLease, report: ReportProgress) -> AsyncIterator[None]:
        """Renew the lease while the block runs, because the client is waiting for an answer."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._keep, lease, report)
            try:
                yield
            finally:
                group.cancel_scope.cancel()

    async def _keep(self, lease: TaskLease, report: ReportProgress) -> None:
        while True:
            await anyio.sleep(lease.lease_s / 3)
            if not await self._renew(lease):
                await report("the plan is not running; plan apply resumes it")

    async def _end_of(
        self,
        lease: TaskLease,
        said: str,
        listener: CallListener,
        heard: MemoryObjectReceiveStream[CallEvent],
        report: ReportProgress,
    ) -> CallEnded:
        while True:
            if not listener.has_begun and (why := self._never(lease)) and await self._withdraw(lease, said):
                return CallEnded(CallResult(CallState.DENIED, why, "Parked"))
            match await heard.receive():
                case CallEnded() as ended:
                    return ended
                case CallProgress(words=words) if words:
                    await report(words)

    def _never(self, lease: TaskLease) -> str:
        """Return why the agent will not start another turn; empty if it may."""
        agent = self.context.log.get(lease.agent)
        if agent is None:
            return "the agent was removed"
        if agent.state in (AgentState.PARKED, AgentState.ENDED):
            return _in_words(agent)
        return ""

    async def _withdraw(self, lease: TaskLease, said: str) -> bool:
        """Withdraw a call. Return whether it had not started."""
        with suppress(CommandError, OSError):
            return str((await self.context.act("withdraw", lease.body(id=said))).get("was")) == "waiting"
        return False


def _in_words(agent: Resource) -> str:
    unblocks = [
        str(way) for one in agent.status.get("conditions", {}).values() for way in (one or {}).get("unblocks") or ()
    ]
    ways = f"; to continue: {' or '.join(unblocks)}" if unblocks else ""
    return f"{agent.status.get('why') or agent.state}{ways}"
