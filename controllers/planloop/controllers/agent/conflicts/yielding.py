"""What a ruling takes from the one that is to give way: it has its effect whether that one obeys, or reads it, or not.

What it holds of the files longer than a turn goes at the end of its open turn, at once when none is open. Nothing is
lost: it is told, and what it writes later needs the lock anew and the file as it has read it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planloop.controllers.agent.conflicts import waits
from planloop.controllers.agent.conflicts.standing import has_ended, is_waiting, kept_back, task_of, touches
from planloop.controllers.agent.conflicts.terms import Making, refusal
from planloop.controllers.leases.granting import place_of
from planloop.controllers.leases.writing import Rows
from planloop.reconciler.storing.store import View
from planloop.schemas.call import CallState
from planloop.schemas.conflict import ConflictSpec
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.lock import status_from_json
from planloop.schemas.record import Also, Change, SetStatus
from planloop.schemas.resource import Resource

RULED: Final = "Ruled"
"""The error of a call whose wait a ruling has ended."""


@frozen
class Yielding:
    """`changes` take it from them, and `also` says in the log what is let go in that very record."""

    changes: tuple[Change, ...]
    also: tuple[Also, ...] = ()


def given_way(made: Making) -> Yielding:
    """What the one that gives way by a ruling lets go of, and what becomes of its call that waits."""
    if made.ruling.how == "cancel":  # Its task ends, and all that it holds with it.
        return Yielding(())
    rows = Rows(made.view)
    answers = [*_shortened(made)]
    if (call := _waiting_call(made)) is not None:
        for path in call.status.get("wants") or ():
            rows.leave(path, call.address)
        answers.append(SetStatus(call.address, call.uid, _answer(made, call)))
    gone = _taken(made, rows)
    data: JsonObject = {"owner": made.yields, "locks": list(gone), "why": f"as ruled in {made.conflict.address}"}
    also = (Also("lock.released", gone[0], data),) if gone else ()
    return Yielding((*rows.changes(), *answers), also)


def _taken(made: Making, rows: Rows) -> tuple[str, ...]:
    """Says in `rows` what it lets go of; returns the locks that it lets go at once."""
    agent = made.view.get(made.yields)
    if agent is None or agent.kind != "agent":
        return ()  # A command has what its task's `locks` name, to its end.
    is_at_once = agent.status.get("open") is None
    gone: list[str] = []
    for lock in made.view.list("lock"):
        grant = status_from_json(lock.status).holders.get(agent.address)
        if grant is None or grant.kept == "declared" or not touches(place_of(lock), made.status.paths):
            continue
        if is_at_once:
            rows.release(lock.spec["path"], agent.address)
            gone.append(lock.address)
        elif grant.kept != "turn":
            rows.shorten(lock.spec["path"], agent.address)
    return tuple(gone)


def _shortened(made: Making) -> Iterator[Change]:
    """What the one that gives way still waits for of these files it is granted to the end of its turn only."""
    for call in made.view.owned_by(made.yields):
        wants = call.status.get("wants") or ()
        if is_waiting(made.view, call.address) and any(touches(path, made.status.paths) for path in wants):
            yield SetStatus(call.address, call.uid, {"kept": "turn"})


def _waiting_call(made: Making) -> Resource | None:
    """The call that waits, when its agent is the one that gives way."""
    address = made.status.parties[made.spec.wants].call
    is_meant = made.yields == made.spec.wants and is_waiting(made.view, address)
    return made.view.get(address) if is_meant else None


def _answer(made: Making, call: Resource) -> JsonObject:
    """What the call that waits is told: it waits for the other's task, or is refused."""
    if made.ruling.how == "sequence":
        after = task_of(made.view, made.stays)
        state = CallState.AUTHORIZED if is_past(made.view, after) else CallState.AWAITING_CHILD
        why = f"waits for {after} to end, as was ruled in {made.conflict.address}"
        # `ends` is where the lock controller sees whom the call waits for, so that a ring through it is found.
        due_at = waits.bound_at(call)
        return {"state": str(state), "after": after, "ends": [after], "why": why, "due_at": due_at, "unblocks": []}
    return {"refused": {"reason": RULED, "message": refusal(made)}}


def is_past(view: View, task: str) -> bool:
    """Whether nobody has to wait for a task any more."""
    found = view.get(task)
    return found is None or has_ended(found)


def going_on(view: View, spec: ConflictSpec) -> Iterator[Change]:
    """The changes that let go on what was kept back by an order that holds no more."""
    for agent in spec.parties:
        for call in kept_back(view, agent):
            merge: JsonObject = {"state": str(CallState.AUTHORIZED), "after": None, "ends": None, "why": None}
            yield SetStatus(call.address, call.uid, merge)
