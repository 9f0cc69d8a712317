"""What is written of how a container ended, of what the engine could not do, and of what others did to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planloop.containers.engine.engine import ContainerLimits
from planloop.controllers.container import records
from planloop.controllers.container.status import ContainerExit, SeenContainer, read_container_status
from planloop.schemas import json_patch, limits
from planloop.schemas.objects.container import Restart
from tests.controllers.container.table import BROKEN, DONE, NOW, OF, SPEC, TOKEN, UP, observed
from tests.product import EngineErrorReason, EngineFailed

YOUNG = replace(UP, started_at=NOW - 1)
OLD = replace(UP, started_at=NOW - limits.CONTAINER_STEADY_S)
GONE = replace(YOUNG, run="removing", ended_at=NOW)


@pytest.mark.parametrize(
    ("before", "status", "found", "losses"),
    [
        pytest.param(YOUNG, {}, None, 1, id="it ran"),
        pytest.param(YOUNG, {"losses": 2}, None, 3, id="as did the two before it"),
        pytest.param(OLD, {"losses": 2}, None, 1, id="it ran for long"),
        pytest.param(replace(YOUNG, run="paused"), {}, None, 1, id="it was paused"),
        pytest.param(GONE, {}, None, 1, id="it was seen to go"),
        pytest.param(YOUNG, {}, YOUNG, 0, id="it is there"),
        pytest.param(YOUNG, {"stopping": YOUNG.started_at}, None, 0, id="we had begun to end it"),
        pytest.param(GONE, {"counted": GONE.end}, None, 0, id="it had ended before it was removed"),
        pytest.param(BROKEN, {}, None, 0, id="it had ended"),
        pytest.param(replace(YOUNG, run="created"), {}, None, 0, id="it had not begun"),
        pytest.param(replace(YOUNG, id="another"), {}, None, 0, id="it is another"),
    ],
)
def test_container_removed_by_others_while_running_is_lost_and_not_a_failure(
    before: SeenContainer, status: dict[str, Any], found: SeenContainer | None, losses: int
) -> None:
    merge = records.seen_ref_merge("c1", found, read_container_status({"seen": before.to_json(), **status}), TOKEN, NOW)

    assert merge.get("losses", 0) == losses
    assert "failures" not in merge
    if losses:
        assert (merge["reason"], merge["failed_of"], merge["seen"]) == ("Vanished", OF, None)
        assert merge["retry_at"] - NOW == min(limits.BACKOFF_CAP_S, limits.CONTAINER_BACKOFF_S * 2 ** (losses - 1))


@pytest.mark.parametrize(
    ("ended", "restart", "failures", "state"),
    [
        (DONE, "no", None, "done"),
        (DONE, "on-failure", None, "done"),
        (DONE, "always", 3, "again"),
        (BROKEN, "no", 3, "failed"),
        (BROKEN, "on-failure", 3, "again"),
        (replace(BROKEN, exit=ContainerExit(3, error="no such file")), "always", 3, "failed"),
        (replace(BROKEN, started_at=BROKEN.ended_at - limits.CONTAINER_STEADY_S), "always", 1, "again"),
    ],
)
def test_end_of_a_run_is_counted_whatever_the_engine_failed_to_do_before(
    ended: SeenContainer, restart: Restart, failures: int | None, state: str
) -> None:
    short = (
        ended if ended.ended_at - ended.started_at == limits.CONTAINER_STEADY_S else replace(ended, started_at=949.0)
    )
    seen = observed(short, spec=replace(SPEC, restart=restart), failures=2, tries=7, losses=4)

    merge = records.end_merge(seen, short)

    assert (merge["failures"], merge["tries"], merge["losses"]) == (failures, None, None)
    how = "done" if merge["done_of"] else "failed" if merge["retry_at"] is None else "again"
    assert how == state


KILLED = replace(BROKEN, exit=ContainerExit(137), bound=ContainerLimits(memory_bytes=1 << 20))


@pytest.mark.parametrize(
    ("ended", "stopping", "reason", "may_be_memory"),
    [
        pytest.param(KILLED, -1.0, "Exited", True, id="the engine does not say why"),
        pytest.param(
            replace(KILLED, exit=ContainerExit(137, is_out_of_memory=True)), -1.0, "OutOfMemory", True, id="it does"
        ),
        pytest.param(replace(KILLED, bound=ContainerLimits()), -1.0, "Exited", False, id="it has no bound"),
        pytest.param(replace(KILLED, exit=ContainerExit(3)), -1.0, "Exited", False, id="it was not killed"),
        pytest.param(KILLED, KILLED.started_at, "Exited", False, id="we ended it"),
    ],
)
def test_memory_is_suggested_as_a_fix_where_it_may_have_caused_the_kill(
    ended: SeenContainer, stopping: float, reason: str, may_be_memory: bool
) -> None:
    merge = records.end_merge(observed(ended, stopping=stopping), ended)

    assert merge["reason"] == reason
    assert ("memory" in merge["hint"]) is may_be_memory
    assert ("plan logs container/app" in merge["hint"]) is (reason == "Exited")


@pytest.mark.parametrize(
    ("reason", "pause_s"),
    [
        (EngineErrorReason.ENGINE_DOWN, 2.0),
        (EngineErrorReason.PORT_TAKEN, 2.0),
        (EngineErrorReason.NOT_FOUND, 2.0),
        (EngineErrorReason.NO_IMAGE, None),
    ],
)
def test_failed_engine_call_is_retried_and_is_not_a_failed_run(
    reason: EngineErrorReason, pause_s: float | None
) -> None:
    status: dict[str, Any] = {"failures": 4}
    for _ in range(3):
        merge = records.engine_error_merge(OF, EngineFailed(reason, "no", "do it"), TOKEN, NOW)(
            read_container_status(status)
        )
        status = json_patch.merge_values(status, merge)

    assert (status["failures"], status["tries"]) == (4, 3)
    assert status.get("retry_at") == (None if pause_s is None else NOW + pause_s)
    assert (status["reason"], status["why"], status["hint"], status["failed_by"]) == (reason, "no", "do it", TOKEN)
