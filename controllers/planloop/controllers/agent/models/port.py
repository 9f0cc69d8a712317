"""The port of language models: one attempt of one request, streamed, and the price and limits of a model.

The adapters are in this package; `planloop.controllers.agent.turn.model_request` makes requests and reads replies.
Adapters do not retry: the caller records and bills each attempt. Messages and tools are JSON bytes that are encoded
once, in the form of the OpenAI chat API, which every adapter can send or read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from decimal import Decimal
from math import isnan
from typing import Protocol, TypeAlias

from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject, sha256_hex
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.model import parse_model_name

OnDelta: TypeAlias = Callable[[str], None]
"""Called with each piece of text as it arrives, and with an empty text for any other chunk."""


@frozen
class RequestKey:
    """Identifies a request. `agent` is an address; `attempt` counts from 1 within the turn.

    `str()` omits the uid. It is the same for the same request in every run of a plan, so recordings use it as the key.
    """

    agent: str
    uid: str
    incarnation: int
    turn: int
    attempt: int
    purpose: str = "turn"

    def __str__(self) -> str:
        tail = "" if self.purpose == "turn" else f"#{self.purpose}"
        return f"{self.agent}@{self.incarnation}.{self.turn}.{self.attempt}{tail}"


@frozen
class ModelRequest:
    """`messages` are one JSON object each; `tools` a JSON array of function declarations, empty for none.

    `options` are those of the plan, passed on unchanged; `output_tokens_max` and `timeout_s` limit this attempt.
    """

    key: RequestKey
    model: str
    messages: tuple[bytes, ...]
    tools: bytes = b""
    options: JsonObject = field(default_factory=dict)
    output_tokens_max: int | None = None
    timeout_s: float = 600.0

    @property
    def prompt_digest(self) -> str:
        """The digest of the real model, tools and messages: equal for equal prompts, also in a recording or replay."""
        real = parse_model_name(self.model).real
        return sha256_hex(b"\n".join((real.encode(), self.tools, *self.messages)))


@frozen
class TokenUsage:
    """Tokens as the provider counted them. `cached` is part of `tokens_in`, `reasoning` of `tokens_out`; `raw` as sent.

    `is_estimated`: the provider sent no usage, or an implausible one, so it was estimated here.
    """

    tokens_in: int
    tokens_out: int
    tokens_cached: int = 0
    tokens_reasoning: int = 0
    raw: JsonObject = field(default_factory=dict)
    is_estimated: bool = False


@frozen
class ModelCall:
    """A tool call as the model wrote it: its own id (may be empty or a duplicate), and arguments as raw text.

    `extra` are fields that the provider requires back with the call; those of its `function` are in a map of that name.
    """

    id: str
    name: str
    arguments: str
    extra: JsonObject = field(default_factory=dict)


@frozen
class ModelReply:
    """`finish` is stop, tool_calls or length. `extra` are fields that the provider requires back with the message."""

    text: str = ""
    calls: tuple[ModelCall, ...] = ()
    usage: TokenUsage = TokenUsage(0, 0)
    finish: str = "stop"
    extra: JsonObject = field(default_factory=dict)


@frozen
class TokenPrice:
    """US dollars per million tokens. `source` and `date` say where the price comes from."""

    usd_in: Decimal
    usd_out: Decimal
    usd_cached: Decimal
    source: str = ""
    date: str = ""

    def cost(self, usage: TokenUsage) -> Decimal:
        """The exact cost of `usage`, in US dollars."""
        fresh = usage.tokens_in - usage.tokens_cached
        spent = fresh * self.usd_in + usage.tokens_cached * self.usd_cached + usage.tokens_out * self.usd_out
        return spent / 1_000_000


class ModelFailed(Exception):
    """An attempt that gave no usable reply.

    `reason` is one word: RateLimited, Overloaded, TimedOut, CutOff, Garbage, Unreachable (all transient), Refused,
    Filtered (by a content filter), BadRequest, ContextTooLong, NoKey, NotInstalled, NotRecorded, Diverged.
    `retry_after_s` is the wait that the provider asks for, at most a day; None if it asks for none.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        is_transient: bool = False,
        retry_after_s: float | None = None,
        usage: TokenUsage | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.is_transient = is_transient
        self.retry_after_s = _bounded(retry_after_s)
        self.usage = usage


def _bounded(wait_s: float | None) -> float | None:
    return None if wait_s is None or isnan(wait_s) else min(max(0.0, wait_s), limits.MODEL_RETRY_AFTER_MAX_S)


class ModelClient(Protocol):
    """All models of a plan. Cancelling `complete` closes its connection before it returns."""

    async def complete(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """One attempt. Raises ModelFailed."""
        ...

    def price(self, model: str) -> TokenPrice | None:
        """The price of the model; None if it is unknown."""
        ...

    def window(self, model: str) -> int:
        """Tokens that prompt and reply may have together."""
        ...

    def output_max(self, model: str) -> int:
        """Tokens that a reply may have."""
        ...


class NoModelClient:
    """A `ModelClient` for owners without models: each request fails."""

    async def complete(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        del on_delta
        raise ModelFailed("NotInstalled", f"this process has no client for {request.model}")

    def price(self, model: str) -> TokenPrice | None:
        del model
        return None

    def window(self, model: str) -> int:
        del model
        return limits.MODEL_WINDOW_TOKENS

    def output_max(self, model: str) -> int:
        del model
        return limits.MODEL_OUTPUT_TOKENS
