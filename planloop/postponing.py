"""A controller that is made when it is first needed: a plan without agents does not pay 100 ms for importing theirs."""

from __future__ import annotations

from collections.abc import Callable

from reconciler.contract import Outcome, Reconciler
from schemas.address import Address


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
