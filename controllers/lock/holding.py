"""The grants that stand, by place: who is in the way of a wish, and who has to be waited for to get past them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from controllers.leases.granting import place_of
from controllers.leases.owners import fallen, path_of
from controllers.leases.places import ByPlace
from controllers.lock.observing import Wish
from reconciler.storing.store import View
from schemas.frozen import frozen
from schemas.lock import LockKept, LockMode


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
        self._grants: dict[LockMode, ByPlace[Grant]] = {"write": ByPlace(), "read": ByPlace()}
        for lock in view.list("lock"):
            path = lock.spec["path"]
            for owner, raw in lock.status.get("holders", {}).items():
                if (path, owner) not in gone and not fallen(view, owner, raw, path):
                    self.add(place_of(lock), Grant(path, owner, path_of(owner), raw["mode"], raw["kept"]))

    def add(self, place: str, grant: Grant) -> None:
        """One more grant, of a lock that is about `place`."""
        self._grants[grant.mode].add(place, grant)

    def against(self, place: str, mode: LockMode) -> Iterator[Grant]:
        """The grants that exclude `mode` at `place`, whoever asks."""
        yield from (grant for _, grant in self._grants["write"].near(place))
        if mode == "write":
            yield from (grant for _, grant in self._grants["read"].near(place))

    def blocking(self, wish: Wish) -> Iterator[Grant]:
        """The grants in the way of `wish`: those of its family and its ancestors are not."""
        for name, mode in wish.wants.items():
            for grant in self.against(wish.places[name], mode):
                if not wish.path.startswith(grant.path):
                    yield grant
