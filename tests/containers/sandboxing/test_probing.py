"""Whether a sandbox is available, and when it is tested again. With real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.containers.sandbox.probe import ProbedSandboxes
from planloop.schemas import limits
from planloop.schemas.objects.sandbox import BUBBLEWRAP, CONTAINER, SANDBOX_AVAILABLE, SandboxRequest
from tests import needs
from tests.containers.sandboxing import enclosures
from tests.fakes.virtual_time import SeededIds
from tests.golden_text import said

pytestmark = pytest.mark.anyio
BOX = SandboxRequest(BUBBLEWRAP)


class SetClock:
    """A clock that does not advance by itself."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here sleeps")


async def test_unavailable_sandbox_is_probed_less_and_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs.bubblewrap()
    (tmp_path / "work").mkdir()
    clock = SetClock()
    sandboxes = ProbedSandboxes(
        enclosures.enclosing(tmp_path / "work", tmp_path / "state"), clock, SeededIds(1), str(tmp_path / "work")
    )
    assert sandboxes.known(BOX) is None

    pauses = []
    with monkeypatch.context() as without:
        without.setenv("PATH", str(tmp_path))
        for _ in range(8):
            answer = await sandboxes.tried(BOX)
            assert not answer.is_had and answer.again_at is not None
            pauses.append(answer.again_at - clock.time)
            clock.time = answer.again_at

    clock.time -= 0.5
    assert not (await sandboxes.tried(BOX)).is_had, "it is not due yet"
    clock.time += 0.5
    assert await sandboxes.tried(BOX) == sandboxes.known(BOX) == SANDBOX_AVAILABLE
    assert pauses == sorted(pauses) and pauses[0] < pauses[1] and pauses[-1] == limits.SANDBOX_RETRY_CAP_S


async def test_container_sandbox_states_what_the_container_needs(tmp_path: Path) -> None:
    enclosing = enclosures.enclosing(tmp_path, tmp_path / "state")
    answer = await ProbedSandboxes(enclosing, SetClock(), SeededIds(1), str(tmp_path)).tried(
        SandboxRequest(CONTAINER, "sut")
    )

    assert not answer.is_had
    said(answer.cure, "container/sut", "`cmd: [sleep, infinity]`")
