"""The log as the clients of `plan mcp` need it: their calls hear what becomes of them, their sessions what changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from planloop.schemas.record import Record
from planloop.server.mcp.hearing import Ended, Heard, Listener
from planloop.server.mcp.identity import Objects

STEPS_KEPT: Final = 1_000  # Of one call that its handler has not looked at yet: a call has a handful.


class Log(Objects, Protocol):
    """The replica of the gateway, as far as it is needed."""

    async def until(self, rev: int) -> None: ...

    async def moved(self) -> None: ...


class Changes:
    """The addresses that have changed since they were last taken.

    Each is kept once, so that however slowly they are taken, none is lost and they are no more than the plan has.
    """

    def __init__(self) -> None:
        self._addresses: set[str] = set()
        self._some = anyio.Event()

    def add(self, addresses: Iterable[str]) -> None:
        """These have changed."""
        self._addresses.update(addresses)
        if self._addresses:
            self._some.set()

    async def some(self) -> None:
        """Returns when there are some to take."""
        await self._some.wait()

    def taken(self) -> set[str]:
        """All there are; from now on others are gathered."""
        found, self._addresses, self._some = self._addresses, set(), anyio.Event()
        return found


class Following:
    """Hands each record of the log to whoever waits for it. `heard` is the replica's listener."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[Listener, MemoryObjectSendStream[Heard]]] = {}
        self._changes: list[Changes] = []

    def heard(self, record: Record) -> None:
        """Takes the next record."""
        for listener, send in list(self._calls.values()):
            for step in listener.take(record):
                if isinstance(step, Ended) or send.statistics().current_buffer_used < STEPS_KEPT - 1:
                    send.send_nowait(step)
        for changes in self._changes:
            changes.add(change.address for change in record.draft.changes)

    @contextmanager
    def call(self, agent: str, said: str) -> Iterator[tuple[Listener, MemoryObjectReceiveStream[Heard]]]:
        """What becomes of the call `said` of `agent`, from before it is said."""
        listener = Listener(agent, said)
        send, receive = anyio.create_memory_object_stream[Heard](STEPS_KEPT)
        self._calls[said] = (listener, send)
        try:
            yield listener, receive
        finally:
            del self._calls[said]
            send.close()
            receive.close()

    @contextmanager
    def changes(self) -> Iterator[Changes]:
        """What records change from now on."""
        changes = Changes()
        self._changes.append(changes)
        try:
            yield changes
        finally:
            self._changes.remove(changes)
