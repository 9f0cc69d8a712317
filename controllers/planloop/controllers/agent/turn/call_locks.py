"""Locks that a call takes when it starts and that its agent releases when the turn ends. Pure.

Only the lock objects record who holds them (`planloop.controllers.shared.leases`). A grant is in the same append as the
intents that need it, a release in the append of the turn's end.
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
"""The error of a call that needs a path which another agent has locked."""
LOCK_LOST_ERROR: Final = "LockLost"
"""The error of a call whose agent had the lock that it needs, until the lease expired or an operator broke the lock."""

LockOutcome: TypeAlias = RecordDraft | CallEnding | None
"""The record of the grants with which a call starts, how it ends or waits instead, or None if it needs no new lock."""


@frozen
class LockWait:
    """Locks that a call waits for together, for at most `wait_s` seconds. Others are shown the `reason`."""

    wants: Wants
    kept: LockKept
    reason: str
    wait_s: float = limits.LOCK_WAIT_S


def lock_owner(agent: ObservedAgent) -> LockOwner:
    """The agent as an owner of locks, in its current incarnation."""
    return grants.lock_owner(agent.resource)


def take_locks(agent: ObservedAgent, view: View, call: Resource, wants: Wants) -> LockOutcome:
    """Take the locks for a call that is about to write the paths of `wants`, or refuse the call, or let it wait."""
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
    """The wait for a task that writes these files first by the resolution of a conflict; None without such a task.

    It lasts at most `wait_s` seconds, or until that task ends if `wait_s` is None.
    """
    first = task_with_priority(view, agent.resource.address, tuple(wants))
    if not first:
        return None
    if wait_s == 0:
        return _not_yet(first)
    call: JsonObject = {"after": first, "ends": [first]}
    due_at = None if wait_s is None else agent.now + wait_s
    return PendingCall(
        CallState.AWAITING_CHILD, (), call, f"waits for {first} to end, as decided in a conflict", (), due_at
    )


def resolve_wait_behind(agent: ObservedAgent, view: View, call: Resource) -> CallEnding | None:
    """The start of a call that waits behind another task, or its end when its time is over; None while it waits.

    Every pass checks the conflicts again, because a party may move or end.
    """
    first, due_at = str(call.status["after"]), call.status.get("due_at")
    if not is_behind(view, agent.resource.address, first):
        return PendingCall(CallState.AUTHORIZED, call={"after": None, "ends": None})
    return _not_yet(first) if due_at is not None and due_at <= agent.now else None


def _not_yet(first: str) -> Settlement:
    text = f"{first} writes these files first, as decided in a conflict, and has not ended.\nNothing was done."
    return Settlement(failure(LOCKED_ERROR, f"{text} Do something else first and try again."))


def lock_duration(agent: ObservedAgent, view: View, wants: Wants, asked: LockKept) -> LockKept:
    """How long a grant of `wants` is kept. A lock that the agent must yield by a resolution is kept for one turn."""
    return "turn" if is_to_yield(view, agent.resource.address, tuple(wants)) else asked


def _granted(agent: ObservedAgent, found: LocksGranted, kept: LockKept) -> RecordDraft:
    data: JsonObject = {"owner": agent.resource.address, "fences": dict(found.fences), "kept": kept}
    subject = f"lock/{min(found.fences)}"
    return RecordDraft("lock.granted", _signed(agent), subject, found.changes, data)


def wait_for_locks(
    agent: ObservedAgent, view: View, call: Resource, wait: LockWait, blockers: Sequence[LockBlocker]
) -> PendingCall:
    """Put the call into the queue of each lock that it wants, for at most `wait.wait_s` seconds."""
    queued = grants.queue_changes(view, call.address, lock_owner(agent), wait.wants, wait.reason, agent.now)
    gives_up_at = agent.now + wait.wait_s
    merge = grants.wish_json(wait.wants, wait.reason, wait.kept) | {
        "gives_up_at": gives_up_at,
        detection.WAIT_CONFLICTS: None,
    }
    blocked = grants.explain_blockers(blockers)
    due_at = detection.first_check_at(agent.now, gives_up_at)
    return PendingCall(CallState.AWAITING_LOCK, queued, merge, blocked.message, blocked.unblocks, due_at)


def resolve_lock_wait(agent: ObservedAgent, view: View, call: Resource) -> CallEnding | None:
    """The end or next step of a call that waits for locks: granted, refused, or out of time; None while it waits."""
    status = call.status
    wants: Wants = status.get("wants") or {}
    if status.get("refused"):
        raw = status["refused"]
        text = _refusal_text(agent, view, raw)
        return Settlement(
            failure(str(raw.get("reason") or LOCKED_ERROR), text), detection.deadlock_changes(agent, view, call)
        )
    if status.get("granted"):
        return _after_grant(call, wants)
    if (stuck := detection.check_wait(agent, view, call)) is not None:
        # The explanation is made again: another agent may hold the lock by now, or the conflict may be over.
        blocked = (
            grants.explain_blockers(blockers)
            if (blockers := lock_blockers(agent, view, wants))
            else grants.explain_free(min(wants))
        )
        why = " · ".join((blocked.message, *(f"{each} is open" for each in stuck.conflicts)))
        unblocks = (*blocked.unblocks, *stuck.unblocks)
        return PendingCall(CallState.AWAITING_LOCK, stuck.changes, stuck.call, why, unblocks, stuck.due_at)
    if (status.get("due_at") or agent.now + 1) > agent.now:
        return None
    left = grants.unqueue_changes(view, call.address, tuple(wants))
    blockers = lock_blockers(agent, view, wants)
    return refuse_locked(agent, view, blockers, left, "The time to wait for it is over")


def _after_grant(call: Resource, wants: Wants) -> CallEnding:
    """The end of a call of the tool `lock`, which only wants the locks; the start of any other call."""
    if call.spec["tool"] == "lock":
        return Settlement(success(f"you hold {name_paths(wants)}"))
    # The call may wait again for other locks, so the fields of this wait are removed.
    return PendingCall(CallState.AUTHORIZED, call=dict.fromkeys(("wants", "kept", "reason", "granted", "refused")))


def write_error(context: ToolContext, path: str) -> Settlement | None:
    """Why the agent may not write `path` now; None if it may. The caller must not await anything before it writes.

    A lease may expire while its holder works, so each write checks the fence and does not rely on the clock.
    """
    agent, view = context.seen, context.services.store.view
    owner = lock_owner(agent)
    why = grants.fence_failure(view, owner, path, "write")
    if not why:
        return None
    if (lost := refuse_lost_lock(agent, view, {path: "write"})) is not None:
        return lost
    # A program before the call may have changed the path to one that was not locked.
    if agent.spec.lock == "off" or context.spec.arguments != context.call.spec["arguments"]:
        blockers = lock_blockers(agent, view, {path: "write"})
        return refuse_locked(agent, view, blockers) if blockers else None
    ways = retry_hint(agent, view, {path: "write"})
    return Settlement(failure(LOCK_LOST_ERROR, f"{_with_fork_paths(agent, why)}.\nNothing was written. {ways}"))


def refuse_lost_lock(agent: ObservedAgent, view: View, wants: Wants) -> Settlement | None:
    """Refuse a write under a lock that expired or was broken, with the reason and the present holder; None if none was.

    The refusal marks the loss as reported, so that the next call takes the lock again.
    """
    owner, rows = lock_owner(agent), LockRows(view)
    lost = tuple(lost_locks(view, owner, wants))
    if not lost:
        return None
    for each in lost:
        rows.told(each.path, each.owner)
    whys = "; ".join(grants.fence_failure(view, owner, path, mode) for path, mode in wants.items())
    ways = retry_hint(agent, view, wants)
    text = f"{_with_fork_paths(agent, whys)}.\nNothing was written. Look at the current content first. {ways}"
    return Settlement(failure(LOCK_LOST_ERROR, text), rows.changes(), data={"fenced": [each.path for each in lost]})


def lock_blockers(agent: ObservedAgent, view: View, wants: Wants) -> Sequence[LockBlocker]:
    """What keeps the agent from getting `wants` now."""
    return grants.find_blockers(view, lock_owner(agent), wants, agent.now)


def refuse_locked(
    agent: ObservedAgent,
    view: View,
    blockers: Sequence[LockBlocker],
    changes: tuple[Change, ...] = (),
    before: str = "",
) -> Settlement:
    """Refuse a call because of others' locks, with their holders and what the agent can do.

    `changes` go into the same record, for example those that remove the call from the queues.
    """
    reasons = ". ".join(part for part in (grants.explain_blockers(blockers).message, before) if part)
    text = f"{_with_fork_paths(agent, reasons)}.\nNothing was done. {ways_out(agent, view)}"
    return Settlement(failure(LOCKED_ERROR, text), changes)


def _refusal_text(agent: ObservedAgent, view: View, raw: JsonObject) -> str:
    """Why a resolution, a deadlock or an operator ended the wait, and what the agent can do."""
    why = str(raw.get("message") or "")
    if raw.get("reason") == RULED_REASON:  # The text of a resolution already tells the agent how to continue.
        return why
    if not why and raw.get("cycle"):
        why = f"deadlock: {describe_cycle(raw['cycle'])}. One of you has to yield, and you were chosen"
    return f"{why or 'the wait for the lock was cancelled'}.\nNothing was done. {ways_out(agent, view)}"


def retry_hint(agent: ObservedAgent, view: View, wants: Wants) -> str:
    """What an agent that lost its locks can do: repeat the call if the locks are free, else what `ways_out` lists."""
    return ways_out(agent, view) if lock_blockers(agent, view, wants) else "Repeat the call: it takes the lock again."


def ways_out(agent: ObservedAgent, view: View) -> str:
    """What a refused agent can do within its rights."""
    ways = []
    if _may("lock", agent):
        ways.append("wait for it with `lock(paths, wait_s=…)`")
    if _may("release", agent) and grants.held_locks(view, lock_owner(agent)):
        ways.append("release your own locks with `release`")
    if _may("contest", agent):
        ways.append("propose a change to the holder, or open a conflict, with `contest`")
    ways.append("ask your parent agent with `request`")
    return f"You can: {'; '.join(ways)}; or do something else first and try again."


def _may(tool: str, agent: ObservedAgent) -> bool:
    return all(patterns.allows_some_call(allowed, tool) for allowed in (agent.spec.tools, agent.spec.rights.tools))


def name_paths(paths: Iterable[str]) -> str:
    """The paths as text, relative to the working tree that they belong to."""
    return ", ".join(f"`{path_in_tree(path)[0]}`" for path in sorted(paths))


def _with_fork_paths(agent: ObservedAgent, text: str) -> str:
    """`text` with paths relative to the agent's fork, if it works in one."""
    return text.replace(f"{lock_prefix(agent.context.fork.address)}/", "") if agent.context.fork is not None else text


