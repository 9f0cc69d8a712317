"""When an ended server is started again, and when agents continue without it: pure functions."""

from __future__ import annotations

import pytest

from planloop.controllers.mcp.decide import ToolServerRunStatus, ended_run
from planloop.schemas import limits
from planloop.schemas.objects.mcp import ServerState

NOW = 1_000_000.0


def after(failures: int, *, every_s: float, reason: str) -> ToolServerRunStatus:
    """A server that failed `failures` times, once every `every_s` seconds."""
    run = ToolServerRunStatus()
    for number in range(failures):
        run = ended_run(run, NOW + number * every_s, reason)
    return run


@pytest.mark.parametrize(
    ("reason", "every_s", "state"),
    [
        ("Disconnected", 0.0, ServerState.FAILED),
        ("Unreachable", 0.0, ServerState.RESTARTING),
        ("Unreachable", 5.9, ServerState.RESTARTING),
        ("Unreachable", 6.0, ServerState.FAILED),
    ],
)
def test_six_failures_are_final_for_a_program_and_half_a_minute_for_a_url(
    reason: str, every_s: float, state: ServerState
) -> None:
    assert after(limits.SERVER_FAILURES_MAX, every_s=every_s, reason=reason).state is state


def test_half_a_minute_with_fewer_failures_is_not_final() -> None:
    run = after(limits.SERVER_FAILURES_MAX - 1, every_s=100.0, reason="Unreachable")

    assert run.state is ServerState.RESTARTING


def test_pauses_double_up_to_a_bound_and_a_failed_server_is_tried_once_a_minute() -> None:
    run, pauses = ToolServerRunStatus(), []
    while run.state is not ServerState.FAILED:
        now = run.next_at or NOW
        run = ended_run(run, now, "Unreachable")
        pauses.append((run.next_at or 0.0) - now)

    assert pauses[:6] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2])
    assert pauses[6:-1] == pytest.approx([limits.SERVER_RETRY_CAP_S] * len(pauses[6:-1]))
    assert pauses[-1] == limits.BACKOFF_CAP_S


def test_server_that_was_ready_starts_a_new_half_minute() -> None:
    old = after(limits.SERVER_FAILURES_MAX, every_s=60.0, reason="Unreachable")
    ready = ToolServerRunStatus(ServerState.READY, ready_at=NOW, failures=old.failures, failing_since=old.failing_since)

    run = ended_run(ready, NOW + 1.0, "Unreachable")

    assert (run.state, run.failing_since) == (ServerState.RESTARTING, NOW + 1.0)


def test_a_missing_program_is_final_at_its_first_failure() -> None:
    assert after(1, every_s=0.0, reason="NoProgram").state is ServerState.FAILED
