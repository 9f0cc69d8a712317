"""Parties of a conflict, the ancestor that decides it, and its next step. Pure.

Each check reads from locks, calls and tasks which agent blocks which. A conflict lasts while the requester still wants
the files and the holder still has them. A ruling lasts until the party that must yield has done so. An open conflict
waits, for a limited time, for the nearest common ancestor that can answer, then for the next ancestor, then for a
person. A party never decides its own conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from planloop.controllers.shared.leases.lock_paths import paths_overlap
from planloop.reconciler.store.store import View
from planloop.schemas import address as addresses
from planloop.schemas import limits, patterns
from planloop.schemas.address import Address
from planloop.schemas.frozen import frozen
from planloop.schemas.log.patch import describe_author
from planloop.schemas.objects import conflict
from planloop.schemas.objects import lock as locks
from planloop.schemas.objects.agent import AgentState
from planloop.schemas.objects.call import CallState
from planloop.schemas.objects.conflict import (
    OPEN,
    PERSON,
    ConflictParty,
    ConflictSpec,
    ConflictStatus,
    Ruling,
    party_name,
)
from planloop.schemas.objects.lock import LockGrant
from planloop.schemas.objects.task import ENDED, is_task_over
from planloop.schemas.resource import Resource


def party_of_owner(view: View, owner: str) -> str:
    """Return the party of a lock owner: the agent of its task, or the task if it has no agent."""
    if view.get(owner) is not None and owner.startswith("agent/"):
        return owner
    agent = str(addresses.agent_address(*addresses.parse_address(owner).path))
    return agent if view.get(agent) is not None else owner


def task_of_party(view: View, party: str) -> str:
    """Return the task of a party; for the agent of a hook, the task of the agent that it watches."""
    found = view.get(party)
    if found is not None and found.kind == "agent":
        return str(found.spec["task"])
    return str(addresses.task_address(*addresses.parse_address(party).path))


def locks_of_party(view: View, party: str, paths: Sequence[str]) -> tuple[tuple[str, LockGrant], ...]:
    """Return the locks on any of `paths` that a party or its task holds, by path."""
    found: list[tuple[str, LockGrant]] = []
    for each in view.list("lock"):
        path = str(each.status.get("place") or each.spec["path"])
        if each.status.get("holders") and touches(path, paths):
            holders = locks.lock_status_from_json(each.status).holders
            found += [(path, one) for owner, one in holders.items() if party_of_owner(view, owner) == party]
    return tuple(found)


def touches(path: str, paths: Iterable[str]) -> bool:
    """Whether a path or glob may match a file that one of `paths` matches."""
    return any(paths_overlap(path, other) for other in paths)


def is_waiting_for_lock(view: View, call: str) -> bool:
    """Whether the call at this address waits for a lock that was neither granted nor rejected."""
    found = view.get(call) if call else None
    if found is None or found.state != CallState.AWAITING_LOCK:
        return False
    return not (found.status.get("granted") or found.status.get("refused"))


def calls_kept_back(view: View, agent: str) -> Iterator[Resource]:
    """Yield the calls of an agent that wait for the end of another task because of a ruling."""
    for each in view.owned_by(agent):
        if each.kind == "call" and each.state == CallState.AWAITING_CHILD and each.status.get("after"):
            yield each


def task_with_priority(view: View, agent: str, paths: Sequence[str]) -> str:
    """Return the task that goes before `agent` on any of `paths` because of a ruling; empty for none."""
    return next((task for task, about in _orders(view, agent) if any(touches(path, paths) for path in about)), "")


def is_behind(view: View, agent: str, first: str) -> bool:
    """Whether a current ruling puts the task `first` before `agent`."""
    return any(task == first for task, _ in _orders(view, agent))


def is_to_yield(view: View, agent: str, paths: Sequence[str]) -> bool:
    """Whether a current ruling takes any of `paths` from `agent`, so that its grants end with its turn."""
    return any(touches(path, paths) for _, status, _ in _against(view, agent) for path in status.paths)


def _orders(view: View, agent: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the tasks that go before `agent` because of current rulings, each with the paths of the conflict."""
    for spec, status, ruling in _against(view, agent):
        if ruling.how == "sequence" and not why_over(view, spec, status):
            yield task_of_party(view, staying_party(spec, ruling)), status.paths