def draft_lock_release(
    agent: ObservedAgent, view: View, kept: Collection[LockKept] | None = None
) -> RecordDraft | None:
    """The record that releases the agent's locks of the kinds `kept` (None: all kinds); None if it holds none."""
    changes = grants.release_changes(view, lock_owner(agent), kept=kept)
    if not changes:
        return None
    data: JsonObject = {"owner": agent.resource.address, "locks": [each.address for each in changes]}
    return RecordDraft("lock.released", AGENT_ACTOR, changes[0].address, changes, data)


def draft_wait_withdrawal(agent: ObservedAgent, view: View, call: Resource) -> RecordDraft | None:
    """The record that removes a cancelled call from the queues of locks; None if it is in none.

    It also releases locks that were granted to the call meanwhile, because its agent does not know of them.
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
    """The agent's locks and the states of its containers, for the end of a prompt; empty if it has none."""
    awaited = () if agent.task_spec is None else agent.task_spec.containers
    parts = (
        list_held(grants.held_locks(view, lock_owner(agent))),
        container_exec.containers_summary(view, agent.spec.task, awaited),
    )
    return "\n".join(filter(None, parts))


def list_held(held: Sequence[tuple[str, LockGrant]]) -> str:
    """The locks in one line: the first `limits.LOCKS_TOLD_MAX`, and the number of the others."""
    listed = ", ".join(f"`{path_in_tree(path)[0]}` ({_until(one)})" for path, one in held[: limits.LOCKS_TOLD_MAX])
    rest = f" and {len(held) - limits.LOCKS_TOLD_MAX} more" if len(held) > limits.LOCKS_TOLD_MAX else ""
    return f"[locked for you: {listed}{rest}]" if listed else ""


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
