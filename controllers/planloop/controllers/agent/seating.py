"""Seats: who plays an outside agent, for how long, and how it is given up. Pure.

A seat is a lease in the agent's status. Its client keeps it by saying something before the plan's time is over, and
gives it up or loses it in steps that any owner can take: what runs is stopped, the turn ends, the seat goes with all
that was held under it. What comes later under its number is refused.
"""

from __future__ import annotations

from typing import Final

from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.status import Seat
from planloop.controllers.agent.steps import Rest
from planloop.reconciler.contract import Again, Done, Outcome
from planloop.schemas import amounts
from planloop.schemas.agent import NO_GUEST, AgentState, Guest
from planloop.schemas.encoding import JsonObject
from planloop.schemas.record import Draft, SetStatus

ACTOR: Final = "controller:agent"


def lease_of(mind: object) -> float:
    """Seconds that a client of such a mind may be silent."""
    assert isinstance(mind, Guest), "only outside agents have seats"
    return mind.lease_s


def why_vacated(seat: Seat, lease_s: float, now: float) -> str:
    """Why the seat is to be given up now; empty while it holds."""
    if seat.leaving:
        return seat.leaving
    return f"silent for {amounts.duration(lease_s)}" if seat.heard_at + lease_s <= now else ""


def vacated(seen: Observed) -> str:
    """Why the agent's seat is to be given up; empty while it holds, or when nobody has it."""
    seat, mind = seen.status.seat, seen.spec.mind
    if seat is None:
        return ""
    return why_vacated(seat, mind.lease_s, seen.now) if isinstance(mind, Guest) else "the plan gives it to another"


def is_given_up(seen: Observed) -> bool:
    """Whether nobody waits any more for what the open turn does."""
    opened = seen.status.open
    return opened is not None and (opened.is_withdrawn or bool(vacated(seen)))


def waiting(seen: Observed) -> Rest:
    """How an outside agent rests between calls: with its client, or with nobody."""
    seat = seen.status.seat
    if seat is None:
        name = seen.spec.prototype or seen.resource.address
        return Rest(AgentState.BLOCKED, "nobody has taken it", NO_GUEST, (f"plan mcp --as {name}",))
    return Rest(AgentState.ASLEEP, f"{seat.client} has it, and is to say something")


def bounded(seen: Observed, outcome: Outcome) -> Outcome:
    """The same outcome, but the agent is looked at again when its seat lapses, whatever it does or waits for."""
    seat, mind = seen.status.seat, seen.spec.mind
    if seat is None or not isinstance(mind, Guest) or not isinstance(outcome, Done | Again):
        return outcome
    due_s = max(0.0, seat.heard_at + mind.lease_s - seen.now)
    return Again(due_s if isinstance(outcome, Done) else min(outcome.after_s, due_s))


def left(seen: Observed, why: str) -> Draft:
    """The seat is free. Whoever takes it next has read nothing, and what waited under the old one is not done."""
    seat = seen.status.seat
    assert seat is not None, "only a seat that is taken is given up"
    merge: JsonObject = {"seat": None, "files": None}
    if seen.status.said:
        merge["said"] = dict.fromkeys(seen.status.said)
    data: JsonObject = {"seat": seat.number, "client": seat.client, "why": why, "dropped": [*seen.status.said]}
    changes = (SetStatus(seen.resource.address, seen.resource.uid, merge),)
    return Draft("seat.left", ACTOR, seen.resource.address, changes, data)
