"""What records of the log say of calls: who wrote them, and which calls they end. For all folds of it alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from planloop.schemas.call import FINAL, NO_SUCH_TOOL, NOT_GRANTED
from planloop.schemas.record import Record

_BY_NAME: Final = (f"{NO_SUCH_TOOL} `", f"{NOT_GRANTED} `")
_OF_TURNS: Final = frozenset({"agent.woken", "turn.started"})
"""Records that may hold the results of calls as well."""


def writer(record: Record) -> str:
    """The address of who wrote it: `agent/a` where the actor is `agent:a`, or where it is a whole turn of `a`."""
    draft = record.draft
    return draft.subject if draft.type in _OF_TURNS else draft.actor.replace(":", "/", 1)


def turned_down(rulings: Mapping[str, object]) -> Iterator[tuple[str, str, str]]:
    """The calls that `call.authorized` ended at once: address, last state, and what the agent read.

    All others go on: those that are allowed, and those that wait for somebody's yes, with whatever words.
    """
    for call, ruling in rulings.items():
        state, _, text = str(ruling).partition(": ")
        if state in FINAL:
            yield call, state, text


def is_invented(text: str) -> bool:
    """Whether a call that was turned down with `text` was of a tool that its agent does not have."""
    return text.startswith(_BY_NAME)
