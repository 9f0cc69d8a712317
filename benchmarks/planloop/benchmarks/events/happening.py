"""What a record of the log says about tasks and agents, in rows small enough to keep: for checks of the kind `log`.

A row is about one task of the plan's top and what is below it, which are named by their paths below it: an empty name
is that task itself, and the agent that does it. `what` says which other members there are:

made: task, by (who added it, None for the plan), goal, needs, budget (whether it has one), checks (how many) · state:
task, state · removed: task · call: by, call, tool, arguments, fault · settled: call, state, text, violated · refused:
by, why (a patch that the gate turned down) · parked: by (its budget is used up) · read: by, text (of a message)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from planloop.benchmarks.events.ruling import turned_down, writer
from planloop.schemas.encoding import JsonObject, encode
from planloop.schemas.record import Also, Drop, Put, Record, SetStatus

_TASK: Final = "task/"
_AGENT: Final = "agent/"


def rows_of(record: Record) -> Iterator[tuple[str, JsonObject]]:
    """The rows of a record, each with the id of the task at the top that it is about. The order is that of the log."""
    draft, actor = record.draft, writer(record)
    told = {said.subject for said in draft.entries if said.data.get("told")}
    for change in draft.changes:
        match change:
            case Put() if change.address.startswith(_TASK):
                yield from _made(change, actor)
            case SetStatus() if change.address.startswith(_TASK):
                yield from _state(change)
            case SetStatus() if change.address.startswith(_AGENT) and change.address not in told:
                yield from _read(change.address, (change.merge.get("open") or {}).get("messages") or ())
            case Drop() if change.address.startswith(_TASK):
                yield from _row(change.address, {"what": "removed"}, "task")
            case _:
                pass
    for said in draft.entries:
        yield from _said(said, actor)


def _said(said: Also, actor: str) -> Iterator[tuple[str, JsonObject]]:
    data = said.data
    match said.type:
        case "turn.started":
            yield from _read(said.subject, data.get("told") or ())
        case "model.replied":
            for call in data.get("calls", ()):
                row = {"what": "call", "fault": call.get("fault", "")}
                row |= {name: call[name] for name in ("call", "tool", "arguments")}
                yield from _row(said.subject, row, "by")
        case "call.authorized":
            for call, state, text in turned_down(data):
                row = {"what": "settled", "call": call, "state": state, "text": text, "violated": False}
                yield from _row(said.subject, row)
        case "call.settled" if actor.startswith(_AGENT):
            result = data.get("result") or {}
            ended = {name: result.get(name, "") for name in ("state", "text")}
            row = {"what": "settled", "call": said.subject, "violated": bool(data.get("violated")), **ended}
            yield from _row(actor, row)
        case "plan.refused" if actor.startswith(_AGENT):
            yield from _row(actor, {"what": "refused", "why": encode(data).decode()}, "by")
        case "agent.parked":
            yield from _row(said.subject, {"what": "parked"}, "by")
        case _:
            pass


def _made(put: Put, actor: str) -> Iterator[tuple[str, JsonObject]]:
    spec = put.spec
    by = "/".join(_split(actor)[1:]) if actor.startswith(_AGENT) else None
    row: JsonObject = {
        "what": "made",
        "by": by,
        "goal": spec["goal"],
        "needs": ["/".join(_split(need)[1:]) for need in spec["needs"]],
        "budget": bool(spec["budget"]),
        "checks": len(spec["acceptance"]),
    }
    yield from _row(put.address, row, "task")


def _state(change: SetStatus) -> Iterator[tuple[str, JsonObject]]:
    if change.merge.get("state"):
        yield from _row(change.address, {"what": "state", "state": change.merge["state"]}, "task")


def _read(agent: str, messages: Iterable[JsonObject]) -> Iterator[tuple[str, JsonObject]]:
    """The messages that an agent reads in the turn that begins."""
    for message in messages:
        body = message["body"]
        text = body if isinstance(body, str) else encode(body).decode()
        yield from _row(agent, {"what": "read", "text": text}, "by")


def _row(address: str, row: JsonObject, member: str = "") -> Iterator[tuple[str, JsonObject]]:
    path = _split(address)
    if path and path[0] != ".":
        yield path[0], row | ({member: "/".join(path[1:])} if member else {})


def _split(address: str) -> list[str]:
    return address.partition("/")[2].split("/")
