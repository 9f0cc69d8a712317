"""`RoutedModels`: the models of a plan, each request sent to the adapter that its model's name asks for.

Opened with the owner and closed at its end. Adapters are made when they are first needed: neither aiohttp nor litellm
is loaded for a plan that asks no model. The table is read at every request, so an edit of it counts at once.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Self

import anyio
from anyio.abc import TaskGroup

from planloop.controllers.agent.models import prices, routing, tape
from planloop.controllers.agent.models.port import ModelFailed, ModelReply, ModelRequest, OnDelta, Price
from planloop.controllers.agent.models.routing import Surroundings
from planloop.schemas.model import ModelName, ModelTable, model_name

if TYPE_CHECKING:
    from planloop.controllers.agent.models.litellm_chat import LitellmModels
    from planloop.controllers.agent.models.openai_chat import OpenAIChat


class RoutedModels:
    """All models of a plan, while `run` runs or inside `async with opened()`. `table` gives the table as it is now.

    `now` is wall time in seconds; `python` the interpreter for litellm's process.
    """

    def __init__(
        self,
        table: Callable[[], ModelTable],
        around: Surroundings,
        now: Callable[[], float],
        python: str = sys.executable,
    ) -> None:
        self._table = table
        self._around = around
        self._now = now
        self._python = python
        self._replays = tape.Replays()
        self._http: OpenAIChat | None = None
        self._litellm: LitellmModels | None = None
        self._group: TaskGroup | None = None
        self._has_group = anyio.Event()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Self]:
        """The models, until the block ends: then their connections and processes are closed."""
        async with anyio.create_task_group() as group:
            self._group = group
            self._has_group.set()
            try:
                yield self
            finally:
                with anyio.CancelScope(shield=True):
                    await self._close()
                group.cancel_scope.cancel()

    async def run(self) -> None:
        """Keeps them open until it is cancelled."""
        async with self.opened():
            await anyio.sleep_forever()

    async def _close(self) -> None:
        http, litellm = self._http, self._litellm
        self._http, self._litellm = None, None
        if http is not None:
            await http.aclose()
        if litellm is not None:
            await litellm.aclose()

    async def complete(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """See `Models.complete`."""
        name = model_name(request.model)
        match name.tape:
            case "record":
                if not name.real:
                    raise ModelFailed("BadRequest", f"`{request.model}` names no model; write `{name}@provider/name`")
                return await tape.record(self._around.folder / name.file, self._ask, request, on_delta)
            case "replay":
                return await self._replays.complete(self._around.folder / name.file, request, on_delta)
            case "":
                return await self._ask(request, on_delta)

    def price(self, model: str) -> Price | None:
        """See `Models.price`."""
        return prices.price(self._real(model), self._table())

    def window(self, model: str) -> int:
        """See `Models.window`."""
        return prices.window(self._real(model), self._table())

    def output_max(self, model: str) -> int:
        """See `Models.output_max`."""
        return prices.output_max(self._real(model), self._table())

    def _real(self, model: str) -> str:
        """The model behind the name; of a bare `replay/<file>` the one that was recorded."""
        name: ModelName = model_name(model)
        if name.real or name.tape != "replay":
            return name.real
        return self._replays.model(self._around.folder / name.file)

    async def _ask(self, request: ModelRequest, on_delta: OnDelta | None) -> ModelReply:
        found = routing.route(model_name(request.model).real, self._table(), self._around)
        if found.is_litellm:
            return await (await self._litellm_models()).complete(found.endpoint, request, on_delta)
        return await self._http_models().complete(found.endpoint, request, on_delta)

    def _http_models(self) -> OpenAIChat:
        if self._http is None:
            from planloop.controllers.agent.models.openai_chat import OpenAIChat  # noqa: PLC0415 - 150 ms, at the first request

            self._http = OpenAIChat(self._now, is_proxied=not self._around.is_loopback_only)
        return self._http

    async def _litellm_models(self) -> LitellmModels:
        await self._has_group.wait()
        if self._litellm is None:
            from planloop.controllers.agent.models.litellm_chat import LitellmModels  # noqa: PLC0415 - few plans need it

            assert self._group is not None
            self._litellm = LitellmModels(self._group, self._around.env, self._now, self._python)
        return self._litellm