def _against(view: View, agent: str) -> Iterator[tuple[ConflictSpec, ConflictStatus, Ruling]]:
    """Yield the current rulings by which `agent` yields."""
    for each in view.list(conflict.CONFLICT_KIND):
        if each.state != conflict.RULED:
            continue
        spec, status = conflict.conflict_from_json(each.spec), conflict.conflict_status_from_json(each.status)
        if status.ruling is not None and yielding_party(spec, status.ruling) == agent:
            yield spec, status, status.ruling


def why_over(view: View, spec: ConflictSpec, status: ConflictStatus) -> str:
    """Return why the conflict is over; empty while it lasts."""
    for agent in spec.parties:
        if why := _gone(view, agent, status.parties.get(agent)):
            return why
    asks, ruling = status.parties[spec.wants], status.ruling
    if ruling is None:
        if asks.call and not is_waiting_for_lock(view, asks.call):
            return f"{party_name(spec.wants)} no longer waits"
        return "" if locks_of_party(view, spec.holds, status.paths) else f"{party_name(spec.holds)} released its locks"
    if ruling.how == "sequence" or not is_followed(view, spec, status, ruling):
        return ""  # A sequence ends when the task of a party ends, which is checked above.
    yields = yielding_party(spec, ruling)
    return f"{party_name(yields)} {'released its locks' if yields == spec.holds else 'yielded'}"


def will_follow(view: View, spec: ConflictSpec, status: ConflictStatus, ruling: Ruling) -> bool:
    """Whether the yielding party has yielded or will at the end of its open turn."""
    yields = yielding_party(spec, ruling)
    waits = yields == spec.wants and is_waiting_for_lock(view, status.parties[spec.wants].call)
    return not waits and all(one.kept == "turn" for _, one in locks_of_party(view, yields, status.paths))


def is_followed(view: View, spec: ConflictSpec, status: ConflictStatus, ruling: Ruling) -> bool:
    """Whether the yielding party no longer holds or waits for any of the files."""
    yields = yielding_party(spec, ruling)
    waits = yields == spec.wants and is_waiting_for_lock(view, status.parties[spec.wants].call)
    return not waits and not locks_of_party(view, yields, status.paths)


def yielding_party(spec: ConflictSpec, ruling: Ruling) -> str:
    """Return the party that must yield by a ruling."""
    other = spec.holds if ruling.for_agent == spec.wants else spec.wants
    return ruling.for_agent if ruling.how in ("fork", "cancel") else other


def staying_party(spec: ConflictSpec, ruling: Ruling) -> str:
    """Return the party that does not yield."""
    return next(each for each in spec.parties if each != yielding_party(spec, ruling))


def _gone(view: View, agent: str, party: ConflictParty | None) -> str:
    found = view.get(agent)
    if found is None or party is None or found.deleting or found.uid != party.uid:
        return f"{party_name(agent)} was removed"
    if found.status.get("incarnation", 0) != party.incarnation:
        return f"{party_name(agent)} was restarted"
    task = view.get(task_of_party(view, agent))
    if task is None or task.deleting:
        return f"{party_name(agent)} was removed"
    return f"the task of {party_name(agent)} is {task.state}" if has_task_ended(task) else ""


def has_task_ended(task: Resource) -> bool:
    """Whether a task and all its descendants have ended. Before that, it may hold locks or its children may write."""
    return task.state in ENDED


RESOLVE_TOOL = "resolve"


