"""Which adapter asks which model, and as whom: a pure reading of a model's name, the plan's table and the environment.

`name@http://…` and a `url` in the table are OpenAI-compatible; so are the providers of `providers.py`; `api: litellm`
and every other name go to litellm. A provider's own key goes to its own URL only: a plan that states another URL
states the key for it too, or none is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from planloop.controllers.agent.models.chat_body import Dialect
from planloop.controllers.agent.models.endpoint import Endpoint, is_loopback
from planloop.controllers.agent.models.port import ModelFailed
from planloop.controllers.agent.models.providers import PROVIDERS, Provider
from planloop.reconciler.effects import secrets
from planloop.schemas.frozen import frozen
from planloop.schemas.model import ModelConfig, ModelTable, model_name

LOOPBACK_ONLY: Final = "PLANLOOP_NO_NETWORK"
"""The environment variable that allows only URLs on this machine; for tests."""


@frozen
class Route:
    """How one model is asked: through litellm, which knows its own URLs, or over HTTP at `endpoint.url`."""

    endpoint: Endpoint
    is_litellm: bool = False


@frozen
class Surroundings:
    """What routes are looked up in. Relative key files are below `folder`."""

    env: Mapping[str, str]
    folder: Path

    @property
    def is_loopback_only(self) -> bool:
        """Whether no request may leave this machine."""
        return bool(self.env.get(LOOPBACK_ONLY))


def route(real: str, table: ModelTable, around: Surroundings) -> Route:
    """How the model `real` is asked. Raises ModelFailed: BadRequest, NoKey, Unreachable."""
    name, config = model_name(real), table.config(real)
    provider = PROVIDERS.get(name.provider)
    url = name.url or config.url
    if config.api == "litellm" or not (url or provider or config.api == "openai"):
        # A name with a URL is litellm's only when the plan says so; litellm then wants the provider in it.
        found = Route(_endpoint(name.name if name.url else real, url, config, around), is_litellm=True)
    elif url:
        found = Route(_endpoint(name.name, url, config, around, provider))
    elif provider is None:
        raise ModelFailed("BadRequest", f"nobody knows where `{real}` answers; state its `url` under `models`")
    else:
        found = Route(_known(real, config, around))
    _check_reach(real, found, around)
    return found


def _known(real: str, config: ModelConfig, around: Surroundings) -> Endpoint:
    """The endpoint of a provider that needs no URL."""
    name = model_name(real)
    provider = PROVIDERS[name.provider]
    if provider.key and not config.key:
        key = around.env.get(provider.key, "")
        if not key:
            text = f"{real} needs a key: set {provider.key}, or state `key` for `{name.provider}` under `models`"
            raise ModelFailed("NoKey", text)
    else:
        key = _secret(config.key, around)
    where = config.key or f"env:{provider.key}"
    return Endpoint(
        provider.url,
        name.name,
        key,
        _headers(config, around),
        _cure(where if key else ""),
        provider.start,
        _dialect(provider, config),
    )


def _endpoint(
    model: str, url: str, config: ModelConfig, around: Surroundings, provider: Provider | None = None
) -> Endpoint:
    """The endpoint at a URL of the plan's own, or none, which leaves it to litellm."""
    key, start = _secret(config.key, around), provider.start if provider else ""
    dialect = _dialect(provider, config)
    return Endpoint(url.rstrip("/"), model, key, _headers(config, around), _cure(config.key), start, dialect)


def _dialect(provider: Provider | None, config: ModelConfig) -> Dialect:
    """What is known of a server before it is asked: from the table of providers, and from the plan."""
    known = provider.dialect if provider else Dialect()
    return known if config.is_streamed else replace(known, is_streamed=False)


def _headers(config: ModelConfig, around: Surroundings) -> tuple[tuple[str, str], ...]:
    return tuple((name, _resolved(value, around)) for name, value in config.headers)


def _resolved(value: str, around: Surroundings) -> str:
    try:
        return secrets.resolved(value, around.env, around.folder)
    except secrets.NotThere as fault:
        raise ModelFailed("NoKey", str(fault)) from None


def _secret(reference: str, around: Surroundings) -> str:
    """What `env:NAME` or `file:path` holds; empty for no reference. Raises ModelFailed with NoKey, never with it."""
    if not reference:
        return ""
    try:
        return secrets.secret(reference, around.env, around.folder)
    except secrets.NotThere as fault:
        raise ModelFailed("NoKey", str(fault)) from None


def _cure(reference: str) -> str:
    kind, _, where = reference.partition(":")
    if kind == "env":
        return f"is the key in {where} right?"
    return f"is the key in the file {where} right?" if kind == "file" else "state a `key` for it under `models`"


def _check_reach(real: str, found: Route, around: Surroundings) -> None:
    if around.is_loopback_only and not is_loopback(found.endpoint.url):
        where = found.endpoint.url or "its provider"
        text = f"{real} would be asked at {where}, and {LOOPBACK_ONLY} allows only this machine"
        raise ModelFailed("Unreachable", text)
