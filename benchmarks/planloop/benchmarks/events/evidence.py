"""Fold the log into evidence of what agents did: input of the checks `calls`, `abstain`, `state` and `log`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Final

from planloop.benchmarks.checks.evidence import EmittedCall, Evidence
from planloop.benchmarks.events.projection import ENDING, is_unknown_tool, record_writer, rejected_calls
from planloop.benchmarks.runs.plan import offered_tools
from planloop.benchmarks.runs.run_compiler import CompiledRun, world_file
from planloop.benchmarks.worlds.state import restore_changes
from planloop.benchmarks.worlds.world import SimulatedWorld
from planloop.benchmarks.worlds.world_file import WorldFile, world_file_of
from planloop.controllers.shared.simulated_worlds import WORLDS
from planloop.reconciler.store.store import Store
from planloop.schemas.canonical_json import JsonObject, encode
from planloop.schemas.frozen import mutable, remade
from planloop.schemas.log.record import Drop, Put, Record, SetStatus, SubRecord
from planloop.schemas.objects.call import CallState
from planloop.schemas.objects.case import CaseSpec

# A row is about one task: the top task of the case, with the empty name, or a descendant, named by its path. The
# members depend on `what`:
#
# made: task, by (who added it, None for the plan), goal, needs, budget (whether it has one), checks (how many) · state:
# task, state · removed: task · call: by, call, tool, arguments, fault · settled: call, state, text, violated · refused:
# by, why (a patch that the gate rejected) · parked: by (its budget is spent) · read: by, text (of a message)

_TASK_KINDS: Final = "task/"
_AGENT_KINDS: Final = "agent/"


def evidence_rows(record: Record) -> Iterator[tuple[str, JsonObject]]:
    """Yield the rows of a record in log order, each with the id of the top task that it is about."""
    draft, actor = record.draft, record_writer(record)
    told = {said.subject for said in draft.entries if said.data.get("told")}
    for change in draft.changes:
        match change:
            case Put() if change.address.startswith(_TASK_KINDS):
                yield from _made(change, actor)
            case SetStatus() if change.address.startswith(_TASK_KINDS):
                yield from _state(change)
            case SetStatus() if change.address.startswith(_AGENT_KINDS) and change.address not in told:
                yield from _read(change.address, (change.merge.get("open") or {}).get("messages") or ())
            case Drop() if change.address.startswith(_TASK_KINDS):
                yield from _row(change.address, {"what": "removed"}, "task")
            case _:
                pass
    for said in draft.entries:
        yield from _said(said, actor)


def _said(said: SubRecord, actor: str) -> Iterator[tuple[str, JsonObject]]:
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
            for call, state, text in rejected_calls(data):
                row = {"what": "settled", "call": call, "state": state, "text": text, "violated": False}
                yield from _row(said.subject, row)
        case "call.settled" if actor.startswith(_AGENT_KINDS):
            result = data.get("result") or {}
            ended = {name: result.get(name, "") for name in ("state", "text")}
            row = {"what": "settled", "call": said.subject, "violated": bool(data.get("violated")), **ended}
            yield from _row(actor, row)
        case "plan.refused" if actor.startswith(_AGENT_KINDS):
            yield from _row(actor, {"what": "refused", "why": encode(data).decode()}, "by")
        case "agent.parked":
            yield from _row(said.subject, {"what": "parked"}, "by")
        case _:
            pass


def _made(put: Put, actor: str) -> Iterator[tuple[str, JsonObject]]:
    spec = put.spec
    by = "/".join(_split(actor)[1:]) if actor.startswith(_AGENT_KINDS) else None
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
    """The messages that an agent reads in the turn that starts."""
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


PAGE: int = 1000


@mutable
class _Doings:
    """What one agent did: its calls in order, the index of each, and its final answer."""

    calls: list[EmittedCall] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    said: str = ""


class EvidenceFold:
    """Folds each record once, so the cost is linear in the log for any number of attempts."""

    def __init__(self, store: Store, compiled: CompiledRun) -> None:
        self._store = store
        self._compiled = compiled
        self._rev = 0
        self._doings: dict[str, _Doings] = {}
        self._rows: dict[str, list[JsonObject]] = {}
        self._files: dict[str, WorldFile] = {}
        self._keeps_rows = any(check["kind"] == "log" for case in compiled.cases.values() for check in case["checks"])
        store.on_change(self._hear)

    async def evidence(self, case: CaseSpec) -> Evidence:
        """Return the evidence of the attempt `case`, whose task must have ended."""
        while self._rev < self._store.view.rev:  # Earlier records were read above; the store notifies of later ones.
            await self._store.flush(self._store.view.rev)
            self.note(await self._store.log(self._rev, PAGE))
        doings = self._doings.get("agent/" + case.task.partition("/")[2], _Doings())
        compiled = self._compiled.cases[self._compiled.entries[case.entry].case]
        world, end = self._worlds(compiled, case)
        return Evidence(
            calls=tuple(doings.calls),
            said=doings.said,
            offered=offered_tools(compiled),
            near=frozenset(compiled["near"]),
            far=frozenset(compiled["far"]),
            world=world,
            end=end,
            records=tuple(self._rows.get(case.task.partition("/")[2], ())),
        )

    def _worlds(self, compiled: JsonObject, case: CaseSpec) -> tuple[SimulatedWorld | None, SimulatedWorld | None]:
        """The world of the case before and after the attempt; None if the case has no world."""
        if not compiled["world"]:
            return None, None
        name, task = str(compiled["world"]["use"]), case.task.partition("/")[2]
        if name not in self._files:
            self._files[name] = world_file_of(self._compiled.worlds[name])
        start, agent = self._files[name].found_by(task), self._store.view.get(f"agent/{task}")
        kept = {} if agent is None else (agent.status.get(WORLDS) or {}).get(world_file(name)) or {}
        return start, restore_changes(start, kept)

    def _hear(self, record: Record, changed: Sequence[str]) -> None:
        del changed
        if record.rev == self._rev + 1:
            self.note([record])

    def note(self, records: Iterable[Record]) -> None:
        """Fold `records`, skipping those already folded: several attempts may read them at the same time."""
        for record in records:
            if record.rev <= self._rev:
                continue
            self._rev = record.rev
            for top, row in evidence_rows(record) if self._keeps_rows else ():
                self._rows.setdefault(top, []).append(row)
            for said in record.draft.entries:
                match said.type:
                    case "model.replied":
                        self._replied(said.subject, said.data)
                    case "call.authorized":
                        for call, state, text in rejected_calls(said.data):
                            self._end(said.subject, call, state, text, is_invented=is_unknown_tool(text))
                    case "call.settled":
                        self._settled(record_writer(record), said.subject, said.data)

    def _replied(self, agent: str, data: dict[str, object]) -> None:
        doings = self._doings.setdefault(agent, _Doings())
        if data.get("text"):
            doings.said = str(data["text"])
        calls = data.get("calls")
        for call in calls if isinstance(calls, list) else ():
            if call["tool"] in ENDING:
                arguments = call["arguments"]
                last = arguments.get("result", arguments.get("reason")) if isinstance(arguments, dict) else arguments
                doings.said = str(last) if last else doings.said
                continue
            doings.places[call["call"]] = len(doings.calls)
            arguments = call["arguments"] if isinstance(call["arguments"], dict) else {"given": call["arguments"]}
            doings.calls.append(
                EmittedCall(call["tool"], arguments, str(call.get("fault", "")), state=CallState.PROPOSED)
            )

    def _settled(self, agent: str, call: str, data: dict[str, object]) -> None:
        result = data.get("result")
        if isinstance(result, dict):
            self._end(agent, call, str(result.get("state", "")), str(result.get("text", "")))

    def _end(self, agent: str, call: str, state: str, text: str, *, is_invented: bool = False) -> None:
        doings = self._doings.get(agent)
        place = None if doings is None else doings.places.get(call)
        if doings is not None and place is not None:
            doings.calls[place] = remade(doings.calls[place], state=state, result=text, is_invented=is_invented)
