"""Python's cycle collector, held while many values that stay are made at once.

Every map and list of a parsed plan or a read log lives on and is in no cycle: looking through them again and again
while they pile up takes three to six times as long and frees nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SELDOM: Final = (100_000, 20, 20)
"""Objects made before the collector looks at the youngest, then how many such looks before it looks at older ones.

At a fifth of that, a run of 1,000 short cases takes a hundredth longer and 2 MB of 112 less.
"""


@contextmanager
def collector_off() -> Iterator[None]:
    """No collection inside; afterwards as before. Nests."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def made_to_stay() -> Iterator[None]:
    """`collector_off`, and the collector leaves alone what is there by then: for what a command reads before its work.

    Else the first look after it goes through all of that, which took a hundredth of a run of 1,000 short cases.
    """
    with collector_off():
        yield
        gc.freeze()


def look_seldom() -> None:
    """From here on the collector looks less often: modules stay, and a sixth of loading them went into looking."""
    gc.set_threshold(*SELDOM)


def collect_seldom() -> None:
    """From here on the collector leaves alone what is there now, and looks at what comes less often.

    For a process that keeps a view of thousands of objects: a sixth of the time of a run of 1,000 short cases went into
    looking through them, and there are no cycles among them.
    """
    gc.freeze()
    look_seldom()


def collect_no_more() -> None:
    """From here on the collector leaves alone all there is: for a process that is about to end.

    Python looks through everything once more at its end: a fifth of a second after a run of 1,000 short cases, for
    memory that goes with the process.
    """
    gc.disable()
    gc.freeze()
