"""Who is in whose way, and whether that is still so: read from locks, calls and tasks at every look.

A conflict stands while the one that asks still wants the files and the one that holds still has them. What is ruled
stands until whoever is to give way has done so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from planloop.controllers.leases import overlap
from planloop.reconciler.storing.store import View
from planloop.schemas import address as addresses
from planloop.schemas import conflict
from planloop.schemas import lock as locks
from planloop.schemas.call import CallState
from planloop.schemas.conflict import ConflictSpec, ConflictStatus, Party, Ruling, name
from planloop.schemas.lock import Holder
from planloop.schemas.resource import Resource
from planloop.schemas.task import ENDED


def party_of(view: View, owner: str) -> str:
    """Who speaks for the owner of a lock: the agent of its task, or the task itself where it has none."""
    if view.get(owner) is not None and owner.startswith("agent/"):
        return owner
    agent = str(addresses.agent(*addresses.parse(owner).path))
    return agent if view.get(agent) is not None else owner


def task_of(view: View, party: str) -> str:
    """The task that a party works for; an agent that is there for a hook has that of the one that it watches."""
    found = view.get(party)
    if found is not None and found.kind == "agent":
        return str(found.spec["task"])
    return str(addresses.task(*addresses.parse(party).path))


def held(view: View, party: str, paths: Sequence[str]) -> tuple[tuple[str, Holder], ...]:
    """The locks on any of `paths` that a party or its task holds, by path."""
    found: list[tuple[str, Holder]] = []
    for each in view.list("lock"):
        path = str(each.status.get("place") or each.spec["path"])
        if each.status.get("holders") and touches(path, paths):
            holders = locks.status_from_json(each.status).holders
            found += [(path, one) for owner, one in holders.items() if party_of(view, owner) == party]
    return tuple(found)


def touches(path: str, paths: Iterable[str]) -> bool:
    """Whether a path or glob may name a file that one of `paths` names."""
    return any(overlap(path, other) for other in paths)


def is_waiting(view: View, call: str) -> bool:
    """Whether the call at this address waits for a lock, and has been neither granted nor refused it."""
    found = view.get(call) if call else None
    if found is None or found.state != CallState.AWAITING_LOCK:
        return False
    return not (found.status.get("granted") or found.status.get("refused"))


def kept_back(view: View, agent: str) -> Iterator[Resource]:
    """The calls of an agent that wait for another task to end first, as was ruled."""
    for each in view.owned_by(agent):
        if each.kind == "call" and each.state == CallState.AWAITING_CHILD and each.status.get("after"):
            yield each


def first_of(view: View, agent: str, paths: Sequence[str]) -> str:
    """The task that goes first on any of `paths` by a ruling that puts `agent` behind it; empty when none does."""
    return next((task for task, about in _orders(view, agent) if any(touches(path, paths) for path in about)), "")


def is_behind(view: View, agent: str, first: str) -> bool:
    """Whether a ruling that stands puts `agent` behind the task `first`."""
    return any(task == first for task, _ in _orders(view, agent))


def is_to_yield(view: View, agent: str, paths: Sequence[str]) -> bool:
    """Whether a ruling that stands takes any of `paths` from `agent`: it gets no grant that outlasts its turn."""
    return any(touches(path, paths) for _, status, _ in _against(view, agent) for path in status.paths)


def _orders(view: View, agent: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The tasks that go before `agent` by rulings that stand, each with the paths that this is about."""
    for spec, status, ruling in _against(view, agent):
        if ruling.how == "sequence" and not over_because(view, spec, status):
            yield task_of(view, stays(spec, ruling)), status.paths


def _against(view: View, agent: str) -> Iterator[tuple[ConflictSpec, ConflictStatus, Ruling]]:
    """The rulings that stand by which `agent` gives way."""
    for each in view.list(conflict.KIND):
        if each.state != conflict.RULED:
            continue
        spec, status = conflict.conflict_from_json(each.spec), conflict.status_from_json(each.status)
        if status.ruling is not None and gives_way(spec, status.ruling) == agent:
            yield spec, status, status.ruling


def over_because(view: View, spec: ConflictSpec, status: ConflictStatus) -> str:
    """Why there is no conflict any more; empty while it stands."""
    for agent in spec.parties:
        if why := _gone(view, agent, status.parties.get(agent)):
            return why
    asks, ruling = status.parties[spec.wants], status.ruling
    if ruling is None:
        if asks.call and not is_waiting(view, asks.call):
            return f"{name(spec.wants)} waits no more"
        return "" if held(view, spec.holds, status.paths) else f"{name(spec.holds)} has let go"
    if ruling.how == "sequence" or not is_followed(view, spec, status, ruling):
        return ""  # Of an order nothing is left when the task of either has ended, which is said above.
    return f"{name(gives_way(spec, ruling))} {'has let go' if gives_way(spec, ruling) == spec.holds else 'gives way'}"


def will_follow(view: View, spec: ConflictSpec, status: ConflictStatus, ruling: Ruling) -> bool:
    """Whether the one that is to give way does so at the end of its open turn, if it has not done so yet."""
    yields = gives_way(spec, ruling)
    waits = yields == spec.wants and is_waiting(view, status.parties[spec.wants].call)
    return not waits and all(one.kept == "turn" for _, one in held(view, yields, status.paths))


def is_followed(view: View, spec: ConflictSpec, status: ConflictStatus, ruling: Ruling) -> bool:
    """Whether the one that is to give way holds nothing of it any more, and waits for nothing of it."""
    yields = gives_way(spec, ruling)
    waits = yields == spec.wants and is_waiting(view, status.parties[spec.wants].call)
    return not waits and not held(view, yields, status.paths)


def gives_way(spec: ConflictSpec, ruling: Ruling) -> str:
    """Which party is to give way by a ruling."""
    other = spec.holds if ruling.for_agent == spec.wants else spec.wants
    return ruling.for_agent if ruling.how in ("fork", "cancel") else other


def stays(spec: ConflictSpec, ruling: Ruling) -> str:
    """The other one."""
    return next(each for each in spec.parties if each != gives_way(spec, ruling))


def _gone(view: View, agent: str, party: Party | None) -> str:
    found = view.get(agent)
    if found is None or party is None or found.deleting or found.uid != party.uid:
        return f"{name(agent)} is gone"
    if found.status.get("incarnation", 0) != party.incarnation:
        return f"{name(agent)} has begun anew"
    task = view.get(task_of(view, agent))
    if task is None or task.deleting:
        return f"{name(agent)} is gone"
    return f"the task of {name(agent)} is {task.state}" if has_ended(task) else ""


def has_ended(task: Resource) -> bool:
    """Whether a task is over with all that is below it: before, its locks may be held, or its children write."""
    return task.state in ENDED
