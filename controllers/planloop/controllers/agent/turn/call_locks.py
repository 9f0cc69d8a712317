"""Locks that a call takes when it starts and that its agent releases when the turn ends. Pure.

Who holds what is said by the locks (`planloop.controllers.shared.leases`) and by nothing else. A grant is in the append
of the intents that need it, what is let go in that of the turn's end. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, TypeAlias

from planloop.controllers.agent.conflicts import detection
from planloop.controllers.agent.conflicts.decide import is_behind, is_to_yield, task_with_priority
from planloop.controllers.agent.conflicts.resolution import RULED_REASON
from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.status import AGENT_ACTOR
from planloop.controllers.agent.tools.tool import CallEnding, PendingCall, Settlement, ToolContext, failure, success
from planloop.controllers.shared import container_exec
from planloop.controllers.shared.leases import grants
from planloop.controllers.shared.leases.grants import (
    LockBlocker,
    LockOwner,
    LockRows,
    LocksBlocked,
    LocksGranted,
    Wants,
    lost_locks,
)
from planloop.controllers.shared.leases.lock_paths import path_in_tree
from planloop.reconciler.store.store import View
from planloop.schemas import limits, patterns
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, RecordDraft
from planloop.schemas.objects.call import CallState
from planloop.schemas.objects.fork import lock_prefix
from planloop.schemas.objects.lock import LockGrant, LockKept, describe_cycle
from planloop.schemas.resource import Resource

LOCKED_ERROR: Final = "Locked"
"""The error of a call that others' locks keep from happening."""
LOCK_LOST_ERROR: Final = "LockLost"
"""The error of a call that needs a lock which the agent had, and which lapsed or was broken."""

LockOutcome: TypeAlias = RecordDraft | CallEnding | None
"""The grant that a call starts with, how it ends or waits instead, or None: it needs none."""


@frozen
class LockWait:
    """Locks that are waited for together, for at most `wait_s` seconds; `reason` is told to everybody else."""

    wants: Wants
    kept: LockKept
    reason: str
    wait_s: float = limits.LOCK_WAIT_S


def lock_owner(agent: ObservedAgent) -> LockOwner:
    """The agent as an owner of locks, in its present run."""
    return grants.lock_owner(agent.resource)


def take_locks(agent: ObservedAgent, view: View, call: Resource, wants: Wants) -> LockOutcome:
    """What a call that is about to write the paths of `wants` does about their locks."""
    owner = lock_owner(agent)
    lacking = {path: mode for path, mode in wants.items() if grants.fence_failure(view, owner, path, mode)}
    if not lacking:
        return None
    if (lost := refuse_lost_lock(agent, view, lacking)) is not None:
        return lost
    if (wait := wait_behind(agent, view, lacking)) is not None:
        return wait
    is_off = agent.spec.lock == "off"
    kept = lock_duration(agent, view, lacking, "task" if agent.spec.lock == "task" else "turn")
    reason = f"{call.spec['tool']} in turn {call.spec['turn']}"
    found = grants.grant_locks(view, owner, lacking, kept, reason, agent.now)
    match found:
        case LocksGranted():
            return None if is_off else _granted(agent, found, kept)
        case LocksBlocked(blockers=blockers) if is_off:
            return refuse_locked(agent, view, blockers)
        case LocksBlocked(blockers=blockers):
            return wait_for_locks(agent, view, call, LockWait(lacking, kept, reason), blockers)


def wait_behind(agent: ObservedAgent, view: View, wants: Wants, wait_s: float | None = None) -> CallEnding | None:
    """The wait for the task that goes first on these files, as was ruled in a conflict; None when none does.

    It lasts for `wait_s` at most, None: as long as that task does.
    """
    first = task_with_priority(view, agent.resource.address, tuple(wants))
    if not first:
        return None
    if wait_s == 0:
        return _not_yet(first)
    call: JsonObject = {"after": first, "ends": [first]}
    due_at = None if wait_s is None else agent.now + wait_s
    return PendingCall(
        CallState.AWAITING_CHILD, (), call, f"waits for {first} to end, as was ruled in a conflict", (), due_at
    )


