"""The models of a plan; each request goes to the adapter that the model's name asks for."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import anyio
from anyio.abc import TaskGroup

from planloop.controllers.agent.models import catalog, record_replay
from planloop.controllers.agent.models.catalog import PROVIDERS, ModelEndpoint, ModelProvider, is_loopback
from planloop.controllers.agent.models.chat_request import ChatDialect
from planloop.controllers.agent.models.port import ModelFailed, ModelReply, ModelRequest, OnDelta, TokenPrice
from planloop.reconciler.effects import secrets
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.model import ModelConfig, ModelName, ModelTable, parse_model_name

# Which adapter asks which model, and as whom: a pure reading of a model's name, the plan's table and the environment.
#
# `name@http://…` and a `url` in the table are OpenAI-compatible; so are the providers of
# `planloop.controllers.agent.models.catalog`; `api: litellm` and every other name go to litellm. A provider's own key
# goes to its own URL only: a plan that states another URL states the key for it too, or none is sent.

LOOPBACK_ONLY: Final = "PLANLOOP_NO_NETWORK"
"""The environment variable that allows only URLs on this machine; for tests."""


@frozen
class ModelRoute:
    """How one model is asked: through litellm, which knows its own URLs, or over HTTP at `endpoint.url`."""

    endpoint: ModelEndpoint
    is_litellm: bool = False


@frozen
class RouteContext:
    """What routes are looked up in. Relative key files are below `folder`."""

    env: Mapping[str, str]
    folder: Path

    @property
    def is_loopback_only(self) -> bool:
        """Whether no request may leave this machine."""
        return bool(self.env.get(LOOPBACK_ONLY))


def find_route(real: str, table: ModelTable, around: RouteContext) -> ModelRoute:
    """How the model `real` is asked. Raises ModelFailed: BadRequest, NoKey, Unreachable."""
    name, config = parse_model_name(real), table.config(real)
    provider = PROVIDERS.get(name.provider)
    url = name.url or config.url
    if config.api == "litellm" or not (url or provider or config.api == "openai"):
        # A name with a URL is litellm's only when the plan says so; litellm then wants the provider in it.
        found = ModelRoute(_endpoint(name.name if name.url else real, url, config, around), is_litellm=True)
    elif url:
        found = ModelRoute(_endpoint(name.name, url, config, around, provider))
    elif provider is None:
        raise ModelFailed("BadRequest", f"nobody knows where `{real}` answers; state its `url` under `models`")
    else:
        found = ModelRoute(_known(real, config, around))
    _check_reach(real, found, around)
    return found


def _known(real: str, config: ModelConfig, around: RouteContext) -> ModelEndpoint:
    """The endpoint of a provider that needs no URL."""
    name = parse_model_name(real)
    provider = PROVIDERS[name.provider]
    if provider.key and not config.key:
        key = around.env.get(provider.key, "")
        if not key:
            text = f"{real} needs a key: set {provider.key}, or state `key` for `{name.provider}` under `models`"
            raise ModelFailed("NoKey", text)
    else:
        key = _secret(config.key, around)
    where = config.key or f"env:{provider.key}"
    return ModelEndpoint(
        provider.url,
        name.name,
        key,
        _headers(config, around),
        _cure(where if key else ""),
        provider.start,
        _dialect(provider, config),
    )


def _endpoint(
    model: str, url: str, config: ModelConfig, around: RouteContext, provider: ModelProvider | None = None
) -> ModelEndpoint:
    """The endpoint at a URL of the plan's own, or none, which leaves it to litellm."""
    key, start = _secret(config.key, around), provider.start if provider else ""
    dialect = _dialect(provider, config)
    return ModelEndpoint(url.rstrip("/"), model, key, _headers(config, around), _cure(config.key), start, dialect)


def _dialect(provider: ModelProvider | None, config: ModelConfig) -> ChatDialect:
    """What is known of a server before it is asked: from the table of providers, and from the plan."""
    known = provider.dialect if provider else ChatDialect()
    return known if config.is_streamed else replace(known, is_streamed=False)


def _headers(config: ModelConfig, around: RouteContext) -> tuple[tuple[str, str], ...]:
    return tuple((name, _resolved(value, around)) for name, value in config.headers)


def _resolved(value: str, around: RouteContext) -> str:
    try:
        return secrets.resolve_value(value, around.env, around.folder)
    except secrets.SecretMissing as fault:
        raise ModelFailed("NoKey", str(fault)) from None


