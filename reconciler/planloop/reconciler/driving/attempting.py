"""One attempt at a step of somebody else's code, its exceptions turned into outcomes.

The only `except Exception` of the product: whatever a reconciler or a job raises becomes a value here. What stops the
owner (a store that cannot be written, a lost plan) is let through, and so is cancellation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeAlias, TypeVar

from planloop.reconciler.contract import Failed, TerminalFailure
from planloop.reconciler.errors import Conflict, NotOwner, StoreCorrupt, StoreFailed, Terminal, Transient
from planloop.schemas.frozen import frozen

T = TypeVar("T")
P = ParamSpec("P")


@frozen
class LostRace:
    """The object moved since it was read: read again, decide again, very soon."""

    conflict: Conflict


@frozen
class Bug:
    """We are wrong: `error` was not meant to happen."""

    error: Exception


Fault: TypeAlias = Failed | TerminalFailure | LostRace | Bug


async def attempt(step: Callable[P, Awaitable[T]], *given: P.args, **named: P.kwargs) -> T | Fault:
    """What `step` of what is given returned, or the fault that it raised.

    Raises StoreFailed, StoreCorrupt and NotOwner.
    """
    try:
        return await step(*given, **named)
    except (StoreFailed, StoreCorrupt, NotOwner):
        raise
    except Conflict as error:
        return LostRace(error)
    except Transient as error:
        return Failed(error.reason, str(error))
    except Terminal as error:
        return TerminalFailure(error.reason, str(error))
    except Exception as error:
        return Bug(error)
