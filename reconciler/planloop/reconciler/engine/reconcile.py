"""The contract between the engine and a controller: `Reconciler`, its outcomes, and how an exception becomes one.

A request is an address, never an event. The controller reads everything it needs from the view, compares, takes one
step and returns an outcome.

The engine guarantees that one address is never reconciled twice at the same time, that an address which changes while
it is reconciled is reconciled again, and that the view has the controller's own last write. The controller guarantees
that a second reconcile with nothing changed writes nothing, and that every write carries the revision that it was
computed from (`expect` of `Store.propose`).

A step that takes time (a process, a model call, a pause of a script) is a job in
`planloop.reconciler.engine.work_pools`: `reconcile` starts or cancels it and returns; when the job ends, its owner is
reconciled again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ParamSpec, Protocol, TypeAlias, TypeVar

from planloop.reconciler.errors import NotOwner, StoreCorrupt, StoreFailed, TerminalError, TransientError, WriteConflict
from planloop.schemas.address import Address
from planloop.schemas.frozen import frozen

T = TypeVar("T")
P = ParamSpec("P")


@frozen
class Done:
    """Nothing to do until something changes."""


@frozen
class Again:
    """Reconcile again in `after_s` seconds, or earlier if something changes. The delay is not stored in the log."""

    after_s: float


@frozen
class Failed:
    """A transient failure: the engine writes the condition `Retrying` and tries again with back-off.

    `reason` is one CamelCase word for programs, `message` a sentence for people.
    """

    reason: str
    message: str


@frozen
class TerminalFailure:
    """A failure that a retry cannot fix: the engine writes the condition `Stalled` and waits for a change."""

    reason: str
    message: str


Outcome: TypeAlias = Done | Again | Failed | TerminalFailure


class Reconciler(Protocol):
    """Brings the state of the objects of one kind closer to their specs."""

    @property
    def kind(self) -> str: ...

    async def reconcile(self, address: Address) -> Outcome:
        """Take one step for the object at `address`, which may have been deleted.

        Instead of returning `Failed` or `TerminalFailure` it may raise TransientError or TerminalError. Any other
        exception is reported as a bug, except WriteConflict (see `LostRace`) and those that `attempt` raises.
        """
        ...


@frozen
class LostRace:
    """The object changed after it was read: reconcile again almost immediately."""

    conflict: WriteConflict


@frozen
class Bug:
    """A bug of planloop: `error` is an exception that the code must not raise."""

    error: Exception


AttemptFailure: TypeAlias = Failed | TerminalFailure | LostRace | Bug


async def attempt(step: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T | AttemptFailure:
    """Await `step(*args, **kwargs)` and return its result, or its exception as a value.

    Raises StoreFailed, StoreCorrupt and NotOwner, after which this process must stop; cancellation passes, too.
    """
    # The only `except Exception` of the product, so that no reconciler or job can end the engine.
    try:
        return await step(*args, **kwargs)
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
