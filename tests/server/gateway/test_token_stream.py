"""The words of models as the gateway passes them on, when the log comes later than the words do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.abc
import pytest

from planloop.client.plan_paths import PlanPaths
from planloop.reconciler.store import state_files
from planloop.server.gateway.replica import PlanReplica
from planloop.server.gateway.websockets import TokenStream
from tests.product import Record, RecordDraft

pytestmark = pytest.mark.anyio

SAID = b'{"said":{"agent":"agent/.","turn":2,"reply":"2/1","text":"once upon"}}\n'


@dataclass(slots=True)
class Log:
    """What `TokenStream` needs of a replica; the test decides when a record is read."""

    place: PlanPaths
    listeners: list[Callable[[Record], None]] = field(default_factory=list)

    def on_record(self, listener: Callable[[Record], None]) -> None:
        self.listeners.append(listener)

    async def moved(self) -> None:
        await anyio.sleep_forever()

    def read(self, kind: str, data: dict[str, Any]) -> None:
        for listener in self.listeners:
            listener(Record(1, 1.0, 1, RecordDraft(kind, "controller:agent", "agent/.", data=data)))


@asynccontextmanager
async def hearing(folder: Path) -> AsyncIterator[tuple[TokenStream, Log]]:
    """The words of an owner that has told one stretch of the second turn and then falls silent."""

    async def tell(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.send(b"HTTP/1.0 200 OK\r\n\r\n" + SAID)
            await anyio.sleep_forever()

    log = Log(PlanPaths("demo", folder))
    words = TokenStream(cast("PlanReplica", log))
    listener = await anyio.create_unix_listener(state_files.socket_file(folder))
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, tell)
        group.start_soon(words.run)
        yield words, log
        group.cancel_scope.cancel()


async def first(words: TokenStream) -> str:
    """The first message to a new listener, or empty."""
    async with aclosing(words.listen()) as heard:
        with anyio.move_on_after(0.05):
            async for said in heard:
                return str(said["text"])
    return ""


@pytest.mark.parametrize(
    ("kind", "data", "is_over"),
    [
        ("turn.started", {"turn": 2}, False),
        ("turn.ended", {"turn": 1}, False),
        ("model.replied", {"turn": 1}, False),
        ("model.replied", {"late": True}, False),
        ("agent.woken", {"incarnation": 1}, False),
        ("model.replied", {"turn": 2}, True),
        ("turn.ended", {"turn": 2}, True),
        ("turn.ended", {"called_off": "the goal changed"}, True),
    ],
)
async def test_only_a_record_that_ends_the_reply_ends_a_late_listeners_text(
    tmp_path: Path, kind: str, data: dict[str, Any], is_over: bool
) -> None:
    async with hearing(tmp_path) as (words, log), aclosing(words.listen()) as early:
        assert (await anext(early))["text"] == "once upon"
        log.read(kind, data)

        assert await first(words) == ("" if is_over else "once upon")
