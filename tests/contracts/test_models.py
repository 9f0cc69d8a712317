"""Scripted models, HTTP and tapes pass one contract; litellm's process does in `test_models_litellm.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from planloop.controllers.agent.models import record_replay
from planloop.controllers.agent.models.router import LOOPBACK_ONLY, ModelRouter, RouteContext
from planloop.schemas.objects.model import ModelTable
from tests.contracts.models_contract import ModelsContract, Open, Stage
from tests.fakes.model_server.running import RunningServer, Script, running
from tests.fakes.scripted_models import ScriptedModels
from tests.product import ModelClient, ModelFailed, ModelReply, ModelRequest, OnDelta, SystemClock, TokenPrice


@dataclass
class InProcess:
    models: ModelClient
    scripted: ScriptedModels
    model: str = "scripted/small"

    @property
    def endings(self) -> list[str]:
        return self.scripted.endings

    async def until_ended(self, count: int) -> None:
        assert len(self.endings) >= count


class TestScripted(ModelsContract):
    @pytest.fixture
    def stage(self) -> Open:
        @asynccontextmanager
        async def opened(script: Script) -> AsyncIterator[Stage]:
            scripted = ScriptedModels(script)
            yield InProcess(scripted, scripted)

        return opened


class TestScriptedOnTrio(TestScripted):
    @pytest.fixture
    def anyio_backend(self) -> str:
        return "trio"


@dataclass
class OverTheWire:
    models: ModelClient
    model: str
    server: RunningServer

    @property
    def endings(self) -> list[str]:
        return self.server.endings

    async def until_ended(self, count: int) -> None:
        await self.server.until(lambda: len(self.endings) >= count)


def surroundings(folder: Path) -> RouteContext:
    return RouteContext({LOOPBACK_ONLY: "1"}, folder)


class TestHttp(ModelsContract):
    @pytest.fixture
    def stage(self, tmp_path: Path) -> Open:
        @asynccontextmanager
        async def opened(script: Script) -> AsyncIterator[Stage]:
            routed = ModelRouter(ModelTable, surroundings(tmp_path), SystemClock().now)
            async with running(script) as server, routed.opened():
                yield OverTheWire(routed, f"small@{server.url}", server)

        return opened


class RecordedThenReplayed:
    """Records each attempt and answers from the recording: what it gives has been through a file."""

    def __init__(self, path: Path, models: ScriptedModels) -> None:
        self._path = path
        self._models = models
        self._replays = record_replay.ReplayedModels()

    async def complete(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        with suppress(ModelFailed):
            await record_replay.record_attempt(
                self._path, self._models.complete, request, on_delta and _only_last(on_delta)
            )
        return await self._replays.complete(self._path, request, on_delta)

    def price(self, model: str) -> TokenPrice | None:
        return self._models.price(model)

    def window(self, model: str) -> int:
        return self._models.window(model)

    def output_max(self, model: str) -> int:
        return self._models.output_max(model)


def _only_last(on_delta: OnDelta) -> OnDelta:
    """Passes on what a test waits for before it cancels; the rest is heard from the tape."""
    return lambda text: on_delta(text) if text == "two" else None


class TestTape(ModelsContract):
    @pytest.fixture
    def stage(self, tmp_path: Path) -> Open:
        @asynccontextmanager
        async def opened(script: Script) -> AsyncIterator[Stage]:
            scripted = ScriptedModels(script)
            yield InProcess(RecordedThenReplayed(tmp_path / "tape.jsonl", scripted), scripted)

        return opened
