"""Waiting on the virtual loop costs no time and keeps its order."""

from __future__ import annotations

import anyio
import pytest

from planloop.owner.replay.equivalence import ValueDifference
from planloop.owner.replay.play import VirtualLoop, is_wording


def test_year_of_sleep_is_over_immediately_and_in_order() -> None:
    async def play() -> list[str]:
        seen: list[str] = []

        async def sleeper(name: str, seconds: float) -> None:
            await anyio.sleep(seconds)
            seen.append(f"{name} at {anyio.current_time():.0f}")

        async with anyio.create_task_group() as group:
            group.start_soon(sleeper, "late", 31_536_000.0)
            group.start_soon(sleeper, "early", 60.0)
        return seen

    assert anyio.run(play, backend_options={"loop_factory": VirtualLoop}) == ["early at 60", "late at 31536000"]


def test_timeout_happens_when_nothing_else_can() -> None:
    async def play() -> None:
        with anyio.fail_after(1_000):
            await anyio.sleep_forever()

    with pytest.raises(TimeoutError):
        anyio.run(play, backend_options={"loop_factory": VirtualLoop})


def test_a_thread_is_waited_for_in_real_time() -> None:
    async def play() -> int:
        return await anyio.to_thread.run_sync(lambda: 7)

    assert anyio.run(play, backend_options={"loop_factory": VirtualLoop}) == 7


@pytest.mark.parametrize(
    ("path", "is_only_wording"),
    [
        ("/task/a/status/conditions/Ready/message", True),
        ("/task/a/status/conditions/Ready/unblocks/0", True),
        ("/agent/a/status/signal/0", True),
        ("/agent/a/status/signal", False),
        ("/task/a/status/signal/stuck", False),
        ("/agent/a/status/state", False),
        ("/task/why/spec/goal", False),
    ],
)
def test_only_explanations_and_signals_that_repeat_them_are_wording(path: str, is_only_wording: bool) -> None:
    assert is_wording(ValueDifference(path, '"before"', '"after"')) is is_only_wording
