"""Wait for a real machine without a fixed sleep: a change of the store wakes the waiters."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from planloop.reconciler.store.store import Store

LOOK_S = 0.05  # Files are no records: some conditions are about them.


async def until(store: Store, holds: Callable[[], bool]) -> None:
    """Returns when a change makes `holds` true; the test's timeout is the bound."""
    changed = anyio.Event()

    def on_change(*_: object) -> None:
        changed.set()

    store.on_change(on_change)
    while not holds():
        changed = anyio.Event()
        with anyio.move_on_after(LOOK_S):
            await changed.wait()
