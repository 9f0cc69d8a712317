"""Compute object changes from the wanted graph: new and changed put, missing marked for deletion, moved renamed. Pure.

A second pass over the result gives no changes. An object that is being deleted is not changed, even if its address is
wanted again: `ObjectChanges.pending` lists these addresses, and the plan controller continues when they are free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from planloop.reconciler.diff import renames
from planloop.reconciler.diff.hook_diff import stated_name
from planloop.reconciler.diff.renames import AddressRenames, RenamedLock
from planloop.reconciler.store.store import View
from planloop.schemas import json_patch
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, Mark, Move, Put
from planloop.schemas.resource import Resource, Uid, WantedObject


@frozen
class PlannedKind:
    """A kind of objects that the plan document declares, and how edits affect them.

    follows_task: the address starts with a task's path, and the object moves with that task; the last `own_parts` of
        the address are the object's own name.
    is_foreign: the status is about processes and trees of this plan, so a fork of the plan does not copy it.
    """

    name: str
    follows_task: bool = True
    own_parts: int = 0
    is_foreign: bool = False


PLANNED_KINDS: Final[Mapping[str, PlannedKind]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            PlannedKind("task"),
            PlannedKind("agent"),
            PlannedKind("container", follows_task=False, is_foreign=True),
            PlannedKind("hook", own_parts=1),
            PlannedKind("mcp", follows_task=False, is_foreign=True),
            PlannedKind("fork", is_foreign=True),
            PlannedKind("case"),
        )
    }
)
"""Kinds by name. Without locks, calls and approvals, which controllers also create."""


@frozen
class ObjectChanges:
    """`changes` lead to the wanted view, except for `pending`: wanted addresses whose old object is being deleted."""

    changes: tuple[Change, ...]
    pending: tuple[str, ...] = ()


def planned_objects(view: View, plan: str) -> dict[str, Resource]:
    """The live objects that the plan document declares, by address, including those being deleted."""
    listed = [one for kind in PLANNED_KINDS for one in view.list(kind)]
    locks = [one for one in view.list("lock") if one.owner == plan]
    return {one.address: one for one in (*listed, *locks)}


def object_changes(
    wanted: Mapping[str, WantedObject],
    view: View,
    plan: str,
    mint: Callable[[], str],
    moved: Mapping[str, str] | None = None,
) -> ObjectChanges:
    """The changes that take the planned objects of `view` to `wanted`. `moved` maps old task addresses to new ones."""
    live = planned_objects(view, plan)
    moves = effective_moves(moved or {}, live, wanted)
    names = renames.address_renames(moves)
    changes: list[Change] = [Move(old, live[old].uid, new) for old, new in moves.items()]
    changes += [change for old, new in moves.items() for change in _following(view, live, old, new, names)]
    locks = tuple(renames.rename_locks(view, names))
    changes += [change for lock in locks for change in lock.changes]
    changes += renames.rename_in_waits(view, names)
    at, taken = _after(live, moves, locks), _taken(view, locks)
    pending: dict[str, None] = {}
    for address, want in wanted.items():
        old_one = at.get(address) or taken.get(address)
        # A new child would prevent the end of the parent's old object, so it waits with its parent.
        if old_one.deleting if old_one is not None else want.owner in pending:
            pending[address] = None
        elif old_one is None or not is_as_wanted(old_one, want):
            changes.append(_put(old_one, want, mint, moves))
    leaving = (one for one in at.values() if one.address not in wanted and not one.deleting)
    changes += [_left(one) for one in leaving]
    return ObjectChanges(tuple(changes), tuple(pending))


def is_as_wanted(live: Resource, want: WantedObject) -> bool:
    """Whether putting `want` would change nothing. Finalizers of existing objects belong to the controllers."""
    refs = _planned_refs(live, want)
    return live.refs == refs and live.owner == want.owner and json_patch.same_json(live.spec, want.spec)


def _taken(view: View, locks: Iterable[RenamedLock]) -> dict[str, Resource]:
    """Locks that were taken before the plan declared them: they keep their holders."""
    known = {one.address: one for one in view.list("lock")}
    for each in locks:
        known.pop(each.old.address, None)
    return known | {each.new.address: each.new for each in locks}


def _planned_refs(live: Resource, want: WantedObject) -> tuple[str, ...]:
    """The refs of a planned object. A lock is woken by its holders and by the tasks that name it."""
    if live.kind != "lock":
        return want.refs
    holders = {*live.status.get("holders", ()), *live.status.get("lost", ())}
    names = {one.partition("/")[2] for one in holders}
    kept = (ref for ref in live.refs if ref in holders or (ref.startswith("task/") and ref[5:] in names))
    return tuple(dict.fromkeys((*want.refs, *kept)))


def _left(one: Resource) -> Change:
    """Mark an object that the plan no longer declares for deletion. A lock in use stays until it is released."""
    if one.kind == "lock" and any(one.status.get(part) for part in ("holders", "waiters", "lost")):
        return Put(one.address, one.uid, one.spec, one.refs, None, one.finalizers)
    return Mark(one.address, one.uid, deleting=True)


def effective_moves(
    moved: Mapping[str, str], live: Mapping[str, Resource], wanted: Mapping[str, WantedObject]
) -> dict[str, str]:
    """Return old address → new address of all objects that `moved` moves: tasks, their descendants, and their agents.

    Omits moves that were already made (no object at the old address) or are not possible (an object at the new address,
    or none wanted there). Ordered so that an address is free before an object moves there.
    """
    if not moved:
        return {}
    asked = {old: _moved_to(old, moved) for old, one in live.items() if not one.deleting}
    moves = {old: new for old, new in asked.items() if new is not None and new != old and new in wanted}
    while True:
        taken = set(moves.values())
        # An object leaves an address that is still wanted only if another one moves in. An occupied target must become
        # free.
        wrong = [old for old in moves if (old in wanted and old not in taken) or _is_stuck(moves[old], live, moves)]
        if not wrong:
            return _in_free_order(moves, live)
        moves = {old: new for old, new in moves.items() if old not in wrong}


def _is_stuck(new: str, live: Mapping[str, Resource], moves: Mapping[str, str]) -> bool:
    return new in live and new not in moves


def _moved_to(address: str, moved: Mapping[str, str]) -> str | None:
    name, _, path = address.partition("/")
    kind = PLANNED_KINDS.get(name)
    if kind is None or not kind.follows_task:
        return None
    parts = path.split("/")
    for length in range(len(parts) - kind.own_parts, 0, -1):
        target = moved.get("task/" + "/".join(parts[:length]))
        if target is not None:
            return "/".join((name, *target.partition("/")[2].split("/"), *parts[length:]))
    return None


def _in_free_order(moves: dict[str, str], live: Mapping[str, Resource]) -> dict[str, str]:
    out: dict[str, str] = {}
    waiting = dict(moves)
    while waiting:
        ready = [old for old, new in waiting.items() if new not in live or new in out]
        if not ready:
            break  # A cycle: no move can be first. The addresses then get new objects, as without `moved`.
        out |= {old: waiting.pop(old) for old in ready}
    return out


def _after(live: Mapping[str, Resource], moves: Mapping[str, str], locks: Iterable[RenamedLock]) -> dict[str, Resource]:
    """The planned objects by their addresses after the moves."""
    declared = [each for each in locks if each.old.address in live]
    gone = {*moves, *(each.old.address for each in declared)}
    stay = {address: one for address, one in live.items() if address not in gone}
    moved = {new: replace(live[old], address=new) for old, new in moves.items()}
    return stay | moved | {each.new.address: each.new for each in declared}


def _following(view: View, live: Mapping[str, Resource], old: str, new: str, names: AddressRenames) -> Iterator[Change]:
    """Move calls and other objects that controllers created for a moved owner, with their status."""
    for one in view.owned_by(old):
        if one.address not in live and one.kind != "conflict":
            yield Put(one.address, one.uid, names.said(one.spec), names.refs(one.refs), new, one.finalizers)


def _put(old: Resource | None, want: WantedObject, mint: Callable[[], str], moves: Mapping[str, str]) -> Put:
    if old is None:
        return Put(want.address, Uid(mint()), want.spec, want.refs, want.owner, want.finalizers)
    # A hook that gets the name of another hook does not inherit its status.
    gone: JsonObject = dict.fromkeys(old.status) if _is_another_hook(old, want, moves) else {}
    return Put(want.address, old.uid, want.spec, _planned_refs(old, want), want.owner, old.finalizers, gone)


def _is_another_hook(old: Resource, want: WantedObject, moves: Mapping[str, str]) -> bool:
    """Whether the wanted hook at an address is defined at another place of the plan than the existing one."""
    if old.kind != "hook":
        return False
    set_at = moves.get(str(old.spec["set_at"]), str(old.spec["set_at"]))
    return (set_at, stated_name(old.spec)) != (want.spec["set_at"], stated_name(want.spec))
