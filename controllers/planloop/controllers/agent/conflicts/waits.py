"""What a call that waits for locks does about it: a wait over the limit and a ring of waits become conflicts. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from planloop.controllers import leases
from planloop.controllers.agent.conflicts import opening, standing
from planloop.controllers.agent.observing import Observed
from planloop.controllers.leases import Owner, Wants
from planloop.reconciler.storing.store import View
from planloop.schemas import limits
from planloop.schemas.conflict import Because, Party
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.lock import DEADLOCK
from planloop.schemas.record import Change
from planloop.schemas.resource import Resource

CONFLICTS = "conflicts"
"""In a call's status: the conflicts that were opened for its wait; absent while it has not waited long."""


@frozen
class Stuck:
    """A wait that was looked at: `conflicts` are those that were opened for it, if any.

    `call` is merged into the call's status; at `due_at` it is looked at again, or given up.
    """

    changes: tuple[Change, ...]
    call: JsonObject
    conflicts: tuple[str, ...]
    due_at: float | None

    @property
    def unblocks(self) -> tuple[str, ...]:
        """What a person could do about them."""
        return tuple(f"plan approve {each} --{how}" for each in self.conflicts for how in ("release", "sequence"))


def look_at(since: float, gives_up_at: float) -> float:
    """When a wait that began at `since` is to be looked at first."""
    return min(since + limits.CONFLICT_AFTER_S, gives_up_at)


def stuck(seen: Observed, view: View, call: Resource) -> Stuck | None:
    """What becomes of a wait over the limit, or of one whose conflicts are over; None while it waits as before.

    One that said itself how long it would wait is given up then; any other waits for the ruling.
    """
    status, now = call.status, seen.now
    gives_up_at = float(status.get("gives_up_at") or now)
    is_bound = bound_at(call) is not None
    if known := status.get(CONFLICTS):
        if any((one := view.get(each)) is not None and opening.is_open(one) for each in known):
            return None
        # Somebody else has it by now, or has it again: that is another wait.
        gives_up_at = gives_up_at if is_bound else now + limits.LOCK_WAIT_S
        return Stuck((), {CONFLICTS: None, "gives_up_at": gives_up_at}, (), look_at(now, gives_up_at))
    if float(status.get("due_at") or gives_up_at) > now or gives_up_at <= now:
        return None
    addresses, changes = _opened(seen, view, call, "wait")
    if not addresses:
        # It is behind others who wait, or one of them has said it: looked at again, the longer it waits the later.
        waited_s = max(now - float(status.get("waits_since") or now), limits.CONFLICT_AFTER_S)
        return Stuck((), {}, (), min(now + limits.CONFLICT_LATER * waited_s, gives_up_at))
    return Stuck(changes, {CONFLICTS: list(addresses)}, addresses, gives_up_at if is_bound else None)


def bound_at(call: Resource) -> float | None:
    """When a call gives up that said itself how long it would wait, in seconds since 1970; None: it did not say."""
    is_bound = call.spec["arguments"].get("wait_s") is not None
    return float(call.status["gives_up_at"]) if is_bound and "gives_up_at" in call.status else None


def ringed(seen: Observed, view: View, call: Resource) -> tuple[Change, ...]:
    """The changes that open a conflict for a wait that was refused because it was part of a ring."""
    refused: JsonObject = call.status.get("refused") or {}
    return _opened(seen, view, call, "deadlock")[1] if refused.get("reason") == DEADLOCK else ()


def against(view: View, owner: Owner, wants: Wants) -> Iterator[str]:
    """The parties whose grants keep `owner` from having `wants` now."""
    yield from dict.fromkeys(
        standing.party_of(view, each.holder.owner) for each in leases.barring(view, owner.address, wants)
    )


def _opened(seen: Observed, view: View, call: Resource, because: Because) -> tuple[tuple[str, ...], tuple[Change, ...]]:
    """The conflicts with everybody who is in the way, and the changes that open or join them."""
    wants: Wants = call.status.get("wants") or {}
    waits_on = call.address if because == "wait" else ""
    me = seen.resource
    party = Party(me.address, me.uid, seen.status.incarnation, intent=_intent(seen, call), call=waits_on)
    # The first of a queue speaks for all of it: who holds the files is to be moved once.
    others = (
        other
        for other in against(view, leases.owner_of(me), wants)
        if because != "wait" or not opening.is_contested(view, me.address, other, tuple(wants))
    )
    made = opening.opened_with(view, party, others, tuple(sorted(wants)), because, seen.now)
    return tuple(one.address for one in made), tuple(change for one in made for change in one.changes)


def _intent(seen: Observed, call: Resource) -> str:
    """What it wants the files for: its own reason, and what its task is."""
    reason, goal = str(call.status.get("reason") or ""), "" if seen.task_spec is None else seen.task_spec.goal
    return "; ".join(part for part in (reason, goal and f"its task: {goal}") if part)[: limits.CONFLICT_WORDS_MAX]
