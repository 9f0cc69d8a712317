"""Rewrite references to objects that move to a new address: in locks, conflicts and waiting calls. Pure.

The names of locks in a fork contain the place of the fork (`planloop.schemas.objects.fork.lock_prefix`), so they move
with it. Otherwise holders and later waiters would use two names for one file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from planloop.reconciler.store.store import View
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, Move, Put, SetStatus
from planloop.schemas.objects.fork import FORK_KIND as FORK
from planloop.schemas.objects.fork import lock_prefix
from planloop.schemas.resource import Resource

_OF_LOCKS: Final = ("holders", "waiters", "lost", "place")
_OF_CONFLICTS: Final = ("parties", "before", "paths", "ruling", "order")
_OF_WAITS: Final = ("wants", "granted", "locks", "after", "ends")
"""The parts of a status that contain names. Other parts are texts for people."""


@frozen
class AddressRenames:
    """Old and new names: `moves` of objects, `places` for the prefixes of paths and addresses of locks."""

    moves: Mapping[str, str]
    places: Mapping[str, str]

    def said(self, value: Json) -> Json:
        """`value` with every old name in it replaced by the new one, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.said(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self.said(item) for key, item in value.items()}
        return value

    def text(self, text: str) -> str:
        """The current form of a name."""
        place = next((old for old in self.places if text.startswith(old)), None)
        if place is not None:
            return self.places[place] + text.removeprefix(place)
        return self.moves.get(text, text)

    def refs(self, refs: tuple[str, ...]) -> tuple[str, ...]:
        """The current addresses."""
        return tuple(dict.fromkeys(map(self.text, refs)))

    def merge(self, status: JsonObject, parts: tuple[str, ...]) -> JsonObject:
        """Return the merge that renames in these parts of a status. It also removes old keys, which a merge would
        keep."""
        merge: JsonObject = {}
        for part in parts:
            old, new = status.get(part), self.said(status.get(part))
            if new != old:
                merge[part] = {**dict.fromkeys(old), **new} if isinstance(old, dict) and isinstance(new, dict) else new
        return merge


def address_renames(moves: Mapping[str, str]) -> AddressRenames:
    """Return the renames that follow from `moves` of objects, in their order."""
    forks = ((old, new) for old, new in moves.items() if old.startswith(f"{FORK}/"))
    places = {f"{lock_prefix(old)}/": f"{lock_prefix(new)}/" for old, new in forks}
    return AddressRenames(moves, places | {f"lock/{old}": f"lock/{new}" for old, new in places.items()})


def rename_references(value: Json, moves: Mapping[str, str]) -> Json:
    """`value` with every old name in it replaced by the new one, keys included."""
    return address_renames(moves).said(value)


@frozen
class RenamedLock:
    """A lock before and after, and the changes between them."""

    old: Resource
    new: Resource
    changes: tuple[Change, ...]


def rename_locks(view: View, names: AddressRenames) -> Iterator[RenamedLock]:
    """Yield the locks that moved objects hold, wait for or have lost, and the locks of moved forks.

    Ordered so that an address is free before a lock moves there. If the new address is occupied by a lock of an earlier
    fork, the lock keeps its address until it is released.
    """
    left: set[str] = set()
    order = {place: at for at, place in enumerate(names.places)}
    for lock in sorted(view.list("lock"), key=lambda one: order.get(_place(one, names), -1)) if names.moves else ():
        address = names.text(lock.address)
        is_free = view.get(address) is None or address in left
        is_moved = address != lock.address and is_free
        merge = names.merge(lock.status, _OF_LOCKS)
        if not merge and not is_moved:
            continue
        spec = {**lock.spec, "path": address.partition("/")[2]} if is_moved else lock.spec
        address = address if is_moved else lock.address
        moves = (Move(lock.address, lock.uid, address),) if is_moved else ()
        left |= {lock.address} if is_moved else set()
        status = {**lock.status, **{part: names.said(lock.status[part]) for part in merge}}
        new = replace(lock, address=address, spec=spec, refs=names.refs(lock.refs), status=status)
        put = Put(address, lock.uid, spec, new.refs, lock.owner, lock.finalizers, merge)
        yield RenamedLock(lock, new, (*moves, put))


def _place(lock: Resource, names: AddressRenames) -> str:
    return next((place for place in names.places if lock.address.startswith(place)), "")


def rename_in_waits(view: View, names: AddressRenames) -> Iterator[Change]:
    """Yield changes that rename objects in conflicts, and in calls that wait for locks or tasks."""
    if not names.moves:
        return
    for each in view.list("conflict"):
        spec, merge = names.said(each.spec), _of_conflict(each.status, names)
        if merge or spec != each.spec:
            owner = each.owner and names.text(each.owner)
            yield Put(each.address, each.uid, spec, names.refs(each.refs), owner, each.finalizers, merge)
    for kind in ("call", FORK, "task"):
        for each in view.list(kind):
            if merge := names.merge(each.status, _OF_WAITS):
                yield SetStatus(names.text(each.address), each.uid, merge)


def _of_conflict(status: JsonObject, names: AddressRenames) -> JsonObject:
    merge = names.merge(status, _OF_CONFLICTS)
    # Authors and orders name a task by its path alone.
    if rulings := status.get("ruling"):
        new = [{**names.said(one), "by": _of_path(one["by"], "agent:", names)} for one in rulings]
        merge |= {"ruling": new} if new != rulings else {}
    if orders := status.get("order"):
        new = [{"task": names.text(one["task"]), "needs": _of_path(one["needs"], "", names)} for one in orders]
        merge |= {"order": new} if new != orders else {}
    return merge


def _of_path(text: str, before: str, names: AddressRenames) -> str:
    """`text` with the current path of the task after `before`."""
    if not text.startswith(before):
        return text
    return before + names.text(f"task/{text.removeprefix(before)}").partition("/")[2]
