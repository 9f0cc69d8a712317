"""The line while a run goes on: true at every moment, and never wider than the terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.benchmarks.events.reader import BenchEvent
from planloop.benchmarks.scoring.fold import RunFold
from planloop.cli.bench_runner import RunProgress, progress_line, run_progress
from planloop.schemas.quantities import cell_width
from tests.benchmarks.runs import Told, outcomes, told
from tests.golden_text import said

OUTCOMES = outcomes(8, ("acme/large", "nop"))
EVENTS = told(OUTCOMES, Told(lost=2, erring=2))
HALF = RunProgress(
    "tool-calling", total=40, done=12, passed=9, failed=2, undecided=1, running=3, usd=1.24, left_s=200.0
)


def after(events: list[BenchEvent], now: float | None = None, parallel: int = 3) -> RunProgress:
    return run_progress(RunFold().add_all(events), events[-1].ts if now is None else now, parallel=parallel)


def test_line_shows_the_progress_of_the_run() -> None:
    said(progress_line(HALF, width=120))


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (80, "tool-calling  12/40  9 pass  2 fail  1 undecided  82 %  $1.24  3m20s left"),
        (60, "tool-calling  12/40  1 undecided  82 %  $1.24  3m20s left"),
        (50, "12/40  1 undecided  82 %  $1.24  3m20s left"),
        (30, "12/40  1 undecided  82 %"),
        (10, "12/40"),
        (4, "12/…"),
    ],
)
def test_line_drops_the_least_important_part_first(width: int, text: str) -> None:
    assert progress_line(HALF, width=width) == text


@given(st.text(min_size=1, max_size=60), st.integers(1, 200))
def test_the_line_never_wraps_and_never_steers_the_terminal(suite: str, width: int) -> None:
    text = progress_line(replace(HALF, suite=suite), width=width)

    assert cell_width(text) <= width
    assert text.isprintable()


def test_nothing_is_printed_before_the_run_is_open() -> None:
    assert progress_line(run_progress(RunFold(), 0.0, parallel=1), width=80) == ""


def test_at_the_end_all_is_done() -> None:
    found = after(EVENTS)

    assert (found.done, found.total, found.running, found.undecided) == (16, 16, 0, 0)
    assert (found.passed, found.left_s) == (sum(one.verdict == "pass" for one in OUTCOMES), 0.0)
    assert progress_line(found, width=200).endswith("done")


def test_every_moment_adds_up() -> None:
    for end in range(1, len(EVENTS) + 1):
        found = after(EVENTS[:end])
        assert found.passed + found.failed + found.undecided == found.done <= found.total == 16
        assert found.done + found.running <= found.total
        assert found.left_s is None or found.left_s >= 0


def test_an_entry_that_is_tried_again_is_not_done() -> None:
    again = next(place for place, one in enumerate(EVENTS) if one.type == "case/start" and one.attempt == 2)

    before, now = after(EVENTS[:again]), after(EVENTS[: again + 1])

    assert now.running == before.running + 1
    assert now.done == before.done - 1 or now.done == before.done


def test_remaining_time_is_the_mean_of_ended_entries_over_the_parallel_ones() -> None:
    one, other, third = (replace(each, seconds=9.0) for each in outcomes(3, ("m/x",)))
    events = told([one, other, third], Told(parallel=1))
    ended = next(place for place, event in enumerate(events) if event.type == "case/end")
    first = events[: ended + 1]  # An attempt of these takes its seconds and one more.

    assert after(first, parallel=1).left_s == 20.0
    assert after(first, parallel=2).left_s == 10.0
    assert after(first, parallel=9).left_s == 10.0
    started = next(place for place, event in enumerate(events) if place > ended and event.type == "case/start")
    begun = events[started].ts
    assert after(events[: started + 1], now=begun + 4, parallel=1).left_s == 16.0
    assert after(events[: started + 1], now=begun + 99, parallel=1).left_s == 10.0
    assert after(events[:2]).left_s is None


def test_lost_attempts_cost_too() -> None:
    spent = sum(event.data["usage"]["usd"] for event in EVENTS if event.type == "case/end")

    assert after(EVENTS).usd == pytest.approx(spent)
