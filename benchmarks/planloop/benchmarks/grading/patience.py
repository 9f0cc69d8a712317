"""How long a program is waited for on a machine that has other work: time in which processes stood in line counts less.

A verdict must not depend on what else runs. Linux says how long some process waited for a processor (pressure stall
information, Documentation/accounting/psi.rst of the kernel); such time is not held against the program, up to a bound.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

PRESSURE: Final = Path("/proc/pressure/cpu")
LEAST: Final = 0.25  # Of a second that passes, so much counts at least: a wait is at most four times as long.


def stalled_s(path: Path = PRESSURE) -> float:
    """Seconds in which some process of this machine waited for a processor, since it started; 0 where nobody says."""
    try:
        line = path.read_text().splitlines()[0]
        return int(line.rpartition("total=")[2]) / 1_000_000
    except (OSError, ValueError, IndexError):
        return 0.0


class Patience:
    """Waits `within_s` seconds of a machine that has nothing else to do. Times are seconds of any one clock."""

    def __init__(self, within_s: float, now: float, stalled: float) -> None:
        self._left_s = within_s
        self._now, self._stalled = now, stalled

    def is_over(self, now: float, stalled: float) -> bool:
        """Whether it is used up, asked again and again; `stalled` is what `stalled_s` says at `now`."""
        passed, stood = now - self._now, stalled - self._stalled
        self._now, self._stalled = now, stalled
        self._left_s -= max(passed * LEAST, passed - max(0.0, stood))
        return self._left_s <= 0
