"""What the agents of a run did, folded from its log: the evidence that calls, abstaining and the log are judged by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from planloop.benchmarks.checks.contract import Emitted, Evidence
from planloop.benchmarks.compiling.compiled import Compiled
from planloop.benchmarks.compiling.worlds import world_file
from planloop.benchmarks.events.happening import rows_of
from planloop.benchmarks.events.projecting import ENDING
from planloop.benchmarks.events.ruling import is_invented, turned_down, writer
from planloop.benchmarks.planning import offered
from planloop.benchmarks.worlds import World, WorldFile, file_of, with_kept
from planloop.controllers.worlds import WORLDS
from planloop.reconciler.storing.store import Store
from planloop.schemas.call import CallState
from planloop.schemas.case import CaseSpec
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import mutable, remade
from planloop.schemas.record import Record

PAGE: int = 1000


@mutable
class _Doings:
    """What one agent did: its calls in order, where each of them stands, and its last words."""

    calls: list[Emitted] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    said: str = ""


class Witness:
    """Folds records, each once. Linear in the log however many attempts ask."""

    def __init__(self, store: Store, compiled: Compiled) -> None:
        self._store = store
        self._compiled = compiled
        self._rev = 0
        self._doings: dict[str, _Doings] = {}
        self._rows: dict[str, list[JsonObject]] = {}
        self._files: dict[str, WorldFile] = {}
        self._keeps_rows = any(check["kind"] == "log" for case in compiled.cases.values() for check in case["checks"])
        store.on_change(self._hear)

    async def evidence(self, case: CaseSpec) -> Evidence:
        """All that is known of the attempt `case`, once its task is over."""
        while self._rev < self._store.view.rev:  # What was there before us; all since then was heard.
            await self._store.flush(self._store.view.rev)
            self.note(await self._store.log(self._rev, PAGE))
        doings = self._doings.get("agent/" + case.task.partition("/")[2], _Doings())
        compiled = self._compiled.cases[self._compiled.entries[case.entry].case]
        world, end = self._worlds(compiled, case)
        return Evidence(
            calls=tuple(doings.calls),
            said=doings.said,
            offered=offered(compiled),
            near=frozenset(compiled["near"]),
            far=frozenset(compiled["far"]),
            world=world,
            end=end,
            records=tuple(self._rows.get(case.task.partition("/")[2], ())),
        )

    def _worlds(self, compiled: JsonObject, case: CaseSpec) -> tuple[World | None, World | None]:
        """The world of the case as its agent found it, and as it left it; None where it has none."""
        if not compiled["world"]:
            return None, None
        name, task = str(compiled["world"]["use"]), case.task.partition("/")[2]
        if name not in self._files:
            self._files[name] = file_of(self._compiled.worlds[name])
        start, agent = self._files[name].found_by(task), self._store.view.get(f"agent/{task}")
        kept = {} if agent is None else (agent.status.get(WORLDS) or {}).get(world_file(name)) or {}
        return start, with_kept(start, kept)

    def _hear(self, record: Record, changed: Sequence[str]) -> None:
        del changed
        if record.rev == self._rev + 1:
            self.note([record])

    def note(self, records: Iterable[Record]) -> None:
        """Folds `records`. What was noted already is passed over: several attempts may have read it at once."""
        for record in records:
            if record.rev <= self._rev:
                continue
            self._rev = record.rev
            for top, row in rows_of(record) if self._keeps_rows else ():
                self._rows.setdefault(top, []).append(row)
            for said in record.draft.entries:
                match said.type:
                    case "model.replied":
                        self._replied(said.subject, said.data)
                    case "call.authorized":
                        for call, state, text in turned_down(said.data):
                            self._end(said.subject, call, state, text, is_invented=is_invented(text))
                    case "call.settled":
                        self._settled(writer(record), said.subject, said.data)

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
            doings.calls.append(Emitted(call["tool"], arguments, str(call.get("fault", "")), state=CallState.PROPOSED))

    def _settled(self, agent: str, call: str, data: dict[str, object]) -> None:
        result = data.get("result")
        if isinstance(result, dict):
            self._end(agent, call, str(result.get("state", "")), str(result.get("text", "")))

    def _end(self, agent: str, call: str, state: str, text: str, *, is_invented: bool = False) -> None:
        doings = self._doings.get(agent)
        place = None if doings is None else doings.places.get(call)
        if doings is not None and place is not None:
            doings.calls[place] = remade(doings.calls[place], state=state, result=text, is_invented=is_invented)
