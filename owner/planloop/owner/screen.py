"""Port to the screen of an owner, and the keys that a user can press."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from planloop.reconciler.store.store import View
from planloop.schemas.log.record import Record


class ScreenKey(Enum):
    """The meaning of a key."""

    HAND_OVER = "leave the plan running in the background"
    PAUSE = "pause or resume everything"


class ProgressScreen(Protocol):
    """Shows the progress of a plan. All methods are called on the event loop and return immediately."""

    def begin(self, view: View, plan: str) -> None: ...

    def record(self, record: Record, changed: tuple[str, ...]) -> None: ...

    def say(self, text: str) -> None: ...

    async def run(self, press: Callable[[ScreenKey], None]) -> None:
        """Draw and read keys until cancelled. Call `press` for keys that change something."""
        ...
