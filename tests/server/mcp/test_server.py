"""The MCP server of an identity: what it keeps of its clients."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import pytest
from mcp import Client as Asking

from planloop.server.mcp.call_tracker import CallTracker
from planloop.server.mcp.leases import McpClientState, McpContext, OwnerPosts, TaskLease
from planloop.server.mcp.server import NOTIFY_S, IdentityServer, McpSession, surplus
from tests.product import Json, JsonObject, Record, RecordDraft, Resource, SetStatus, Uid

HOUSE = cast("Any", None)
TAKEN = TaskLease("agent/guide", "task/guide", 1, "key", 60.0, "")
VISITORS = {
    "works": McpSession(McpClientState(HOUSE, "helper", lease=TAKEN)),
    "listens": McpSession(McpClientState(HOUSE, "helper"), subscriptions={"planloop://demo/plan"}),
    "idle": McpSession(McpClientState(HOUSE, "helper")),
    "works, too": McpSession(McpClientState(HOUSE, "helper", lease=TAKEN)),
}


class Still:
    """The log of a plan with one task, in which nothing happens."""

    rev = 1

    def get(self, address: str) -> Resource | None:
        return Resource(address, Uid("t"), 1, {"goal": "a guide"}, {}) if address == "task/guide" else None

    def list(self, kind: str) -> Sequence[Resource]:
        spec = {"task": "task/guide", "prototype": "helper", "mind": {"kind": "guest", "lease_s": 60.0}}
        return [Resource("agent/guide", Uid("a"), 1, spec, {})] if kind == "agent" else []

    async def until(self, rev: int) -> None:
        raise AssertionError("nothing is waited for")

    async def moved(self) -> None:
        await anyio.sleep_forever()


class Hung:
    """An owner that answers when it `goes_on`, or after a long time."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.has_answered = False

    def post(self, path: str, body: JsonObject) -> Json:
        self.goes_on.wait(NOTIFY_S)
        self.has_answered = True
        return {}


def a_house(access: OwnerPosts | None = None) -> McpContext:
    return McpContext(access or Hung(), Still(), CallTracker(), lambda: "id", anyio.CapacityLimiter(1))


@pytest.mark.anyio
async def test_listener_is_told_the_end_when_the_server_ends() -> None:
    speaking = IdentityServer(a_house(), "demo", "helper", is_http=False)
    async with AsyncExitStack() as stack:
        asking = await stack.enter_async_context(Asking(speaking.server, mode="2026-07-28"))
        async with speaking.notifying():
            listens = asking.listen(resource_subscriptions=["planloop://demo/task/guide"])
            events = await stack.enter_async_context(listens)
        assert [event async for event in events] == []


@dataclass
class Reader:
    """A session that reads its messages, or never does."""

    reads: bool = True
    told: list[str] = field(default_factory=list)
    is_told: anyio.Event = field(default_factory=anyio.Event)

    async def send_resource_updated(self, uri: str) -> None:
        if not self.reads:
            await anyio.sleep_forever()
        self.told.append(uri)
        self.is_told.set()


def changed(rev: int, address: str) -> Record:
    return Record(rev, 0.0, 1, RecordDraft("test.changed", "test", address, (SetStatus(address, Uid("t"), {}),)))


@pytest.mark.anyio
async def test_listener_that_does_not_read_delays_no_other_and_gets_news_on_request() -> None:
    running, task, locks = a_house(), "planloop://demo/task/guide", "planloop://demo/locks"
    speaking = IdentityServer(running, "demo", "helper", is_http=True)
    silent = [McpSession(McpClientState(running, "helper"), cast("Any", Reader(reads=False)), {task}) for _ in range(5)]
    reader = Reader()
    visitor = McpSession(McpClientState(running, "helper"), cast("Any", reader), {task, locks})
    speaking._sessions |= {str(number): each for number, each in enumerate([*silent, visitor])}
    async with speaking.notifying():
        await anyio.wait_all_tasks_blocked()
        since = anyio.current_time()
        running.tracker.note(changed(1, "task/guide"))
        await reader.is_told.wait()
        assert anyio.current_time() - since < NOTIFY_S
        reader.is_told = anyio.Event()
        for rev in range(10_000):
            running.tracker.note(changed(2 + rev, f"task/guide/{rev % 10}"))
        running.tracker.note(changed(20_000, "lock/guide.md"))
        await reader.is_told.wait()
        assert reader.told == [task, locks]
        assert [each.sender for each in silent] == [None] * 5


@pytest.mark.anyio
async def test_hanging_owner_does_not_delay_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planloop.server.mcp.server.LEAVE_S", 0.05)
    hung = Hung()
    speaking = IdentityServer(a_house(hung), "demo", "helper", is_http=True)
    speaking._sessions["ann"] = McpSession(McpClientState(a_house(hung), "helper", lease=TAKEN))
    async with speaking.notifying():
        await anyio.wait_all_tasks_blocked()
    assert not hung.has_answered
    hung.goes_on.set()


@pytest.mark.parametrize(
    ("kept_max", "gone"),
    [(4, []), (3, ["idle"]), (2, ["idle", "listens"]), (1, ["idle", "listens", "works"])],
)
def test_clients_are_bounded_and_the_least_active_go_first(kept_max: int, gone: list[str]) -> None:
    assert surplus(VISITORS, kept_max) == gone