def nearest_ancestor(one: str, other: str) -> Address | None:
    """Return the nearest common ancestor of both agents; None if one of them is the root."""
    mine, theirs = addresses.parse_address(one).path, addresses.parse_address(other).path
    shared = 0
    while shared < min(len(mine), len(theirs)) and mine[shared] == theirs[shared]:
        shared += 1
    shared = min(shared, len(mine) - 1, len(theirs) - 1)
    return None if shared < 0 else addresses.agent_address(*mine[:shared])


def nearest_able(view: View, at: Address | None) -> str:
    """Return the agent at `at`, or its nearest ancestor, that can answer, or PERSON."""
    while at is not None:
        if can_resolve(view, str(at)):
            return str(at)
        at = at.parent
    return PERSON


def next_able_above(view: View, agent: str) -> str:
    """Return the nearest ancestor of an agent that can answer, or PERSON, and for PERSON."""
    return PERSON if agent == PERSON else nearest_able(view, addresses.parse_address(agent).parent)


def can_resolve(view: View, agent: str) -> bool:
    """Whether an agent can decide now: it takes turns and may use `resolve`."""
    found = view.get(agent)
    if found is None or found.deleting or found.state == AgentState.PARKED:
        return False
    task = view.get(str(found.spec["task"]))
    if task is None or task.deleting or task.state in ENDED or is_task_over(task.status) or task.spec["pause"]:
        return False
    return not patterns.find_denial(found.spec["rights"].get("deny", ()), RESOLVE_TOOL, ())


def is_ancestor_of_both(agent: str, one: str, other: str) -> bool:
    """Whether an agent is an ancestor of both others, and so may decide."""
    mine = addresses.parse_address(agent)
    return all(addresses.parse_address(each).is_within(mine) and each != agent for each in (one, other))


@frozen
class CloseConflict:
    """Neither party blocks the other any longer."""

    why: str


@frozen
class RouteConflict:
    """Assign the conflict to `to`, an agent or PERSON, with the full time to answer and the reason `why`."""

    to: str
    raised: int
    why: str


@frozen
class ConflictRest:
    """Nothing to do before `due_at`; None: until something changes."""

    due_at: float | None


ConflictStep: TypeAlias = CloseConflict | RouteConflict | ConflictRest


def decide_conflict(view: View, spec: ConflictSpec, status: ConflictStatus, now: float) -> ConflictStep:
    """Return the next step of a conflict."""
    if not status.is_open:
        return ConflictRest(None)
    if why := why_over(view, spec, status):
        return CloseConflict(why)
    if not status.before:
        return RouteConflict(nearest_able(view, nearest_ancestor(*spec.parties)), 0, "")
    if status.due_at is not None and status.due_at <= now:
        is_done = status.ruling is not None and will_follow(view, spec, status, status.ruling)
        return ConflictRest(None) if is_done else _raised(view, status)
    if status.state == OPEN and status.before != PERSON:
        if not can_resolve(view, status.before):
            to = next_able_above(view, status.before)
            return RouteConflict(to, status.raised, f"{status.before} cannot answer now")
        if incarnation_of(view, status.before) != status.told:
            return RouteConflict(status.before, status.raised, "")
    return ConflictRest(status.due_at)


def _raised(view: View, status: ConflictStatus) -> ConflictStep:
    raised = min(status.raised + 1, limits.CONFLICT_RAISED_MAX)
    is_last = raised == limits.CONFLICT_RAISED_MAX
    to = PERSON if is_last else next_able_above(view, status.before)
    if status.ruling is not None:
        by = describe_author(status.ruling.by)
        return RouteConflict(to, raised, f"{by} resolved it as `{status.ruling.how}`, but this was not followed")
    return RouteConflict(to, raised, f"{status.before} did not answer in {limits.CONFLICT_ANSWER_S:.0f} s")


def incarnation_of(view: View, agent: str) -> int:
    """Return the current incarnation of an agent; 0 for a person."""
    found = view.get(agent)
    return 0 if found is None else int(found.status.get("incarnation") or 0)
