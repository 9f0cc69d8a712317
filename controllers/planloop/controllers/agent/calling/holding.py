"""What an agent holds: locks that come with the start of a call that writes and go with the end of its turn.

Who holds what is said by the locks (`planloop.controllers.leases`) and by nothing else. A grant is in the append of the
intents that need it, what is let go in that of the turn's end. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, TypeAlias

from planloop.controllers import inside, leases
from planloop.controllers.agent.conflicts import waits
from planloop.controllers.agent.conflicts.standing import first_of, is_behind, is_to_yield
from planloop.controllers.agent.conflicts.yielding import RULED
from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.tools.tool import Context, Ending, Settlement, Waiting, failure, ok
from planloop.controllers.leases import Blocker, Granted, Owner, Taken, Wants, words
from planloop.controllers.leases.granting import losses
from planloop.controllers.leases.places import inner
from planloop.controllers.leases.writing import Rows
from planloop.reconciler.storing.store import View
from planloop.schemas import limits, patterns
from planloop.schemas.call import CallState
from planloop.schemas.encoding import JsonObject
from planloop.schemas.fork import lock_place
from planloop.schemas.frozen import frozen
from planloop.schemas.lock import Holder, LockKept, ring_words
from planloop.schemas.record import Change, Draft
from planloop.schemas.resource import Resource

LOCKED: Final = "Locked"
"""The error of a call that others' locks keep from happening."""
LOST: Final = "LockLost"
"""The error of a call that needs a lock which the agent had, and which lapsed or was broken."""

Taking: TypeAlias = Draft | Ending | None
"""The grant that a call starts with, how it ends or waits instead, or None: it needs none."""


@frozen
class Wish:
    """Locks that are waited for together, for at most `wait_s` seconds; `reason` is told to everybody else."""

    wants: Wants
    kept: LockKept
    reason: str
    wait_s: float = limits.LOCK_WAIT_S


def owner_of(seen: Observed) -> Owner:
    """The agent as an owner of locks, in its present run."""
    return leases.owner_of(seen.resource)


def taking(seen: Observed, view: View, call: Resource, wants: Wants) -> Taking:
    """What a call that is about to write the paths of `wants` does about their locks."""
    owner = owner_of(seen)
    lacking = {path: mode for path, mode in wants.items() if leases.fenced(view, owner, path, mode)}
    if not lacking:
        return None
    if (lost := told_of_loss(seen, view, lacking)) is not None:
        return lost
    if (wait := behind(seen, view, lacking)) is not None:
        return wait
    is_off = seen.spec.lock == "off"
    kept = kept_of(seen, view, lacking, "task" if seen.spec.lock == "task" else "turn")
    reason = f"{call.spec['tool']} in turn {call.spec['turn']}"
    found = leases.granted(view, owner, lacking, kept, reason, seen.now)
    match found:
        case Granted():
            return None if is_off else _granted(seen, found, kept)
        case Taken(blockers=blockers) if is_off:
            return refused(seen, view, blockers)
        case Taken(blockers=blockers):
            return waiting(seen, view, call, Wish(lacking, kept, reason), blockers)


def behind(seen: Observed, view: View, wants: Wants, wait_s: float | None = None) -> Ending | None:
    """The wait for the task that goes first on these files, as was ruled in a conflict; None when none does.

    It lasts for `wait_s` at most, None: as long as that task does.
    """
    first = first_of(view, seen.resource.address, tuple(wants))
    if not first:
        return None
    if wait_s == 0:
        return _not_yet(first)
    call: JsonObject = {"after": first, "ends": [first]}
    due_at = None if wait_s is None else seen.now + wait_s
    return Waiting(
        CallState.AWAITING_CHILD, (), call, f"waits for {first} to end, as was ruled in a conflict", (), due_at
    )


def kept_back(seen: Observed, view: View, call: Resource) -> Ending | None:
    """The start of a call that a ruling has kept back, or its end when its time is over; None while it is kept back.

    Read anew at every look, for a party may move or end.
    """
    first, due_at = str(call.status["after"]), call.status.get("due_at")
    if not is_behind(view, seen.resource.address, first):
        return Waiting(CallState.AUTHORIZED, call={"after": None, "ends": None})
    return _not_yet(first) if due_at is not None and due_at <= seen.now else None


def _not_yet(first: str) -> Settlement:
    text = f"{first} goes first, as was ruled in a conflict, and has not ended.\nNothing was done."
    return Settlement(failure(LOCKED, f"{text} Do something else first and try again."))


def kept_of(seen: Observed, view: View, wants: Wants, asked: LockKept) -> LockKept:
    """Until when a grant of `wants` is kept: what a ruling takes from the agent is not taken back by asking again."""
    return "turn" if is_to_yield(view, seen.resource.address, tuple(wants)) else asked


