"""The grants that stand, by place: who is in the way of a wish, and who has to be waited for to get past them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from planloop.controllers.leases.granting import place_of
from planloop.controllers.leases.owners import fallen, path_of
from planloop.controllers.leases.places import ByPlace
from planloop.controllers.lock.observing import Wish, awaited
from planloop.reconciler.storing.store import View
from planloop.schemas.frozen import frozen
from planloop.schemas.lock import LockKept, LockMode


@frozen
class Grant:
    """A standing grant of the lock `lock`. `path` is that of its owner's family."""

    lock: str
    owner: str
    path: str
    mode: LockMode
    kept: LockKept


class Held:
    """The standing grants of a view, without those that are about to go, and with those that are about to be made."""

    def __init__(self, view: View, gone: Collection[tuple[str, str]] = ()) -> None:
        self._view = view
        self._grants: dict[LockMode, ByPlace[Grant]] = {"write": ByPlace(), "read": ByPlace()}
        self._known: dict[tuple[str, LockMode], list[Grant]] = {}
        for lock in view.list("lock"):
            path = lock.spec["path"]
            for owner, raw in lock.status.get("holders", {}).items():
                if (path, owner) not in gone and not fallen(view, owner, raw, path):
                    self.add(place_of(lock), Grant(path, owner, path_of(owner), raw["mode"], raw["kept"]))

    def add(self, place: str, grant: Grant) -> None:
        """One more grant, of a lock that is about `place`."""
        self._grants[grant.mode].add(place, grant)
        # One more reader is in the way of no reader: many are granted in one go.
        for key in [one for one in self._known if "write" in (one[1], grant.mode)]:
            del self._known[key]

    def against(self, place: str, mode: LockMode) -> list[Grant]:
        """The grants that exclude `mode` at `place`, whoever asks."""
        found = self._known.get((place, mode))
        if found is None:
            modes: tuple[LockMode, ...] = ("write", "read") if mode == "write" else ("write",)
            found = [grant for one in modes for _, grant in self._grants[one].near(place)]
            self._known[place, mode] = found
        return found

    def settled(self, wishes: Iterable[Wish]) -> bool:
        """Whether no wish can be served and no ring can be among them: true of nearly all looks at a lock in use."""
        barriers: dict[tuple[str, LockMode], list[Grant]] = {}
        waiting = {wish.path for wish in wishes}
        for wish in wishes:
            is_barred = False
            for name, mode in wish.wants.items():
                key = (wish.places[name], mode)
                barriers[key] = self.against(*key)
                is_barred = is_barred or any(not wish.path.startswith(grant.path) for grant in barriers[key])
            if not is_barred:
                return False
        holding = {grant.path for grants in barriers.values() for grant in grants}
        late = holding.union(*(awaited(self._view, path) for path in holding))
        return not any(path.startswith(one) for one in late for path in waiting)

    def blocking(self, wish: Wish) -> Iterator[Grant]:
        """The grants in the way of `wish`: those of its family and its ancestors are not."""
        for name, mode in wish.wants.items():
            for grant in self.against(wish.places[name], mode):
                if not wish.path.startswith(grant.path):
                    yield grant
