"""A lock at `lock/<path or glob>`: holders with their modes, and waiters.

A lock is a lease: it lapses when its holder is gone or makes no progress. Safety rests on the fence, a number that each
grant raises and that is looked at when a file is written, never on the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final, Literal, TypeAlias

from planloop.schemas import codec
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen

LockMode: TypeAlias = Literal["read", "write"]
"""`write` is exclusive; `read` is shared with other readers."""

LockKept: TypeAlias = Literal["turn", "asked", "task", "declared"]
"""Until when a grant is kept: the end of the turn, a `release`, the end of the task; `declared` ones are a task's."""

LOCK_MODES: tuple[LockMode, ...] = ("read", "write")
LASTING: tuple[LockKept, ...] = ("turn", "asked", "task", "declared")
"""From the shortest to the longest: of two grants to one owner the longer stays."""

OF_AGENTS: tuple[LockKept, ...] = ("turn", "asked", "task")
"""Locks that an agent acquired itself. A task's declared locks belong to the task."""

DEADLOCK: Final = "Deadlock"
"""The reason of a request that the lock controller refused to break a deadlock."""

LossHow: TypeAlias = Literal["broken", "lapsed"]


@frozen
class LockGrant:
    """One grant. `owner` is a task's or an agent's address with its uid and incarnation at the grant.

    `since` and `renewed_at` are seconds since 1970; `progress` is what was last seen of the owner's progress (a
    revision); `fence` rises with every grant of the plan.
    """

    owner: str
    uid: str
    incarnation: int
    mode: LockMode
    since: float
    fence: int
    kept: LockKept = "turn"
    reason: str = ""
    renewed_at: float = 0.0
    progress: int = 0

    def to_json(self) -> JsonObject:
        return codec.to_json(self)


@frozen
class LockRequest:
    """One request in a lock's queue, under the address of the waiting call or task. `since` is when it first waited."""

    owner: str
    mode: LockMode
    since: float
    reason: str = ""

    def to_json(self) -> JsonObject:
        return codec.to_json(self)


@frozen
class LostGrant:
    """A grant that its holder lost: an operator broke it, or its lease expired. Kept until the holder got a message.

    `by` is who ended it (`human:cli`, `controller:lock`), `at` the time in seconds, `fence` that of the lost grant, and
    `kept` how long the grant was to last.
    """

    uid: str
    incarnation: int
    fence: int
    how: LossHow
    at: float
    by: str
    reason: str = ""
    kept: LockKept = "turn"

    def to_json(self) -> JsonObject:
        return codec.to_json(self)


@frozen
class LockStatus:
    """`holders` by owner, `waiters` by the address of what waits, `lost` by who lost it and was not told yet.

    `place` is the locked path if it differs from the name, for example behind a symbolic link.
    """

    holders: dict[str, LockGrant] = field(default_factory=dict)
    waiters: dict[str, LockRequest] = field(default_factory=dict)
    lost: dict[str, LostGrant] = field(default_factory=dict)
    place: str = ""


def declared_locks(spec: JsonObject) -> dict[str, LockMode]:
    """The locks that the spec of a task names, each with its mode. Earlier logs have a list: for writing."""
    written = spec.get("locks") or {}
    return dict(written) if isinstance(written, dict) else dict.fromkeys(written, "write")


def describe_cycle(cycle: Sequence[str]) -> str:
    """`a waits for b, which waits for c, which waits for a`."""
    first, *rest = (*cycle, *cycle[:1])
    return f"{first} waits for {', which waits for '.join(rest)}"


def lock_status_from_json(raw: JsonObject) -> LockStatus:
    """The typed form of a lock's `status`; an empty one is a free lock."""
    return codec.from_json(LockStatus, raw)
