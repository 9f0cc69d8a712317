"""What is made when it is first needed: a plan without agents does not pay 100 ms for importing their controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from planloop.reconciler.contract import Outcome, Reconciler
from planloop.schemas.address import Address
from planloop.schemas.encoding import JsonObject

if TYPE_CHECKING:
    from planloop.controllers.worlds import WorldCall, WorldOffer, Worlds


class Postponed:
    """A `Reconciler` for `kind`, made by `make` for its first object. Only for one that hears of nothing before."""

    def __init__(self, kind: str, make: Callable[[], Reconciler]) -> None:
        self._kind = kind
        self._make = make
        self._made: Reconciler | None = None

    @property
    def kind(self) -> str:
        return self._kind

    async def reconcile(self, address: Address) -> Outcome:
        """See `Reconciler.reconcile`."""
        if self._made is None:
            self._made = self._make()
        return await self._made.reconcile(address)


class PostponedWorlds:
    """`Worlds` made by `make` for the first server that is one: hardly any plan has them."""

    def __init__(self, make: Callable[[], Worlds]) -> None:
        self._make = make
        self._made: Worlds | None = None

    def offer(self, file: str, server: str) -> WorldOffer:
        """See `Worlds.offer`."""
        return self._worlds().offer(file, server)

    def call(self, file: str, tool: str, arguments: JsonObject, *, task: str, kept: JsonObject) -> WorldCall:
        """See `Worlds.call`."""
        return self._worlds().call(file, tool, arguments, task=task, kept=kept)

    def _worlds(self) -> Worlds:
        if self._made is None:
            self._made = self._make()
        return self._made
