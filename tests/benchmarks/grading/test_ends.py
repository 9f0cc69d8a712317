"""Which ends of a grading container were caused from outside, and so do not count against the work."""

from __future__ import annotations

from typing import Any, cast

import pytest

from planloop.benchmarks.grading.containers import was_killed
from planloop.containers.engine.engine import ContainerRun
from tests.product import ContainerEngine, EngineFailed, FoundContainer

KILLED, STOPPED, OWN, CLEAN = 137, 143, 1, 0


class _Knowing:
    """An engine that is asked for one container only."""

    def __init__(self, found: FoundContainer | None) -> None:
        self._found = found

    async def container(self, ref: str) -> FoundContainer | None:
        del ref
        return self._found


def engine_with(found: FoundContainer | None) -> ContainerEngine:
    return cast("ContainerEngine", _Knowing(found))


def container(state: Any, exit_code: int, *, is_out_of_memory: bool = False) -> FoundContainer:
    return FoundContainer("id", "name", "image", state, {}, last_run=ContainerRun(exit_code, is_out_of_memory))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("found", "of_a_program", "of_a_room"),
    [
        (container("running", CLEAN), False, False),
        (container("exited", KILLED), True, True),
        (container("dead", STOPPED), True, True),
        (container("exited", OWN), False, True),
        (container("exited", CLEAN), False, True),
        (container("exited", KILLED, is_out_of_memory=True), False, False),
    ],
)
async def test_a_program_may_end_by_itself_and_a_room_never_does(
    found: FoundContainer, of_a_program: bool, of_a_room: bool
) -> None:
    assert await was_killed(engine_with(found), "id", ends_itself=True) is of_a_program
    assert await was_killed(engine_with(found), "id", ends_itself=False) is of_a_room


@pytest.mark.anyio
async def test_removed_container_does_not_report_how_it_ended() -> None:
    with pytest.raises(EngineFailed, match="removed"):
        await was_killed(engine_with(None), "id", ends_itself=True)
