"""The reconciler's contract: what a controller promises the engine, and what the engine promises back.

A request is an address, never an event. The controller reads everything it needs from the view, compares, does one
step, and returns an outcome. The engine promises: one address is never reconciled twice at once; an address dirtied
while it runs runs again; the view holds the controller's own last write. The controller promises: a second reconcile
with nothing changed writes nothing; every write carries the revision it was computed from (`expect`).

A step that takes time (a process, a model call, a sleep in a script) is a job on the work plane (`working.py`):
`reconcile` starts or cancels it and returns at once; the job's own append wakes the address again.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from planloop.schemas.address import Address
from planloop.schemas.frozen import frozen


@frozen
class Done:
    """Nothing more to do until something changes."""


@frozen
class Again:
    """Reconcile again in `after_s` seconds even if nothing changes; the delay lives in the queue, not in the object."""

    after_s: float


@frozen
class Failed:
    """The world failed; try again with back-off. `reason` is one CamelCase word."""

    reason: str
    message: str


@frozen
class TerminalFailure:
    """Trying again will not help; the engine writes the condition `Stalled` and waits for a change."""

    reason: str
    message: str


Outcome: TypeAlias = Done | Again | Failed | TerminalFailure


class Reconciler(Protocol):
    """Drives the objects of one kind towards their specs."""

    @property
    def kind(self) -> str: ...

    async def reconcile(self, address: Address) -> Outcome:
        """One step for `address`, which may be gone by now. Raises `Transient` and `Terminal` as outcomes."""
        ...