def _granted(seen: Observed, found: Granted, kept: LockKept) -> Draft:
    data: JsonObject = {"owner": seen.resource.address, "fences": dict(found.fences), "kept": kept}
    subject = f"lock/{min(found.fences)}"
    return Draft("lock.granted", _signed(seen), subject, found.changes, data)


def waiting(seen: Observed, view: View, call: Resource, wish: Wish, blockers: Sequence[Blocker]) -> Waiting:
    """The call waits in the queue of each lock that it wants, for a while."""
    queued = leases.queued(view, call.address, owner_of(seen), wish.wants, wish.reason, seen.now)
    gives_up_at = seen.now + wish.wait_s
    merge = leases.wish(wish.wants, wish.reason, wish.kept) | {"gives_up_at": gives_up_at, waits.CONFLICTS: None}
    said = words.barred(blockers)
    due_at = waits.look_at(seen.now, gives_up_at)
    return Waiting(CallState.AWAITING_LOCK, queued, merge, said.message, said.unblocks, due_at)


def resolved(seen: Observed, view: View, call: Resource) -> Ending | None:
    """What has become of a call that waits for locks: granted, refused, or out of time; None while it waits."""
    status = call.status
    wants: Wants = status.get("wants") or {}
    if status.get("refused"):
        raw = status["refused"]
        text = _ended(seen, view, raw)
        return Settlement(failure(str(raw.get("reason") or LOCKED), text), waits.ringed(seen, view, call))
    if status.get("granted"):
        return _gone_on(call, wants)
    if (stuck := waits.stuck(seen, view, call)) is not None:
        # Said anew: somebody else may have it by now, and a conflict that is over is nobody's way out.
        said = words.barred(blockers) if (blockers := blockers_of(seen, view, wants)) else words.free(min(wants))
        why = " · ".join((said.message, *(f"{each} stands over it" for each in stuck.conflicts)))
        return Waiting(
            CallState.AWAITING_LOCK, stuck.changes, stuck.call, why, (*said.unblocks, *stuck.unblocks), stuck.due_at
        )
    if (status.get("due_at") or seen.now + 1) > seen.now:
        return None
    left = leases.unqueued(view, call.address, tuple(wants))
    blockers = blockers_of(seen, view, wants)
    return refused(seen, view, blockers, left, "You waited for it, and the time is over")


def _gone_on(call: Resource, wants: Wants) -> Ending:
    """A call that only wanted the locks is over, any other starts."""
    if call.spec["tool"] == "lock":
        return Settlement(ok(f"you hold {named(wants)}"))
    # Before its start everything about the wait is forgotten: it may wait again, for something else.
    return Waiting(CallState.AUTHORIZED, call=dict.fromkeys(("wants", "kept", "reason", "granted", "refused")))


def write_fault(context: Context, path: str) -> Settlement | None:
    """What stands against a write to `path` at this very moment, None: nothing. Looked at with nothing awaited after.

    Safety does not rest on the clock: a holder whose lease lapsed while it worked finds out here.
    """
    seen, view = context.seen, context.world.store.view
    owner = owner_of(seen)
    why = leases.fenced(view, owner, path, "write")
    if not why:
        return None
    if (lost := told_of_loss(seen, view, {path: "write"})) is not None:
        return lost
    # A program before the call may have led it to another file, which nobody locked for it.
    if seen.spec.lock == "off" or context.spec.arguments != context.call.spec["arguments"]:
        blockers = blockers_of(seen, view, {path: "write"})
        return refused(seen, view, blockers) if blockers else None
    ways = again(seen, view, {path: "write"})
    return Settlement(failure(LOST, f"{_inner(seen, why)}.\nNothing was written. {ways}"))


def told_of_loss(seen: Observed, view: View, wants: Wants) -> Settlement | None:
    """The refusal of a write under a lock that lapsed or was broken: why, and who has it now. None: none of them was.

    It has been told then, so the next call asks for the lock anew.
    """
    owner, rows = owner_of(seen), Rows(view)
    lost = tuple(losses(view, owner, wants))
    if not lost:
        return None
    for each in lost:
        rows.told(each.path, each.owner)
    whys = "; ".join(leases.fenced(view, owner, path, mode) for path, mode in wants.items())
    ways = again(seen, view, wants)
    text = f"{_inner(seen, whys)}.\nNothing was written: look at what is there now. {ways}"
    return Settlement(failure(LOST, text), rows.changes(), data={"fenced": [each.path for each in lost]})


def blockers_of(seen: Observed, view: View, wants: Wants) -> Sequence[Blocker]:
    """Who keeps the agent from having `wants` now."""
    return leases.blockers(view, owner_of(seen), wants, seen.now)


