"""The contract of a controller: `Reconciler`, the outcomes it returns, and how an exception becomes one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ParamSpec, Protocol, TypeAlias, TypeVar

from planloop.reconciler.errors import NotOwner, StoreCorrupt, StoreFailed, TerminalError, TransientError, WriteConflict
from planloop.schemas.address import Address
from planloop.schemas.frozen import frozen

# What a controller and the engine guarantee each other.
#
# A request is an address, never an event. The controller reads everything it needs from the view, compares, does one
# step, and returns an outcome. The engine guarantees: one address is never reconciled twice at once; an address that
# changes while it is reconciled is reconciled again; the view holds the controller's own last write. The controller
# guarantees: a second reconcile with nothing changed writes nothing; every write carries the revision it was computed
# from (`expect`).
#
# A step that takes time (a process, a model call, a sleep in a script) is a job in a work pool
# (`planloop.reconciler.engine.work_pools`): `reconcile` starts or cancels it and returns; the job's own append wakes
# the address again.


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
        """Do one step for `address`, whose object may be gone. `TransientError` and `TerminalError` become outcomes."""
        ...


# The only `except Exception` of the product: every exception of a reconciler or a job becomes a value here, except
# those that stop the owner (a store that cannot be written, a lost plan) and cancellation.

T = TypeVar("T")
P = ParamSpec("P")


@frozen
class LostRace:
    """The object changed since it was read: read and decide again very soon."""

    conflict: WriteConflict


@frozen
class Bug:
    """An internal error: an exception that no reconciler may raise."""

    error: Exception


AttemptFailure: TypeAlias = Failed | TerminalFailure | LostRace | Bug


async def attempt(step: Callable[P, Awaitable[T]], *given: P.args, **named: P.kwargs) -> T | AttemptFailure:
    """Call `step` with the given arguments; returns its result, or the failure that it raised.

    Raises StoreFailed, StoreCorrupt and NotOwner.
    """
    try:
        return await step(*given, **named)
    except (StoreFailed, StoreCorrupt, NotOwner):
        raise
    except WriteConflict as error:
        return LostRace(error)
    except TransientError as error:
        return Failed(error.reason, str(error))
    except TerminalError as error:
        return TerminalFailure(error.reason, str(error))
    except Exception as error:
        return Bug(error)
