"""The models of a plan: find the route of each model by its name, and send its requests to the right adapter."""

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

# Routing is a pure function of a model's name, the plan's table of models and the environment.
#
# `name@http://…`, a `url` in the table, and the providers of `planloop.controllers.agent.models.catalog` are
# OpenAI-compatible; `api: litellm` and all other names go to litellm. The key of a provider is sent to its own URL
# only: if a plan states another URL, it must also state the key, or none is sent.

LOOPBACK_ONLY: Final = "PLANLOOP_NO_NETWORK"
"""The environment variable that allows only URLs on this machine; for tests."""


@frozen
class ModelRoute:
    """The route to one model: through litellm, which knows the URLs of providers, or over HTTP to `endpoint.url`."""

    endpoint: ModelEndpoint
    is_litellm: bool = False


@frozen
class RouteContext:
    """The environment for routing. Relative paths of key files are below `folder`."""

    env: Mapping[str, str]
    folder: Path

    @property
    def is_loopback_only(self) -> bool:
        """Whether no request may leave this machine."""
        return bool(self.env.get(LOOPBACK_ONLY))


def find_route(real: str, table: ModelTable, around: RouteContext) -> ModelRoute:
    """The route to the model `real`. Raises ModelFailed: BadRequest, NoKey, Unreachable."""
    name, config = parse_model_name(real), table.config(real)
    provider = PROVIDERS.get(name.provider)
    url = name.url or config.url
    if config.api == "litellm" or not (url or provider or config.api == "openai"):
        # A name with a URL goes to litellm only with `api: litellm`. Then litellm needs the provider in the name.
        found = ModelRoute(_endpoint(name.name if name.url else real, url, config, around), is_litellm=True)
    elif url:
        found = ModelRoute(_endpoint(name.name, url, config, around, provider))
    elif provider is None:
        raise ModelFailed("BadRequest", f"no URL is known for `{real}`: state its `url` under `models`")
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
            text = f"{real} needs a key: set {provider.key}, or state a `key` for `{name.provider}` under `models`"
            raise ModelFailed("NoKey", text)
    else:
        key = _secret(config.key, around)
    where = config.key or f"env:{provider.key}"
    return ModelEndpoint(
        provider.url,
        name.name,
        key,
        _headers(config, around),
        _key_hint(where if key else ""),
        provider.start,
        _dialect(provider, config),
    )


def _endpoint(
    model: str, url: str, config: ModelConfig, around: RouteContext, provider: ModelProvider | None = None
) -> ModelEndpoint:
    """The endpoint at a URL that the plan states; an empty URL leaves it to litellm."""
    key, start = _secret(config.key, around), provider.start if provider else ""
    dialect = _dialect(provider, config)
    return ModelEndpoint(url.rstrip("/"), model, key, _headers(config, around), _key_hint(config.key), start, dialect)


def _dialect(provider: ModelProvider | None, config: ModelConfig) -> ChatDialect:
    """The dialect for the first request to a server, from the table of providers and the plan."""
    known = provider.dialect if provider else ChatDialect()
    return known if config.is_streamed else replace(known, is_streamed=False)


def _headers(config: ModelConfig, around: RouteContext) -> tuple[tuple[str, str], ...]:
    return tuple((name, _resolved(value, around)) for name, value in config.headers)


def _resolved(value: str, around: RouteContext) -> str:
    try:
        return secrets.resolve_value(value, around.env, around.folder)
    except secrets.SecretMissing as error:
        raise ModelFailed("NoKey", str(error)) from None


def _secret(reference: str, around: RouteContext) -> str:
    """The secret that `env:NAME` or `file:path` refers to; empty without a reference.

    Raises ModelFailed with NoKey and no secret in the message.
    """
    if not reference:
        return ""
    try:
        return secrets.resolve_secret(reference, around.env, around.folder)
    except secrets.SecretMissing as error:
        raise ModelFailed("NoKey", str(error)) from None


def _key_hint(reference: str) -> str:
    kind, _, where = reference.partition(":")
    if kind == "env":
        return f"check the key in {where}"
    return f"check the key in the file {where}" if kind == "file" else "state a `key` for it under `models`"


def _check_reach(real: str, found: ModelRoute, around: RouteContext) -> None:
    if around.is_loopback_only and not is_loopback(found.endpoint.url):
        where = found.endpoint.url or "its provider"
        text = f"{real} is at {where}, and {LOOPBACK_ONLY} allows requests to this machine only"
        raise ModelFailed("Unreachable", text)


# The router is opened with the owner and closed with it. Adapters are created when they are first needed, so a plan
# that asks no model loads neither aiohttp nor litellm. The table is read for each request, so edits count immediately.

if TYPE_CHECKING:
    from planloop.controllers.agent.models.litellm_chat import LitellmAdapter
    from planloop.controllers.agent.models.openai_chat import OpenAIChatAdapter


class ModelRouter:
    """All models of a plan, while `run` runs or inside `async with opened()`. `table` returns the current table.

    `now` returns wall time in seconds since 1970; `python` is the interpreter for the litellm process.
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
        """The router. The end of the block closes its connections and processes."""
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
        """Keep the router open until this is cancelled."""
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
                    text = f"`{request.model}` does not name a model: write `{name}@provider/name`"
                    raise ModelFailed("BadRequest", text)
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
        """The real model of the name; for `replay/<file>` without a model, the recorded one."""
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
