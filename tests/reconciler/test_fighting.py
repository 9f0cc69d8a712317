"""A fight returns to states already seen; progress does not. Only the first is slowed down."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from planloop.reconciler.engine.change_tracker import FREE_WRITES, WINDOW_S, HotLoopDetector
from planloop.schemas.limits import FIGHT_REPEATS_MAX, FIGHT_WRITES_MAX


def writes(detector: HotLoopDetector, contents: list[str], *, every_s: float = 0.001, since: float = 0.0) -> float:
    """Writes `contents` one after another; returns the time after the last."""
    now = since
    for content in contents:
        detector.wrote("task/a", now, lambda content=content: content)  # type: ignore[misc]  # bound here
        now += every_s
    return now


def test_two_writers_that_undo_each_other_are_slowed_down() -> None:
    detector = HotLoopDetector()

    now = writes(detector, ["left", "right"] * (FREE_WRITES // 2 + FIGHT_REPEATS_MAX + 1))

    assert detector.delay_s("task/a", lambda: now) == 1.0
    assert detector.delay_s("task/b", lambda: now) == 0.0


@given(steps=st.integers(0, FIGHT_WRITES_MAX - 1))
def test_progress_is_never_slowed_down(steps: int) -> None:
    detector = HotLoopDetector()

    now = writes(detector, [str(step) for step in range(steps)], every_s=0.0001)

    assert detector.delay_s("task/a", lambda: now) == 0.0


def test_a_status_with_a_counter_cannot_hide_a_hot_loop_for_long() -> None:
    detector, numbers = HotLoopDetector(), count()

    now = writes(detector, [str(next(numbers)) for _ in range(FIGHT_WRITES_MAX + 1)], every_s=0.0001)

    assert detector.delay_s("task/a", lambda: now) == 1.0


def test_lasting_fight_is_slowed_down_more_and_more_and_forgiven_when_it_stops() -> None:
    detector, fight, now = HotLoopDetector(), ["left", "right"] * 40, 0.0
    delays = []
    for _ in range(3):
        now = writes(detector, fight, since=now)
        delays.append(detector.delay_s("task/a", lambda: now))  # noqa: B023 - called here
        now += WINDOW_S + 1

    assert delays == [1.0, 2.0, 4.0]
    now = writes(detector, ["calm"], since=now)
    assert detector.delay_s("task/a", lambda: now) == 0.0
