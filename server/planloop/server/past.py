"""Reads that look into the log itself, whoever answers: they take their time, so an owner has them made in a thread."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from planloop.app.exits import Exit, Halt
from planloop.reconciler.storing import sqlite_log
from planloop.reconciler.storing.view import MemoryView
from planloop.schemas.encoding import Json
from planloop.server import answering, log_pages

KNOWN_MAX: Final = 8  # Whoever drags along a timeline goes back and forth over a few stretches of it.


class Past:
    """Folds of a log that were asked for, so that the next one need not begin at the start. Safe for threads."""

    def __init__(self) -> None:
        self._known: deque[sqlite_log.Loaded] = deque(maxlen=KNOWN_MAX)

    def as_of(self, log: sqlite3.Connection, rev: int) -> MemoryView:
        """The objects as they were at `rev`."""
        found = sqlite_log.load_at(log, rev, tuple(self._known))
        self._known.append(found)
        return found.view


def answer(folder: Path, plan: str, path: str, query: Mapping[str, str], past: Past | None = None) -> Json:
    """The answer to GET /v1/`path` for the plan whose state is in `folder`. Raises Halt, StoreFailed.

    Whoever answers often keeps a `past`.
    """
    head, _, rest = path.partition("/")
    if head in ("conversation", "history", "prompt"):
        from planloop.server import log_answers  # With all the words of turns and revisions.

        return log_answers.answer(folder, plan, path, query)
    with sqlite_log.reading(folder) as log:
        match head:
            case "log":
                return log_pages.records(log, query)
            case "messages":
                return log_pages.messages(log, query)
        view = (past or Past()).as_of(log, _rev_of(log, query))
        if head in ("waiting", "waits"):
            return answering.worded(view, plan, head, log_pages.written_at(log, view.rev))
        if head == "describe":
            return answering.described(view, rest)
        return answering.shown(view, rest) if rest else answering.listed(view, query)


def _rev_of(log: sqlite3.Connection, query: Mapping[str, str]) -> int:
    """The revision that is asked for. Raises Halt: NOT_FOUND for one that is still to come."""
    rev, at = log_pages.newest(log), int(query["at"])
    if at > rev:
        raise Halt(Exit.NOT_FOUND, f"there is no revision {at}: the log ends at {rev}", "plan events")
    return at
