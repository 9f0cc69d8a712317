"""What records of the log say of calls: who wrote them, and which calls they end. For all folds of it alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from schemas.call import FINAL
from schemas.record import Record


def writer(record: Record) -> str:
    """The address of who wrote it: `agent/a` where the actor is `agent:a`."""
    return record.draft.actor.replace(":", "/", 1)


def turned_down(rulings: Mapping[str, object]) -> Iterator[tuple[str, str, str]]:
    """The calls that `call.authorized` ended at once: address, last state, and what the agent read.

    All others go on: those that are allowed, and those that wait for somebody's yes, with whatever words.
    """
    for call, ruling in rulings.items():
        state, _, text = str(ruling).partition(": ")
        if state in FINAL:
            yield call, state, text
