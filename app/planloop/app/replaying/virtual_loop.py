"""An event loop on which waiting costs nothing: when nobody can go on, time leaps to the next timer.

For replays: nothing there waits for the world, so the only thing that ever has to happen next is a timer.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Mapping
from typing import Any, Final

IDLE_S: Final = 0.05  # Real seconds between looks when there is no timer either: a thread or a signal may still come.


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose `time()` starts at 0 and moves only by leaps."""

    def __init__(self) -> None:
        self._leaping = _LeapingSelector()
        super().__init__(self._leaping)

    def time(self) -> float:
        """Seconds since the loop was made, none of which anybody waited for."""
        return self._leaping.now


class _LeapingSelector(selectors.BaseSelector):
    """Asks for events without waiting; instead of waiting, moves the clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = self._real.select(IDLE_S if timeout is None else 0)
        if not found and timeout is not None:
            # At least one step of the number itself, even for no wait at all: far from 0 the loop's own tolerance is
            # rounded away, and a timer that is due to the last digit would never be found so.
            self.now = max(self.now + timeout, math.nextafter(self.now, math.inf))
        return found

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()