def resolve_wait_behind(agent: ObservedAgent, view: View, call: Resource) -> CallEnding | None:
    """The start of a call that a ruling has kept back, or its end when its time is over; None while it is kept back.

    Read anew at every look, for a party may move or end.
    """
    first, due_at = str(call.status["after"]), call.status.get("due_at")
    if not is_behind(view, agent.resource.address, first):
        return PendingCall(CallState.AUTHORIZED, call={"after": None, "ends": None})
    return _not_yet(first) if due_at is not None and due_at <= agent.now else None


def _not_yet(first: str) -> Settlement:
    text = f"{first} goes first, as was ruled in a conflict, and has not ended.\nNothing was done."
    return Settlement(failure(LOCKED_ERROR, f"{text} Do something else first and try again."))


def lock_duration(agent: ObservedAgent, view: View, wants: Wants, asked: LockKept) -> LockKept:
    """Until when a grant of `wants` is kept: what a ruling takes from the agent is not taken back by asking again."""
    return "turn" if is_to_yield(view, agent.resource.address, tuple(wants)) else asked


def _granted(agent: ObservedAgent, found: LocksGranted, kept: LockKept) -> RecordDraft:
    data: JsonObject = {"owner": agent.resource.address, "fences": dict(found.fences), "kept": kept}
    subject = f"lock/{min(found.fences)}"
    return RecordDraft("lock.granted", _signed(agent), subject, found.changes, data)


def wait_for_locks(
    agent: ObservedAgent, view: View, call: Resource, wish: LockWait, blockers: Sequence[LockBlocker]
) -> PendingCall:
    """The call waits in the queue of each lock that it wants, for a while."""
    queued = grants.queue_changes(view, call.address, lock_owner(agent), wish.wants, wish.reason, agent.now)
    gives_up_at = agent.now + wish.wait_s
    merge = grants.wish_json(wish.wants, wish.reason, wish.kept) | {
        "gives_up_at": gives_up_at,
        detection.WAIT_CONFLICTS: None,
    }
    said = grants.explain_blockers(blockers)
    due_at = detection.first_check_at(agent.now, gives_up_at)
    return PendingCall(CallState.AWAITING_LOCK, queued, merge, said.message, said.unblocks, due_at)


def resolve_lock_wait(agent: ObservedAgent, view: View, call: Resource) -> CallEnding | None:
    """What has become of a call that waits for locks: granted, refused, or out of time; None while it waits."""
    status = call.status
    wants: Wants = status.get("wants") or {}
    if status.get("refused"):
        raw = status["refused"]
        text = _ended(agent, view, raw)
        return Settlement(
            failure(str(raw.get("reason") or LOCKED_ERROR), text), detection.deadlock_changes(agent, view, call)
        )
    if status.get("granted"):
        return _gone_on(call, wants)
    if (stuck := detection.check_wait(agent, view, call)) is not None:
        # Said anew: somebody else may have it by now, and a conflict that is over is nobody's way out.
        said = (
            grants.explain_blockers(blockers)
            if (blockers := lock_blockers(agent, view, wants))
            else grants.explain_free(min(wants))
        )
        why = " · ".join((said.message, *(f"{each} stands over it" for each in stuck.conflicts)))
        return PendingCall(
            CallState.AWAITING_LOCK, stuck.changes, stuck.call, why, (*said.unblocks, *stuck.unblocks), stuck.due_at
        )
    if (status.get("due_at") or agent.now + 1) > agent.now:
        return None
    left = grants.unqueue_changes(view, call.address, tuple(wants))
    blockers = lock_blockers(agent, view, wants)
    return refuse_locked(agent, view, blockers, left, "You waited for it, and the time is over")


