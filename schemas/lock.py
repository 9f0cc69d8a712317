"""A lock: the object `lock/<path or glob>`, who holds it in which mode, and who waits.

A lock is a lease: it lapses when its holder is gone or makes no progress. Safety rests on the fence, a number that each
grant raises and that is looked at when a file is written, never on the clock.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from schemas.encoding import JsonObject
from schemas.frozen import frozen

LockMode: TypeAlias = Literal["read", "write"]
"""`write` is exclusive; `read` is shared with other readers."""

LockKept: TypeAlias = Literal["turn", "task", "asked", "declared"]
"""Until when a grant is kept: the end of the turn, the end of the task, a `release`; `declared` ones are a task's."""


@frozen
class Holder:
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
        return {name: getattr(self, name) for name in self.__match_args__}


@frozen
class Waiter:
    """One wish in a lock's queue, under the address of the call or task that waits. `since` is when it first waited."""

    owner: str
    mode: LockMode
    since: float
    reason: str = ""

    def to_json(self) -> JsonObject:
        return {name: getattr(self, name) for name in self.__match_args__}


@frozen
class LockStatus:
    """`holders` by owner, `waiters` by the address of what waits."""

    holders: dict[str, Holder]
    waiters: dict[str, Waiter]


def status_from_json(raw: JsonObject) -> LockStatus:
    """The typed form of a lock's `status`; an empty one is a free lock."""
    holders = {owner: Holder(**one) for owner, one in raw.get("holders", {}).items()}
    waiters = {address: Waiter(**one) for address, one in raw.get("waiters", {}).items()}
    return LockStatus(holders, waiters)