def refused(
    seen: Observed, view: View, blockers: Sequence[Blocker], changes: tuple[Change, ...] = (), before: str = ""
) -> Settlement:
    """The result of a call that others' locks are in the way of, with who has them and its exits.

    `changes` go with it: a wish leaves the queues.
    """
    said = ". ".join(part for part in (words.barred(blockers).message, before) if part)
    text = f"{_inner(seen, said)}.\nNothing was done. {exits(seen, view)}"
    return Settlement(failure(LOCKED, text), changes)


def _ended(seen: Observed, view: View, raw: JsonObject) -> str:
    """Why the wait was ended from outside."""
    why = str(raw.get("message") or "")
    if raw.get("reason") == RULED:  # It says itself how the agent goes on.
        return why
    if not why and raw.get("cycle"):
        why = f"you waited for each other, {ring_words(raw['cycle'])}: somebody has to yield, and it is you"
    return f"{why or 'the wait for the lock was ended'}.\nNothing was done. {exits(seen, view)}"


def again(seen: Observed, view: View, wants: Wants) -> str:
    """What an agent may do that has lost its locks: do it again where nobody has them now, else what others may do."""
    return exits(seen, view) if blockers_of(seen, view, wants) else "Do it again: it takes the lock anew."


def exits(seen: Observed, view: View) -> str:
    """What an agent that is refused may do, of what its rights allow."""
    ways = []
    if _may("lock", seen):
        ways.append("wait for it with `lock(paths, wait_s=…)`")
    if _may("release", seen) and leases.held(view, owner_of(seen)):
        ways.append("yield what you hold with `release`")
    if _may("contest", seen):
        ways.append("propose a change to the holder, or open a conflict, with `contest`")
    ways.append("ask the one above with `request`")
    return f"You can: {'; '.join(ways)}; or do something else first and try again."


def _may(tool: str, seen: Observed) -> bool:
    return all(patterns.any_call_of(allowed, tool) for allowed in (seen.spec.tools, seen.spec.rights.tools))


def named(paths: Iterable[str]) -> str:
    """The paths in words, as those who work in their tree name them."""
    return ", ".join(f"`{inner(path)[0]}`" for path in sorted(paths))


def _inner(seen: Observed, text: str) -> str:
    """`text` about locks with the names that the agent has for them in its fork."""
    return text.replace(f"{lock_place(seen.fork.address)}/", "") if seen.fork is not None else text


def given_back(seen: Observed, view: View, kept: Collection[LockKept] | None = None) -> Draft | None:
    """The record in which the agent lets go what it holds of these sorts, None: of all; None when that is nothing."""
    changes = leases.released(view, owner_of(seen), kept=kept)
    if not changes:
        return None
    data: JsonObject = {"owner": seen.resource.address, "locks": [each.address for each in changes]}
    return Draft("lock.released", "controller:agent", changes[0].address, changes, data)


def given_up(seen: Observed, view: View, call: Resource) -> Draft | None:
    """The record in which a call that is given up leaves the queues; None when it stands in none.

    What it was granted just now goes too: nobody would know that it has it.
    """
    if call.state != CallState.AWAITING_LOCK:
        return None
    owner, granted, rows = owner_of(seen), call.status.get("granted") or {}, Rows(view)
    for path in call.status.get("wants") or ():
        rows.leave(path, call.address)
    for path, held in leases.held(view, owner):
        if held.owner == owner.address and held.fence == granted.get(path):
            rows.release(path, owner.address)
    changes = rows.changes()
    return Draft("lock.released", "controller:agent", changes[0].address, changes) if changes else None


def held_text(seen: Observed, view: View) -> str:
    """What it holds and how its containers are, for the end of a prompt; empty when that is nothing."""
    awaited = () if seen.task_spec is None else seen.task_spec.containers
    told = (listed(leases.held(view, owner_of(seen))), inside.told(view, seen.spec.task, awaited))
    return "\n".join(filter(None, told))


def listed(held: Sequence[tuple[str, Holder]]) -> str:
    """What is held in a line, of very many the first."""
    said = ", ".join(f"`{inner(path)[0]}` ({_until(one)})" for path, one in held[: limits.LOCKS_TOLD_MAX])
    rest = f" and {len(held) - limits.LOCKS_TOLD_MAX} more" if len(held) > limits.LOCKS_TOLD_MAX else ""
    return f"[locked for you: {said}{rest}]" if said else ""


def _until(held: Holder) -> str:
    mode = "" if held.mode == "write" else "for reading, "
    match held.kept:
        case "turn":
            return f"{mode}to the end of this turn"
        case "asked":
            return f"{mode}until you `release` it"
        case "task" | "declared":
            return f"{mode}to the end of your task"


def _signed(seen: Observed) -> str:
    return f"agent:{seen.resource.address.partition('/')[2]}"
