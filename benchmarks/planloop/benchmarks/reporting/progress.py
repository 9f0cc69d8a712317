"""The progress line of a running benchmark: entries done, pass rate, cost, time left.

Pure: the folded events, the time and the room there is in, the words out. What does not fit goes, the least needed
first, so that the line never wraps.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from planloop.benchmarks.scoring.fold import EntryResult, RunFold
from planloop.schemas import quantities
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.case import CaseVerdict
from planloop.schemas.quantities import cell_width, replace_control_chars, truncate_cells

GAP: Final = "  "
NAME_MAX: Final = 24


@frozen
class RunProgress:
    """How far a run is. `left_s` None: nothing has ended that it could be told from. `usd` is of all attempts."""

    suite: str
    total: int
    done: int
    passed: int
    failed: int
    undecided: int
    running: int
    usd: float
    left_s: float | None


def run_progress(fold: RunFold, now: float, *, parallel: int) -> RunProgress:
    """The progress of the run of `fold` at `now`, in seconds since 1970, with room for `parallel` entries."""
    entries = fold.entries()
    ended = [one for one in entries if one.verdict is not None and one.times.began is None]
    verdicts = [one.verdict for one in ended]
    running = [one for one in entries if one.times.began is not None]
    total = max(fold.run.entry_count, len(entries))
    passed, failed = verdicts.count(CaseVerdict.PASS), verdicts.count(CaseVerdict.FAIL)
    return RunProgress(
        fold.run.suite,
        total,
        len(ended),
        passed,
        failed,
        len(ended) - passed - failed,
        len(running),
        fold.history().usd,
        _left_s(ended, running, total - len(ended) - len(running), now, parallel),
    )


def progress_line(found: RunProgress, *, width: int) -> str:
    """`tool-calling  12/40  10 pass  2 fail  83 %  $1.24  3m20s left`, in at most `width` cells.

    Empty before the run is open.
    """
    if not found.total:
        return ""
    parts = _parts(found)
    shown = [text for _, text in parts]
    for rank in range(max(rank for rank, _ in parts), 0, -1):
        if cell_width(GAP.join(shown)) <= width:
            break
        shown = [text for own, text in parts if own < rank]
    return truncate_cells(GAP.join(shown), width)


def _parts(found: RunProgress) -> list[tuple[int, str]]:
    """The parts of the line in order, each with its rank: the highest is dropped first if there is no room."""
    decided = found.passed + found.failed
    parts = [(3, truncate_cells(replace_control_chars(found.suite), NAME_MAX)), (0, f"{found.done}/{found.total}")]
    parts += [(4, f"{found.passed} pass"), (4, f"{found.failed} fail")]
    if found.undecided:
        parts.append((1, f"{found.undecided} undecided"))
    if decided:
        parts.append((1, f"{100 * found.passed / decided:.0f} %"))
    if found.usd:
        parts.append((2, quantities.format_money(Decimal(repr(found.usd)))))
    if found.running:
        parts.append((5, f"{found.running} running"))
    if found.done == found.total:
        parts.append((2, "done"))
    elif found.left_s is not None:
        parts.append((2, f"{quantities.format_duration(found.left_s)} left"))
    return parts


def _left_s(
    ended: Sequence[EntryResult], running: Sequence[EntryResult], waiting: int, now: float, parallel: int
) -> float | None:
    """The remaining work, by the mean of ended entries, shared by as many as can run in parallel."""
    times = [one.times.took_s for one in ended if one.times.took_s is not None]
    if not times:
        return None
    mean = sum(times) / len(times)
    begun = [max(0.0, mean - (now - one.times.began)) for one in running if one.times.began is not None]
    left = waiting + len(running)
    return (waiting * mean + sum(begun)) / max(1, min(parallel, left))
