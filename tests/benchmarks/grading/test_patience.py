"""A program on a busy machine is waited for longer, but not for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.benchmarks.grading.containers import LoadAwareDeadline, stalled_s


@pytest.mark.parametrize(
    ("stalled_each_s", "seconds"),
    [(0.0, 10), (0.5, 20), (0.99, 40), (5.0, 40)],
    ids=["an idle machine", "half of the time a process waits", "a full one", "a counter that leaps"],
)
def test_seconds_spent_waiting_for_a_processor_count_less(stalled_each_s: float, seconds: int) -> None:
    patience, now = LoadAwareDeadline(10, 0.0, 0.0), 0

    while not patience.is_over(now + 1.0, (now + 1) * stalled_each_s):
        now += 1

    assert now + 1 == seconds


def test_kernel_pressure_is_read_and_is_zero_where_it_is_missing(tmp_path: Path) -> None:
    said = tmp_path / "cpu"
    said.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 total=0\n")

    assert (stalled_s(said), stalled_s(tmp_path / "none")) == (2.5, 0.0)
