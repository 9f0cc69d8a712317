"""What people and agents are told of who is in the way: the lock, its holder, since when, why, and what ends it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from shlex import quote

from planloop.controllers.leases.granting import Blocker
from planloop.schemas import limits
from planloop.schemas.frozen import frozen
from planloop.schemas.lock import Holder


@frozen
class Words:
    """A sentence, and the ways out of it."""

    message: str
    unblocks: tuple[str, ...]


def barred(blockers: Sequence[Blocker]) -> Words:
    """Why a wish has to wait: `lock a.py is held by agent/x (write) since 14:02:51 UTC, "update examples"`."""
    named = blockers[: limits.LOCK_NAMES_SHOWN]
    rest = f" and {len(blockers) - len(named)} more" if len(blockers) > len(named) else ""
    locks = tuple(dict.fromkeys(f"lock/{one.path}" for one in named))
    ways = (f"{locks[0]} is released", *(f"plan unlock {quote(lock)}" for lock in locks))
    return Words("; ".join(_blocked(one) for one in named) + rest, ways)


def free(path: str) -> Words:
    """Nobody is in the way, and the lock is about to be granted."""
    return Words(f"lock {path} is not granted yet", ("it is granted",))


def holding(holder: Holder) -> str:
    """Who, how, since when and why."""
    return f"{holder.owner} ({holder.mode}) since {clock(holder.since)}{_why(holder.reason)}"


def clock(at: float) -> str:
    """A time of day in words that mean the same for everybody who reads the log."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S UTC")


def _blocked(blocker: Blocker) -> str:
    holder = blocker.holder
    if blocker.why == "waits":
        return (
            f"lock {blocker.path} goes to {holder.owner} first ({holder.mode}), which waits since {clock(holder.since)}"
        )
    return f"lock {blocker.path} is held by {holding(holder)}"


def _why(reason: str) -> str:
    return f', "{reason}"' if reason else ""