def _gone_on(call: Resource, wants: Wants) -> CallEnding:
    """A call that only wanted the locks is over, any other starts."""
    if call.spec["tool"] == "lock":
        return Settlement(success(f"you hold {name_paths(wants)}"))
    # Before its start everything about the wait is forgotten: it may wait again, for something else.
    return PendingCall(CallState.AUTHORIZED, call=dict.fromkeys(("wants", "kept", "reason", "granted", "refused")))


def write_error(context: ToolContext, path: str) -> Settlement | None:
    """What stands against a write to `path` at this very moment, None: nothing. Looked at with nothing awaited after.

    Safety does not rest on the clock: a holder whose lease lapsed while it worked finds out here.
    """
    agent, view = context.seen, context.services.store.view
    owner = lock_owner(agent)
    why = grants.fence_failure(view, owner, path, "write")
    if not why:
        return None
    if (lost := refuse_lost_lock(agent, view, {path: "write"})) is not None:
        return lost
    # A program before the call may have led it to another file, which nobody locked for it.
    if agent.spec.lock == "off" or context.spec.arguments != context.call.spec["arguments"]:
        blockers = lock_blockers(agent, view, {path: "write"})
        return refuse_locked(agent, view, blockers) if blockers else None
    ways = retry_hint(agent, view, {path: "write"})
    return Settlement(failure(LOCK_LOST_ERROR, f"{_inner(agent, why)}.\nNothing was written. {ways}"))


def refuse_lost_lock(agent: ObservedAgent, view: View, wants: Wants) -> Settlement | None:
    """The refusal of a write under a lock that lapsed or was broken: why, and who has it now. None: none of them was.

    It has been told then, so the next call asks for the lock anew.
    """
    owner, rows = lock_owner(agent), LockRows(view)
    lost = tuple(lost_locks(view, owner, wants))
    if not lost:
        return None
    for each in lost:
        rows.told(each.path, each.owner)
    whys = "; ".join(grants.fence_failure(view, owner, path, mode) for path, mode in wants.items())
    ways = retry_hint(agent, view, wants)
    text = f"{_inner(agent, whys)}.\nNothing was written: look at what is there now. {ways}"
    return Settlement(failure(LOCK_LOST_ERROR, text), rows.changes(), data={"fenced": [each.path for each in lost]})


def lock_blockers(agent: ObservedAgent, view: View, wants: Wants) -> Sequence[LockBlocker]:
    """Who keeps the agent from having `wants` now."""
    return grants.find_blockers(view, lock_owner(agent), wants, agent.now)


def refuse_locked(
    agent: ObservedAgent,
    view: View,
    blockers: Sequence[LockBlocker],
    changes: tuple[Change, ...] = (),
    before: str = "",
) -> Settlement:
    """The result of a call that others' locks are in the way of, with who has them and its exits.

    `changes` go with it: a wish leaves the queues.
    """
    said = ". ".join(part for part in (grants.explain_blockers(blockers).message, before) if part)
    text = f"{_inner(agent, said)}.\nNothing was done. {ways_out(agent, view)}"
    return Settlement(failure(LOCKED_ERROR, text), changes)


def _ended(agent: ObservedAgent, view: View, raw: JsonObject) -> str:
    """Why the wait was ended from outside."""
    why = str(raw.get("message") or "")
    if raw.get("reason") == RULED_REASON:  # It says itself how the agent goes on.
        return why
    if not why and raw.get("cycle"):
        why = f"you waited for each other, {describe_cycle(raw['cycle'])}: somebody has to yield, and it is you"
    return f"{why or 'the wait for the lock was ended'}.\nNothing was done. {ways_out(agent, view)}"


def retry_hint(agent: ObservedAgent, view: View, wants: Wants) -> str:
    """What an agent may do that has lost its locks: do it again where nobody has them now, else what others may do."""
    return ways_out(agent, view) if lock_blockers(agent, view, wants) else "Do it again: it takes the lock anew."


