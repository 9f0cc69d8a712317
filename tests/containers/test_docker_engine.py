"""The real engine passes the contract; then what only a real one can show."""

from __future__ import annotations

import anyio
import pytest

from tests.containers.engine_contract import EngineContract, RunningContract
from tests.containers.engines import Ground

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


class Others:
    """Whoever else speaks to the engine, in their own words."""

    def __init__(self) -> None:
        self.api = docker.APIClient(engine_address(os.environ), version="auto")  # noqa: TID251 - as in wiring

    async def pause(self, ref: str) -> None:
        self.api.pause(ref)

    async def kill(self, ref: str) -> None:
        self.api.kill(ref)

    def processes(self, ref: str) -> list[str]:
        """The command lines of all that runs inside."""
        return [" ".join(row[1:]) for row in self.api.top(ref, "-eo pid,args")["Processes"]]


@pytest.fixture
def outside() -> Iterator[Others]:
    others = Others()
    yield others
    others.api.close()


class TestDocker(EngineContract):
    pass


class TestRunningInDocker(RunningContract):
    async def commands(self, ground: Ground, ref: str) -> int:
        return Others().processes(ref).count("sleep 60")


class TestRunningInDockerFromInside(TestRunningInDocker):
    """As for people who may use the engine but not look into the processes of others."""

    @pytest.fixture
    def sees_host(self) -> bool:
        return False
