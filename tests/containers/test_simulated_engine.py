"""The engine of make-believe passes the contract of real ones, in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from tests.containers.engine_contract import EngineContract, RunningContract
from tests.containers.engines import Ground
from tests.fakes.virtual_time import VirtualClock
from tests.product import ImageFacts
from tests.simulation.simulated_engine import SimulatedDaemon, SimulatedEngine

IMAGE = "sha256:0123"


class OnMakeBelieve:
    @pytest.fixture
    def anyio_backend(self) -> tuple[str, dict[str, object]]:
        return "trio", {"clock": MockClock(autojump_threshold=0)}

    @pytest.fixture
    def outside(self, tmp_path: Path) -> SimulatedDaemon:
        return SimulatedDaemon(VirtualClock(), tmp_path, images={"planloop-test/busybox": ImageFacts(IMAGE, 1)})

    @pytest.fixture
    def ground(self, outside: SimulatedDaemon) -> Ground:
        return Ground(SimulatedEngine(outside), IMAGE, "make-believe")


class TestSimulated(OnMakeBelieve, EngineContract):
    pass


class TestRunningInSimulated(OnMakeBelieve, RunningContract):
    async def commands(self, ground: Ground, ref: str) -> int:
        assert isinstance(ground.engine, SimulatedEngine)
        return ground.engine.commands(ref)