def ways_out(agent: ObservedAgent, view: View) -> str:
    """What an agent that is refused may do, of what its rights allow."""
    ways = []
    if _may("lock", agent):
        ways.append("wait for it with `lock(paths, wait_s=…)`")
    if _may("release", agent) and grants.held_locks(view, lock_owner(agent)):
        ways.append("yield what you hold with `release`")
    if _may("contest", agent):
        ways.append("propose a change to the holder, or open a conflict, with `contest`")
    ways.append("ask the one above with `request`")
    return f"You can: {'; '.join(ways)}; or do something else first and try again."


def _may(tool: str, agent: ObservedAgent) -> bool:
    return all(patterns.allows_some_call(allowed, tool) for allowed in (agent.spec.tools, agent.spec.rights.tools))


def name_paths(paths: Iterable[str]) -> str:
    """The paths in words, as those who work in their tree name them."""
    return ", ".join(f"`{path_in_tree(path)[0]}`" for path in sorted(paths))


def _inner(agent: ObservedAgent, text: str) -> str:
    """`text` about locks with the names that the agent has for them in its fork."""
    return text.replace(f"{lock_prefix(agent.context.fork.address)}/", "") if agent.context.fork is not None else text


def draft_lock_release(
    agent: ObservedAgent, view: View, kept: Collection[LockKept] | None = None
) -> RecordDraft | None:
    """The record in which the agent lets go what it holds of these sorts, None: of all; None when that is nothing."""
    changes = grants.release_changes(view, lock_owner(agent), kept=kept)
    if not changes:
        return None
    data: JsonObject = {"owner": agent.resource.address, "locks": [each.address for each in changes]}
    return RecordDraft("lock.released", AGENT_ACTOR, changes[0].address, changes, data)


def draft_wait_withdrawal(agent: ObservedAgent, view: View, call: Resource) -> RecordDraft | None:
    """The record in which a call that is given up leaves the queues; None when it stands in none.

    What it was granted just now goes too: nobody would know that it has it.
    """
    if call.state != CallState.AWAITING_LOCK:
        return None
    owner, granted, rows = lock_owner(agent), call.status.get("granted") or {}, LockRows(view)
    for path in call.status.get("wants") or ():
        rows.leave(path, call.address)
    for path, held in grants.held_locks(view, owner):
        if held.owner == owner.address and held.fence == granted.get(path):
            rows.release(path, owner.address)
    changes = rows.changes()
    return RecordDraft("lock.released", AGENT_ACTOR, changes[0].address, changes) if changes else None


def describe_held(agent: ObservedAgent, view: View) -> str:
    """What it holds and how its containers are, for the end of a prompt; empty when that is nothing."""
    awaited = () if agent.task_spec is None else agent.task_spec.containers
    told = (
        list_held(grants.held_locks(view, lock_owner(agent))),
        container_exec.containers_summary(view, agent.spec.task, awaited),
    )
    return "\n".join(filter(None, told))


def list_held(held: Sequence[tuple[str, LockGrant]]) -> str:
    """What is held in a line, of very many the first."""
    said = ", ".join(f"`{path_in_tree(path)[0]}` ({_until(one)})" for path, one in held[: limits.LOCKS_TOLD_MAX])
    rest = f" and {len(held) - limits.LOCKS_TOLD_MAX} more" if len(held) > limits.LOCKS_TOLD_MAX else ""
    return f"[locked for you: {said}{rest}]" if said else ""


def _until(held: LockGrant) -> str:
    mode = "" if held.mode == "write" else "for reading, "
    match held.kept:
        case "turn":
            return f"{mode}to the end of this turn"
        case "asked":
            return f"{mode}until you `release` it"
        case "task" | "declared":
            return f"{mode}to the end of your task"


def _signed(agent: ObservedAgent) -> str:
    return f"agent:{agent.resource.address.partition('/')[2]}"
