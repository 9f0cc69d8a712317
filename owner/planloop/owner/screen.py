"""What an owner asks of a screen, and the keys that a person may press."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from planloop.reconciler.store.store import View
from planloop.schemas.log.record import Record


class ScreenKey(Enum):
    """What a key means, whatever key it is."""

    HAND_OVER = "leave the plan running in the background"
    PAUSE = "pause everything, or let it go on"


class ProgressScreen(Protocol):
    """Who shows the run. All of it is called on the event loop and returns at once."""

    def begin(self, view: View, plan: str) -> None: ...

    def record(self, record: Record, changed: tuple[str, ...]) -> None: ...

    def say(self, text: str) -> None: ...

    async def run(self, press: Callable[[ScreenKey], None]) -> None:
        """Paints and reads keys until cancelled; `press` hears those that change something."""
        ...
