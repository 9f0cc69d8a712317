"""Lines of `events.jsonl` held against the log of the run, of which alone they are made.

So a line that somebody has edited is found by whoever has both: who goes on with the file, and who reports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from planloop.benchmarks.events.projecting import Projection
from planloop.benchmarks.events.reading import BadEvents
from planloop.schemas.encoding import JsonObject, canonical, decode
from planloop.schemas.record import Record

ASKED: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "run/open": frozenset({"plan", "cases", "entries", "planned", "report", "validated"}),
        "run/resume": frozenset({"validated"}),
        "case/start": frozenset({"variant", "language", "tags", "case_key"}),
    }
)
"""What these say from plan.json and not from the log: another once `resume --suite`, or a person, has changed it."""

NAMED: Final = frozenset({"run"})
"""What an opening says from the name of the folder, which people give another: no figure hangs on it."""


class Holding:
    """`lines` are those that are there. `note` takes the records of the log, from the first one on."""

    def __init__(self, lines: Iterable[bytes], projection: Projection) -> None:
        self._lines = iter(lines)
        self._projection = projection
        self._seq = 0
        self._is_replanned = False

    def note(self, records: Iterable[Record]) -> Iterator[JsonObject]:
        """The events of `records` that no line is there for. Raises BadEvents for a line that the log does not say."""
        for record in records:
            for number, made in enumerate(self._projection.note(record)):
                self._seq += 1
                event = {"seq": self._seq, "n": number, **made}
                there = next(self._lines, None)
                if there is None:
                    yield event
                elif (other := self._other(there, event)) is not None:
                    raise BadEvents(self._seq, f"`{other}` is not what the run's log says")

    def end(self) -> None:
        """Raises BadEvents when lines are there of which the log, noted to its end, says nothing."""
        if next(self._lines, None) is not None:
            raise BadEvents(self._seq + 1, "the run's log says nothing of this")

    def _other(self, there: bytes, event: JsonObject) -> str | None:
        """The member in which the line `there` is another event than `event`; None when it is the same."""
        if there == canonical(event):
            return None
        line = decode(there)
        if event["type"] == "run/open":
            self._is_replanned = _asked_by(line) != _asked_by(event)
        asked = ASKED.get(event["type"], frozenset()) if self._is_replanned else frozenset()
        others = asked | NAMED if event["type"] == "run/open" else asked
        line, event = _without(others, line), _without(others, event)
        return next((name for name in sorted({*line, *event}) if line.get(name) != event.get(name)), None)


def _asked_by(opening: JsonObject) -> object:
    """The digest of the plan.json that an opening was made with."""
    data = opening.get("data")
    return data.get("plan") if isinstance(data, dict) else None


def _without(names: frozenset[str], event: JsonObject) -> JsonObject:
    data = event.get("data")
    if not isinstance(data, dict):
        return event
    return event | {"data": {name: value for name, value in data.items() if name not in names}}
