"""The fold of a log in memory, indexed by kind, by owner and by reference. Pure.

One writer folds; readers get frozen objects. Each change updates the indexes, which are never rebuilt. A read is a
dictionary look-up, and a sort only after that set has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import final

from planloop.schemas.log import record as records
from planloop.schemas.log.record import Record
from planloop.schemas.resource import Resource


class _Index:
    """Sets of addresses by key, returned sorted. The sorted form is kept until its set changes."""

    __slots__ = ("_members", "_sorted")

    def __init__(self) -> None:
        self._members: dict[str, set[str]] = {}
        self._sorted: dict[str, tuple[str, ...]] = {}

    def add(self, key: str, address: str) -> None:
        self._members.setdefault(key, set()).add(address)
        self._sorted.pop(key, None)

    def remove(self, key: str, address: str) -> None:
        members = self._members[key]
        members.discard(address)
        if not members:
            del self._members[key]
        self._sorted.pop(key, None)

    def get(self, key: str) -> tuple[str, ...]:
        found = self._sorted.get(key)
        if found is None:
            members = self._members.get(key)
            if members is None:
                return ()
            found = self._sorted[key] = tuple(sorted(members))
        return found


class _Objects(dict[str, Resource]):
    """Resources by address. `before` has the old value of each address written since `before` was cleared.

    A fold can write to other addresses than a change names (it finds a moved object by its uid), so this records the
    writes themselves.
    """

    __slots__ = ("before",)

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[str, Resource | None] = {}

    def __setitem__(self, address: str, resource: Resource) -> None:
        self.before.setdefault(address, self.get(address))
        super().__setitem__(address, resource)

    def __delitem__(self, address: str) -> None:
        self.before.setdefault(address, self.get(address))
        super().__delitem__(address)

    def restore(self) -> None:
        for address, resource in self.before.items():
            if resource is not None:
                super().__setitem__(address, resource)
            elif address in self:
                super().__delitem__(address)


@final
class MemoryView:
    """A `store.View`. `fold` is for the store that owns it, and for replay."""

    def __init__(self, objects: Iterable[Resource] = (), rev: int = 0) -> None:
        self._objects = _Objects()
        self._kinds = _Index()
        self._owned = _Index()
        self._refs = _Index()
        self._rev = rev
        self.get: Callable[[str], Resource | None] = self._objects.get
        """The object at an address, or None. The most frequent read, so it is the dictionary's own."""
        for resource in objects:
            self._objects[resource.address] = resource
            self._reindex(resource.address, None, resource)

    @property
    def rev(self) -> int:
        return self._rev

    def list(self, kind: str) -> Sequence[Resource]:
        return self._resources(self._kinds.get(kind))

    def owned_by(self, address: str) -> Sequence[Resource]:
        return self._resources(self._owned.get(address))

    def referrers(self, address: str) -> Iterable[str]:
        return self._refs.get(address)

    def everything(self) -> Sequence[Resource]:
        """All objects, by address: for comparing whole views."""
        return self._resources(sorted(self._objects))

    def copied(self) -> dict[str, Resource]:
        """A copy of all objects, by address, which later folds do not change."""
        return dict(self._objects)

    def fold(self, record: Record) -> tuple[str, ...]:
        """Apply `record` and return the addresses that changed. Raises `PatchFailed`, and has then changed nothing."""
        objects = self._objects
        objects.before.clear()
        try:
            touched = records.fold_record(objects, record)
        except ValueError:
            objects.restore()
            raise
        self._rev = record.rev
        for address in touched:
            self._reindex(address, objects.before[address], objects.get(address))
        return touched

    def _resources(self, addresses: Iterable[str]) -> Sequence[Resource]:
        objects = self._objects
        return [objects[address] for address in addresses]

    def _reindex(self, address: str, old: Resource | None, new: Resource | None) -> None:
        if old is not None and new is not None and old.owner == new.owner and old.refs == new.refs:
            return
        if old is None and new is not None:
            self._kinds.add(new.kind, address)
        elif old is not None and new is None:
            self._kinds.remove(old.kind, address)
        old_owner, new_owner = old.owner if old else None, new.owner if new else None
        if old_owner != new_owner:
            if old_owner is not None:
                self._owned.remove(old_owner, address)
            if new_owner is not None:
                self._owned.add(new_owner, address)
        old_refs, new_refs = old.refs if old else (), new.refs if new else ()
        if old_refs != new_refs:
            for ref in set(old_refs).difference(new_refs):
                self._refs.remove(ref, address)
            for ref in set(new_refs).difference(old_refs):
                self._refs.add(ref, address)
