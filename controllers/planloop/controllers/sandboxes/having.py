"""Which sandboxes are to be had on this machine: known once it was tried."""

from __future__ import annotations

from typing import Final, Protocol

from planloop.schemas.sandbox import GROUP, HAD, Answer, Wish


class Sandboxes(Protocol):
    """The sandboxes of this machine."""

    def known(self, wish: Wish) -> Answer | None:
        """What is known of it without trying; None when it was not tried yet."""
        ...

    async def tried(self, wish: Wish) -> Answer:
        """Tries it, by running something in it, unless the answer is known and not due."""
        ...


class _Fixed:
    def __init__(self, tier_max: int) -> None:
        self._tier_max = tier_max

    def known(self, wish: Wish) -> Answer | None:
        if wish.tier <= self._tier_max:
            return HAD
        return Answer(False, f"{wish.words} is not to be had here", "plan apply runs such plans")

    async def tried(self, wish: Wish) -> Answer:
        return self.known(wish) or HAD


EVERY: Final[Sandboxes] = _Fixed(tier_max=1_000)
"""Of a replay, which runs nothing."""

NO_OTHERS: Final[Sandboxes] = _Fixed(tier_max=GROUP)
"""Where nothing encloses."""
