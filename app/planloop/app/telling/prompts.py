"""Which system message an agent was asked with in a turn, from the log. Pure.

The log names the blob of a system message where it became another one; in between it was the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from planloop.cli.rendering.records import parted
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import mutable
from planloop.schemas.record import Draft, Record


@mutable
class Asked:
    """The requests of the agent at `agent`, as far as they were read.

    `found` is the newest one of each turn of its newest run that took it, by turn; `turns` are all that it took.
    """

    agent: str
    found: dict[int, JsonObject]
    turns: set[int]
    run: int = 1
    turn: int = 0
    blob: str = ""

    def take(self, record: Record) -> None:
        """Reads what `record` says of the agent."""
        for step in parted(record):
            if step.draft.subject == self.agent:
                self._step(step.draft, record)

    def _step(self, draft: Draft, record: Record) -> None:
        data = draft.data
        match draft.type:
            case "agent.woken":
                self.run = int(data.get("incarnation") or self.run)
            case "turn.started":
                self.turn = int(data.get("turn") or 0)
                self.turns.add(self.turn)
                self.found.pop(self.turn, None)  # An earlier run had a turn of that number, too.
            case "model.requested" if not data.get("purpose"):
                self.blob = str(data.get("system") or self.blob)
                self.found[self.turn] = {
                    "agent": self.agent,
                    "run": self.run,
                    "turn": self.turn,
                    "attempt": int(data.get("attempt") or 1),
                    "model": str(data.get("model") or ""),
                    "rev": record.rev,
                    "at": record.at,
                    "tokens": int(data.get("tokens") or 0),
                    "blob": self.blob,
                }


def asked(records: Iterable[Record], agent: str) -> Asked:
    """The requests of the agent in all `records`."""
    found = Asked(agent, {}, set())
    for record in records:
        found.take(record)
    return found
