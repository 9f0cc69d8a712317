"""What became of a call, read off the log: it waits, it goes on, it has its result with what is new. Pure.

Every call of a client is made in a turn of its own. The record that begins the turn names the call, the one that ends
it has the result; nothing else is needed, and nothing is missed by whoever reads the log in order.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final, TypeAlias

from planloop.controllers.agent.status import PastCall
from planloop.controllers.agent.thinking import transcript
from planloop.schemas.call import CallResult, CallState, result_from_json
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.message import Message, message_from_json
from planloop.schemas.patching import merge
from planloop.schemas.record import Also, Record, SetStatus

LOST: Final = CallResult(CallState.CANCELLED, "the task is no longer yours", "Lost")


@frozen
class Progress:
    """The call is under way, or waits; why, in words. Without any: there is something to look at."""

    words: str


@frozen
class Ended:
    """The call is over. `told` is what its turn began with, `comments` what hooks say to the result."""

    result: CallResult
    told: tuple[Message, ...] = ()
    comments: tuple[str, ...] = ()


Heard: TypeAlias = Progress | Ended


@mutable
class Listener:
    """Follows one call of the agent: `take` every record since it was said, in order."""

    agent: str
    said: str
    _turn: int | None = None
    _call: str = ""
    _told: tuple[Message, ...] = ()
    _steps: list[Heard] = field(default_factory=list)

    @property
    def has_begun(self) -> bool:
        """Whether the call has its turn."""
        return self._turn is not None

    def take(self, record: Record) -> list[Heard]:
        """What the record says of the call."""
        self._steps = []
        for entry in record.draft.entries:
            if entry.subject == self.agent:
                self._of_agent(entry, record)
            elif self._call and entry.subject == self._call and entry.type == "call.waiting" and entry.data.get("why"):
                self._steps.append(Progress(f"{entry.data.get('tool', '')} waits: {entry.data['why']}"))
        return self._steps

    def _of_agent(self, entry: Also, record: Record) -> None:
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

    def _lost(self, entry: Also) -> Ended | None:
        # It begins anew, and who had it before is nobody to it; or who had it has it no longer.
        is_dropped = entry.type == "seat.left" and self.said in entry.data.get("dropped", ())
        return Ended(LOST) if is_dropped or entry.type == "agent.woken" else None

    def _progress(self, entry: Also) -> Progress | None:
        data = entry.data
        match entry.type:
            case "call.proposed" if data.get("id") == self.said:
                return Progress("")
            case "agent.parked" | "agent.ended" if self._turn is None:
                return Progress("")
            case "object.updated" if data.get("why"):
                return Progress(str(data["why"]))
            case "call.authorized" if data.get(self._call, "allowed") != "allowed":
                return Progress(str(data[self._call]))
            case "call.started" if self._call in data.get("calls", ()):
                return Progress("it runs")
            case _:
                return None

    def _is_ours(self, data: JsonObject) -> bool:
        return self._turn is not None and ("called_off" in data or data.get("turn") == self._turn)

    def _end(self, data: JsonObject, record: Record) -> None:
        if why := data.get("called_off"):
            result = CallResult(CallState.CANCELLED, f"called off: {why}", "CalledOff")
            self._steps.append(Ended(result, self._told))
            return
        said = tuple(map(str, data.get("comments", ())))
        past = next((one for one in _past(record, self.agent) if one["address"] == self._call), None)
        if past is None:
            self._steps.append(Ended(CallResult(CallState.SUCCEEDED), self._told, said))
            return
        comments = tuple(past.get("comments", ()))
        made = PastCall(past["address"], past["tool"], past["arguments"], result_from_json(past["result"]), comments)
        self._steps.append(Ended(made.result, self._told, (*said, *made.comments)))


def _past(record: Record, agent: str) -> list[JsonObject]:
    """The calls of the turn that the record ends."""
    status: JsonObject = {}
    for change in record.draft.changes:
        if isinstance(change, SetStatus) and change.address == agent:
            status = merge(status, change.merge)
    return list(status.get("past") or ())


def news_text(told: tuple[Message, ...]) -> str:
    """What is new, as a model reads it; empty for nothing."""
    return transcript.news_text(told, (), {})
