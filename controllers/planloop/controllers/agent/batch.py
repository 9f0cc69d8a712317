"""Several steps of one agent as one append to the log, all or none.

Each step is decided on the state after the steps before it, as if each were a separate record. Nothing is awaited
between the first step and the append.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from planloop.reconciler.store.store import Store, View
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import remade
from planloop.schemas.log import record as records
from planloop.schemas.log.record import Change, Drop, Mark, Put, RecordDraft, SetStatus
from planloop.schemas.resource import Resource


class _Overlay(MutableMapping[str, Resource]):
    """A view with changed objects on top. None marks a removed object.

    `rewired` are the addresses of objects with changed `refs`. They are few, and are looked up often.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self.made: dict[str, Resource | None] = {}
        self.rewired: dict[str, None] = {}

    def get(self, address: str, default: object = None, /) -> Resource | None:  # type: ignore[override]
        del default
        made = self.made
        return made[address] if address in made else self.view.get(address)

    def __getitem__(self, address: str) -> Resource:
        found = self.get(address)
        if found is None:
            raise KeyError(address)
        return found

    def __setitem__(self, address: str, resource: Resource) -> None:
        self.made[address] = resource
        self._rewire(address, resource.refs)

    def __delitem__(self, address: str) -> None:
        self.made[address] = None
        self._rewire(address, ())

    def _rewire(self, address: str, refs: tuple[str, ...]) -> None:
        old = self.view.get(address)
        if refs != (() if old is None else old.refs) or address in self.rewired:
            self.rewired[address] = None

    def clear(self) -> None:
        self.made.clear()
        self.rewired.clear()

    def __iter__(self) -> Iterator[str]:
        return (address for address, each in self.made.items() if each is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class WriteBatch:
    """A `View` of the state after the steps in the batch. After `commit` it shows the store again.

    `without_waking` is entered while a record is proposed. The caller takes the agent's next steps, so the record must
    not wake the agent.
    """

    def __init__(self, store: Store, without_waking: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self._store = store
        self._without_waking = without_waking
        self._objects = _Overlay(store.view)
        self.get: Callable[[str], Resource | None] = self._objects.get
        """The object at an address after the steps in the batch; None without an object."""
        self._drafts: list[RecordDraft] = []
        self._expect: dict[str, int | None] = {}

    @property
    def rev(self) -> int:
        return self._store.view.rev

    @property
    def is_empty(self) -> bool:
        return not self._drafts

    def has_record(self, type_: str) -> bool:
        """Whether a step in the batch has this record type."""
        return any(draft.type == type_ for draft in self._drafts)

    def list(self, kind: str) -> Sequence[Resource]:
        return self._merged(self._store.view.list(kind), lambda each: each.kind == kind)

    def owned_by(self, address: str) -> Sequence[Resource]:
        return self._merged(self._store.view.owned_by(address), lambda each: each.owner == address)

    def referrers(self, address: str) -> Iterable[str]:
        found, rewired = self._store.view.referrers(address), self._objects.rewired
        if not rewired:
            return found
        now = ((name, self._objects.made[name]) for name in rewired)
        more = [name for name, each in now if each is not None and address in each.refs]
        return [*(each for each in found if each not in rewired), *more]

    def add(self, agent: str, draft: RecordDraft) -> None:
        """Add one step of the agent at that address."""
        if agent not in self._expect:
            now = self._store.view.get(agent)
            self._expect[agent] = None if now is None else now.rev
        self._drafts.append(draft)
        records.fold_changes(self._objects, draft.changes, self.rev)

    def commit(self) -> int:
        """Propose all steps as one record and return the last revision. Raises what `Store.propose` does."""
        drafts, self._drafts = self._drafts, []
        expect, self._expect = self._expect, {}
        self._objects.clear()
        if not drafts:
            return self.rev
        with self._without_waking():
            return self._store.propose(
                joined_draft(drafts, lambda address: self._store.view.get(address) is None), expect
            )

    def _merged(self, found: Sequence[Resource], belongs: Callable[[Resource], bool]) -> Sequence[Resource]:
        made = self._objects.made
        if not made:
            return found
        by_address = {each.address: each for each in found}
        for address, each in made.items():
            if each is not None and belongs(each):
                by_address[address] = each
            else:
                by_address.pop(address, None)
        return [by_address[address] for address in sorted(by_address)]


def joined_draft(drafts: Sequence[RecordDraft], is_new: Callable[[str], bool] = lambda _: False) -> RecordDraft:
    """One record for all of `drafts`, in order: their changes, and the type and data of each.

    `is_new` tells whether an address has no object yet. An object that is created and removed within the record appears
    in the data only.
    """
    first = drafts[0]
    if len(drafts) == 1:
        return first
    changes = squash_changes([change for draft in drafts for change in draft.changes], is_new)
    also = tuple(one for draft in drafts for one in draft.entries)[1:]
    blobs = tuple(dict.fromkeys(blob for draft in drafts for blob in draft.blobs))
    return RecordDraft(first.type, first.actor, first.subject, changes, first.data, blobs, first.cause, also)


def squash_changes(changes: Sequence[Change], is_new: Callable[[str], bool] = lambda _: False) -> tuple[Change, ...]:
    """Fewer changes with the same fold: for each object, one `Put` or merge instead of several where possible."""
    out: list[Change | None] = []
    places: dict[str, list[int]] = {}
    for change in changes:
        at = places.get(change.address)
        if at is None:
            places[change.address] = [len(out)]
            out.append(change)
            continue
        if isinstance(change, Drop) and _is_passing([out[one] for one in at], change) and is_new(change.address):
            for one in at:
                out[one] = None
            at.clear()
            continue
        before = out[at[-1]] if at else None
        both = None if before is None else _both(before, change)
        if both is not None:
            out[at[-1]] = both
        else:
            at.append(len(out))
            out.append(change)
    return tuple(change for change in out if change is not None)


def _is_passing(before: Sequence[Change | None], drop: Drop) -> bool:
    """Whether `before`, all changes at one address, create and change the object that `drop` removes."""
    if not before or not isinstance(before[0], Put):
        return False
    return all(isinstance(one, Put | SetStatus | Mark) and one.uid == drop.uid for one in before)


def _both(first: Change, second: Change) -> Change | None:
    """One change that does what two successive changes of an object do; None if that needs both."""
    if not isinstance(second, SetStatus):
        return None
    if isinstance(first, SetStatus) and first.uid == second.uid:
        merge = compose_merges(first.merge, second.merge)
        return None if merge is None else SetStatus(first.address, first.uid, merge)
    if isinstance(first, Put) and first.uid == second.uid:
        merge = compose_merges(first.status, second.merge)
        return None if merge is None else remade(first, status=merge)
    return None


def compose_merges(first: JsonObject, second: JsonObject) -> JsonObject | None:
    """The merge that does what `first` and then `second` do; None if no single merge does (RFC 7386)."""
    out = dict(first)
    for key, value in second.items():
        if isinstance(value, dict) and key in out:
            inner = out[key]
            # After a null or a plain value, the map would have to replace it, but a merge of maps only adds members.
            both = compose_merges(inner, value) if isinstance(inner, dict) else None
            if both is None:
                return None
            out[key] = both
        else:
            out[key] = value
    return out
