"""What a person may say to a conflict, for whoever has not said it."""

from __future__ import annotations

from planloop.app.access import Access
from planloop.app.exits import Exit, Halt
from planloop.cli.rendering import conflicts
from planloop.schemas.conflict import conflict_from_json, status_from_json


def not_said(access: Access, address: str, words: str) -> Halt:
    """The halt of a command that does not say how a conflict goes on: `words`, and each way as a command.

    Raises Halt itself when there is no such conflict.
    """
    found = access.object(address)
    status = status_from_json(found.status)
    if not status.is_open:
        return Halt(Exit.CONFLICT, f"{address} is over: {status.why}", f"plan describe {address}")
    known = "\n".join(said for _, said in conflicts.rules(address, conflict_from_json(found.spec)))
    return Halt(Exit.USAGE, words, f"{known}\nboth sides: plan describe {address}")