def _secret(reference: str, around: RouteContext) -> str:
    """What `env:NAME` or `file:path` holds; empty for no reference. Raises ModelFailed with NoKey, never with it."""
    if not reference:
        return ""
    try:
        return secrets.resolve_secret(reference, around.env, around.folder)
    except secrets.SecretMissing as fault:
        raise ModelFailed("NoKey", str(fault)) from None


def _cure(reference: str) -> str:
    kind, _, where = reference.partition(":")
    if kind == "env":
        return f"is the key in {where} right?"
    return f"is the key in the file {where} right?" if kind == "file" else "state a `key` for it under `models`"


def _check_reach(real: str, found: ModelRoute, around: RouteContext) -> None:
    if around.is_loopback_only and not is_loopback(found.endpoint.url):
        where = found.endpoint.url or "its provider"
        text = f"{real} would be asked at {where}, and {LOOPBACK_ONLY} allows only this machine"
        raise ModelFailed("Unreachable", text)


# `ModelRouter`: the models of a plan, each request sent to the adapter that its model's name asks for.
#
# Opened with the owner and closed at its end. Adapters are made when they are first needed: neither aiohttp nor litellm
# is loaded for a plan that asks no model. The table is read at every request, so an edit of it counts at once.

if TYPE_CHECKING:
    from planloop.controllers.agent.models.litellm_chat import LitellmAdapter
    from planloop.controllers.agent.models.openai_chat import OpenAIChatAdapter


class ModelRouter:
    """All models of a plan, while `run` runs or inside `async with opened()`. `table` gives the table as it is now.

    `now` is wall time in seconds; `python` the interpreter for litellm's process.
    """

    def __init__(
        self,
        table: Callable[[], ModelTable],
        around: RouteContext,
        now: Callable[[], float],
        python: str = sys.executable,
    ) -> None:
        self._table = table
        self._around = around
        self._now = now
        self._python = python
        self._replays = record_replay.ReplayedModels()
        self._http: OpenAIChatAdapter | None = None
        self._litellm: LitellmAdapter | None = None
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
        """See `ModelClient.complete`."""
        name = parse_model_name(request.model)
        match name.tape:
            case "record":
                if not name.real:
                    raise ModelFailed("BadRequest", f"`{request.model}` names no model; write `{name}@provider/name`")
                return await record_replay.record_attempt(self._around.folder / name.file, self._ask, request, on_delta)
            case "replay":
                return await self._replays.complete(self._around.folder / name.file, request, on_delta)
            case "":
                return await self._ask(request, on_delta)

    def price(self, model: str) -> TokenPrice | None:
        """See `ModelClient.price`."""
        return catalog.stated_price(self._real(model), self._table())

    def window(self, model: str) -> int:
        """See `ModelClient.window`."""
        return catalog.context_window(self._real(model), self._table())

    def output_max(self, model: str) -> int:
        """See `ModelClient.output_max`."""
        return catalog.output_max(self._real(model), self._table())

    def _real(self, model: str) -> str:
        """The model behind the name; of a bare `replay/<file>` the one that was recorded."""
        name: ModelName = parse_model_name(model)
        if name.real or name.tape != "replay":
            return name.real
        return self._replays.model(self._around.folder / name.file)

    async def _ask(self, request: ModelRequest, on_delta: OnDelta | None) -> ModelReply:
        found = find_route(parse_model_name(request.model).real, self._table(), self._around)
        if found.is_litellm:
            return await (await self._litellm_models()).complete(found.endpoint, request, on_delta)
        return await self._http_models().complete(found.endpoint, request, on_delta)

    def _http_models(self) -> OpenAIChatAdapter:
        if self._http is None:
            from planloop.controllers.agent.models.openai_chat import OpenAIChatAdapter  # noqa: PLC0415 - 150 ms, at the first request

            self._http = OpenAIChatAdapter(self._now, is_proxied=not self._around.is_loopback_only)
        return self._http

    async def _litellm_models(self) -> LitellmAdapter:
        await self._has_group.wait()
        if self._litellm is None:
            from planloop.controllers.agent.models.litellm_chat import LitellmAdapter  # noqa: PLC0415 - few plans need it

            assert self._group is not None
            self._litellm = LitellmAdapter(self._group, self._around.env, self._now, self._python)
        return self._litellm
