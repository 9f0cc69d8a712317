"""Pause and tune Python's cycle collector while many long-lived values are made.

Every map and list of a parsed plan or a read log lives on and is in no cycle: looking through them again and again
while they pile up takes three to six times as long and frees nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

RARE_THRESHOLDS: Final = (100_000, 20, 20)
"""Objects made before the collector looks at the youngest, then how many such looks before it looks at older ones.

At a fifth of that, a run of 1,000 short cases takes a hundredth longer and 2 MB of 112 less.
"""


@contextmanager
def gc_paused() -> Iterator[None]:
    """No collection inside; afterwards as before. Nests."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def gc_paused_then_frozen() -> Iterator[None]:
    """`gc_paused`, and the collector leaves alone what is there by then: for what a command reads before its work.

    Else the first look after it goes through all of that, which took a hundredth of a run of 1,000 short cases.
    """
    with gc_paused():
        yield
        gc.freeze()


def collect_rarely() -> None:
    """From here on the collector looks less often: modules stay, and a sixth of loading them went into looking."""
    gc.set_threshold(*RARE_THRESHOLDS)


def freeze_and_collect_rarely() -> None:
    """From here on the collector leaves alone what is there now, and looks at what comes less often.

    For a process that keeps a view of thousands of objects: a sixth of the time of a run of 1,000 short cases went into
    looking through them, and there are no cycles among them.
    """
    gc.freeze()
    collect_rarely()


def disable_gc_until_exit() -> None:
    """From here on the collector leaves alone all there is: for a process that is about to end.

    Python looks through everything once more at its end: a fifth of a second after a run of 1,000 short cases, for
    memory that goes with the process.
    """
    gc.disable()
    gc.freeze()
