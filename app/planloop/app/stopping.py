"""What `plan down` leaves in the log: every command that it stopped is said to be stopped, never to have failed.

A command that may safely run again is made again by the next owner. One of class `once` was cut off in the middle, so
nobody knows how far it got: it is in doubt, and a person says what became of it (law 5).
"""

from __future__ import annotations

from planloop.app.core import Core
from planloop.reconciler.effects.journal import state_of
from planloop.schemas.call import CallState, call_from_json
from planloop.schemas.encoding import JsonObject
from planloop.schemas.record import Draft, SetStatus

ACTOR = "human:cli"


async def note_stopped(core: Core) -> tuple[str, ...]:
    """Writes it down for every call that is still Started; returns the addresses that are in doubt now.

    Call it when no process of the plan is left.
    """
    doubtful = []
    for call in list(core.store.view.list("call")):
        if state_of(call) is not CallState.STARTED:
            continue
        is_again = call_from_json(call.spec).effect.may_run_again
        state = CallState.AUTHORIZED if is_again else CallState.UNKNOWN
        status: JsonObject = {"state": str(state), "why": "plan down stopped it while it ran"}
        change = SetStatus(call.address, call.uid, status)
        fate = "again" if is_again else "doubt"
        draft = Draft("call.reconciled", ACTOR, call.address, (change,), {"fate": fate})
        await core.store.append(draft, {call.address: call.rev})
        if not is_again:
            doubtful.append(call.address)
    return tuple(doubtful)
