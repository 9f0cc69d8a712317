"""Models through litellm pass the contract too. One process, which takes seconds to load, serves all tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from planloop.controllers.agent.models.router import ModelRouter
from planloop.schemas.objects.model import ModelTable
from tests.contracts.models_contract import ModelsContract, Open, Stage, message
from tests.contracts.test_models import OverTheWire, surroundings
from tests.fakes.model_server.running import Script, running
from tests.product import ModelFailed, ModelRequest, RequestKey, SystemClock

# Loading takes 3 seconds alone and may take 15 beside other tests.
pytestmark = [pytest.mark.process, pytest.mark.timeout(120), pytest.mark.xdist_group("litellm")]


class Moving:
    """The table of a plan whose provider is somewhere else in every test."""

    def __init__(self) -> None:
        self.url = ""

    def __call__(self) -> ModelTable:
        return ModelTable((("openai", {"url": self.url, "api": "litellm"}),))


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def table() -> Moving:
    return Moving()


@pytest.fixture(scope="module")
async def models(
    anyio_backend: str, table: Moving, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ModelRouter]:
    table.url = "http://127.0.0.1:9/v1"  # Nothing listens there: the connection error shows that litellm is loaded.
    around = surroundings(tmp_path_factory.mktemp("litellm"))
    async with ModelRouter(table, around, SystemClock().now).opened() as routed:
        key = RequestKey("agent/a", "u1", 1, 1, 1)
        with pytest.raises(ModelFailed):
            await routed.complete(ModelRequest(key, "openai/small", (message("user", "hello"),), timeout_s=50.0))
        yield routed


class TestLitellm(ModelsContract):
    @pytest.fixture
    def stage(self, models: ModelRouter, table: Moving) -> Open:
        @asynccontextmanager
        async def opened(script: Script) -> AsyncIterator[Stage]:
            async with running(script) as server:
                table.url = server.url
                yield OverTheWire(models, "openai/small", server)

        return opened
