"""Track calls of MCP clients in the log: progress, results, news."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Final, Protocol, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from planloop.controllers.agent.status import PastCall
from planloop.controllers.agent.turn import transcript
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.json_patch import merge_values
from planloop.schemas.log.record import Record, SetStatus, SubRecord
from planloop.schemas.objects.call import CallResult, CallState, result_from_json
from planloop.schemas.objects.message import Message, message_from_json
from planloop.server.plan_reader import ObjectReader

# The progress and the result of a call, read from the log. Pure.
#
# Each call of a client has a separate turn. The record that starts the turn names the call, and the record that ends
# the turn has the result, so reading the log in order is enough.

CALL_LOST: Final = CallResult(CallState.CANCELLED, "you no longer have the task", "Lost")


@frozen
class CallProgress:
    """The call is running, or waits for the reason in `words`. Empty `words` only wake the waiting handler."""

    words: str


@frozen
class CallEnded:
    """The call has ended. `told` is the news at the start of its turn, `comments` are those of hooks on the result."""

    result: CallResult
    told: tuple[Message, ...] = ()
    comments: tuple[str, ...] = ()


CallEvent: TypeAlias = CallProgress | CallEnded


@mutable
class CallListener:
    """Follows one call of the agent. Pass all records to `take`, in order, from before the call is sent."""

    agent: str
    said: str
    _turn: int | None = None
    _call: str = ""
    _told: tuple[Message, ...] = ()
    _steps: list[CallEvent] = field(default_factory=list)

    @property
    def has_begun(self) -> bool:
        """Whether the call's turn has started."""
        return self._turn is not None

    def take(self, record: Record) -> list[CallEvent]:
        """Return the events of the call in the record."""
        self._steps = []
        for entry in record.draft.entries:
            if entry.subject == self.agent:
                self._of_agent(entry, record)
            elif self._call and entry.subject == self._call and entry.type == "call.waiting" and entry.data.get("why"):
                self._steps.append(CallProgress(f"{entry.data.get('tool', '')} waits: {entry.data['why']}"))
        return self._steps

    def _of_agent(self, entry: SubRecord, record: Record) -> None:
        data = entry.data
        match entry.type:
            case "turn.started" if data.get("said") == self.said:
                self._turn = int(data["turn"])
                self._told = tuple(message_from_json(one) for one in data.get("told", ()))
            case "model.replied" if data.get("turn") == self._turn:
                self._call = next((str(one["call"]) for one in data["calls"] if one.get("key") == self.said), "")
            case "turn.ended" if self._is_ours(data):
                self._end(data, record)
            case _ if (lost := self._lost(entry)) is not None:
                self._steps.append(lost)
            case _ if (progress := self._progress(entry)) is not None:
                self._steps.append(progress)

    def _lost(self, entry: SubRecord) -> CallEnded | None:
        # The agent restarted, or the client lost its lease.
        is_dropped = entry.type == "seat.left" and self.said in entry.data.get("dropped", ())
        return CallEnded(CALL_LOST) if is_dropped or entry.type == "agent.woken" else None

    def _progress(self, entry: SubRecord) -> CallProgress | None:
        data = entry.data
        match entry.type:
            case "call.proposed" if data.get("id") == self.said:
                return CallProgress("")
            case "agent.parked" | "agent.ended" if self._turn is None:
                return CallProgress("")
            case "object.updated" if data.get("why"):
                return CallProgress(str(data["why"]))
            case "call.authorized" if data.get(self._call, "allowed") != "allowed":
                return CallProgress(str(data[self._call]))
            case "call.started" if self._call in data.get("calls", ()):
                return CallProgress("running")
            case _:
                return None

    def _is_ours(self, data: JsonObject) -> bool:
        return self._turn is not None and ("called_off" in data or data.get("turn") == self._turn)

    def _end(self, data: JsonObject, record: Record) -> None:
        if why := data.get("called_off"):
            result = CallResult(CallState.CANCELLED, f"cancelled: {why}", "CalledOff")
            self._steps.append(CallEnded(result, self._told))
            return
        said = tuple(map(str, data.get("comments", ())))
        past = next((one for one in _past(record, self.agent) if one["address"] == self._call), None)
        if past is None:
            self._steps.append(CallEnded(CallResult(CallState.SUCCEEDED), self._told, said))
            return
        comments = tuple(past.get("comments", ()))
        made = PastCall(past["address"], past["tool"], past["arguments"], result_from_json(past["result"]), comments)
        self._steps.append(CallEnded(made.result, self._told, (*said, *made.comments)))


def _past(record: Record, agent: str) -> list[JsonObject]:
    """Return the calls of the turn that the record ends."""
    status: JsonObject = {}
    for change in record.draft.changes:
        if isinstance(change, SetStatus) and change.address == agent:
            status = merge_values(status, change.merge)
    return list(status.get("past") or ())


def news_text(told: tuple[Message, ...]) -> str:
    """Return the news as text for a model."""
    return transcript.describe_news(told, (), {})


STEPS_KEPT: Final = 1_000  # Unread events of one call. A call has a handful.


class FollowedReplica(ObjectReader, Protocol):
    """Port to the gateway's replica of the log."""

    async def until(self, rev: int) -> None: ...

    async def moved(self) -> None: ...


class ResourceChanges:
    """The addresses that have changed since the last `take`.

    Each address is kept once, so a slow reader loses none, and there are never more than the plan has objects.
    """

    def __init__(self) -> None:
        self._addresses: set[str] = set()
        self._some = anyio.Event()

    def add(self, addresses: Iterable[str]) -> None:
        """Add changed addresses."""
        self._addresses.update(addresses)
        if self._addresses:
            self._some.set()

    async def some(self) -> None:
        """Wait until there is an address to take."""
        await self._some.wait()

    def take(self) -> set[str]:
        """Return all addresses and start over."""
        found, self._addresses, self._some = self._addresses, set(), anyio.Event()
        return found


class CallTracker:
    """Passes each record of the log to the listeners of calls and changes. `note` is the replica's listener."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[CallListener, MemoryObjectSendStream[CallEvent]]] = {}
        self._changes: list[ResourceChanges] = []

    def note(self, record: Record) -> None:
        """Process the next record."""
        for listener, send in list(self._calls.values()):
            for step in listener.take(record):
                if isinstance(step, CallEnded) or send.statistics().current_buffer_used < STEPS_KEPT - 1:
                    send.send_nowait(step)
        for changes in self._changes:
            changes.add(change.address for change in record.draft.changes)

    @contextmanager
    def call(self, agent: str, said: str) -> Iterator[tuple[CallListener, MemoryObjectReceiveStream[CallEvent]]]:
        """Follow the call `said` of `agent`. Enter this context before the call is sent."""
        listener = CallListener(agent, said)
        send, receive = anyio.create_memory_object_stream[CallEvent](STEPS_KEPT)
        self._calls[said] = (listener, send)
        try:
            yield listener, receive
        finally:
            del self._calls[said]
            send.close()
            receive.close()

    @contextmanager
    def changes(self) -> Iterator[ResourceChanges]:
        """Collect the addresses that records change while the block runs."""
        changes = ResourceChanges()
        self._changes.append(changes)
        try:
            yield changes
        finally:
            self._changes.remove(changes)
