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

# What became of a call, read off the log: it waits, it goes on, it has its result with what is new. Pure.
#
# Every call of a client is made in a turn of its own. The record that begins the turn names the call, the one that ends
# it has the result; nothing else is needed, and nothing is missed by whoever reads the log in order.

CALL_LOST: Final = CallResult(CallState.CANCELLED, "the task is no longer yours", "Lost")


@frozen
class CallProgress:
    """The call is under way, or waits; why, in words. Without any: there is something to look at."""

    words: str


@frozen
class CallEnded:
    """The call is over. `told` is what its turn began with, `comments` what hooks say to the result."""

    result: CallResult
    told: tuple[Message, ...] = ()
    comments: tuple[str, ...] = ()


CallEvent: TypeAlias = CallProgress | CallEnded


@mutable
class CallListener:
    """Follows one call of the agent: `take` every record since it was said, in order."""

    agent: str
    said: str
    _turn: int | None = None
    _call: str = ""
    _told: tuple[Message, ...] = ()
    _steps: list[CallEvent] = field(default_factory=list)

    @property
    def has_begun(self) -> bool:
        """Whether the call has its turn."""
        return self._turn is not None

    def take(self, record: Record) -> list[CallEvent]:
        """What the record says of the call."""
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
        # It begins anew, and who had it before is nobody to it; or who had it has it no longer.
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
                return CallProgress("it runs")
            case _:
                return None

    def _is_ours(self, data: JsonObject) -> bool:
        return self._turn is not None and ("called_off" in data or data.get("turn") == self._turn)

    def _end(self, data: JsonObject, record: Record) -> None:
        if why := data.get("called_off"):
            result = CallResult(CallState.CANCELLED, f"called off: {why}", "CalledOff")
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
    """The calls of the turn that the record ends."""
    status: JsonObject = {}
    for change in record.draft.changes:
        if isinstance(change, SetStatus) and change.address == agent:
            status = merge_values(status, change.merge)
    return list(status.get("past") or ())


def news_text(told: tuple[Message, ...]) -> str:
    """What is new, as a model reads it; empty for nothing."""
    return transcript.describe_news(told, (), {})


# The log as the clients of `plan mcp` need it: their calls hear what becomes of them, their sessions what changes.

STEPS_KEPT: Final = 1_000  # Of one call that its handler has not looked at yet: a call has a handful.


class FollowedReplica(ObjectReader, Protocol):
    """The replica of the gateway, as far as it is needed."""

    async def until(self, rev: int) -> None: ...

    async def moved(self) -> None: ...


class ResourceChanges:
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

    def take(self) -> set[str]:
        """All there are; from now on others are gathered."""
        found, self._addresses, self._some = self._addresses, set(), anyio.Event()
        return found


class CallTracker:
    """Hands each record of the log to whoever waits for it. `note` is the replica's listener."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[CallListener, MemoryObjectSendStream[CallEvent]]] = {}
        self._changes: list[ResourceChanges] = []

    def note(self, record: Record) -> None:
        """Takes the next record."""
        for listener, send in list(self._calls.values()):
            for step in listener.take(record):
                if isinstance(step, CallEnded) or send.statistics().current_buffer_used < STEPS_KEPT - 1:
                    send.send_nowait(step)
        for changes in self._changes:
            changes.add(change.address for change in record.draft.changes)

    @contextmanager
    def call(self, agent: str, said: str) -> Iterator[tuple[CallListener, MemoryObjectReceiveStream[CallEvent]]]:
        """What becomes of the call `said` of `agent`, from before it is said."""
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
        """What records change from now on."""
        changes = ResourceChanges()
        self._changes.append(changes)
        try:
            yield changes
        finally:
            self._changes.remove(changes)
