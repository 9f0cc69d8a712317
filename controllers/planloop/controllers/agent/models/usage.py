"""Usage in tokens: read from what providers say in their different words, or estimated here.

A count decides what is billed, so it is believed only as far as our own estimate allows.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Final

from planloop.controllers.agent.models.port import Usage
from planloop.schemas import limits
from planloop.schemas.encoding import Json, JsonObject

BYTES_A_TOKEN: Final = 4
"""English prose has 4 to 5 bytes a token, code and JSON 3 to 4 with the tokenizers in use since 2023."""


NAMES_IN: Final = ("prompt_tokens", "input_tokens", "promptTokenCount")
NAMES_OUT: Final = ("completion_tokens", "output_tokens", "candidatesTokenCount")
READ: Final = "cache_read_input_tokens"


def tokens_of(size_bytes: int) -> int:
    """About how many tokens so many bytes of text are; errs upwards for prose."""
    return -(-size_bytes // BYTES_A_TOKEN)


def estimated(prompt: Iterable[bytes], reply: Iterable[bytes]) -> Usage:
    """Usage counted here."""
    tokens_in, tokens_out = (tokens_of(sum(len(one) for one in side)) for side in (prompt, reply))
    return Usage(tokens_in, tokens_out, is_estimated=True)


def usage_from_raw(raw: JsonObject) -> Usage:
    """Usage as a provider words it. What it keeps apart as cached or reasoning is counted into in and out.

    OpenAI has the cached tokens in `prompt_tokens_details`, DeepSeek in `prompt_cache_hit_tokens`, proxies of
    Anthropic in `cache_read_input_tokens`, which Anthropic itself and some of them leave out of the input. xAI and
    Gemini leave reasoning out of `completion_tokens` and count it in `total_tokens`.
    """
    tokens_in = _count(raw, *NAMES_IN) + _apart(raw)
    tokens_out = _count(raw, *NAMES_OUT)
    total = _count(raw, "total_tokens", "totalTokenCount")
    if tokens_in and total > tokens_in + tokens_out:
        tokens_out = total - tokens_in
    cached = (
        _count(raw.get("prompt_tokens_details"), "cached_tokens")
        or _count(raw.get("input_tokens_details"), "cached_tokens")
        or _count(raw, "prompt_cache_hit_tokens", READ, "cached_tokens", "cachedContentTokenCount")
    )
    reasoning = _count(raw.get("completion_tokens_details"), "reasoning_tokens") or _count(raw, "reasoning_tokens")
    return Usage(tokens_in, tokens_out, min(cached, tokens_in), min(reasoning, tokens_out), raw)


def filled(raw: JsonObject, before: JsonObject) -> JsonObject:
    """`raw` with the counts of `before` where it has none: some state the input first and the output last."""
    missing = {
        name: before[name]
        for names in (NAMES_IN, NAMES_OUT)
        if not _count(raw, *names)
        for name in names
        if _count(before, name)
    }
    return raw | missing


def is_nothing(raw: JsonObject) -> bool:
    """Whether `raw` counts no tokens at all: some close a reply with zeros."""
    return not (_count(raw, *NAMES_IN) or _count(raw, *NAMES_OUT))


def _apart(raw: JsonObject) -> int:
    """Cached tokens that are not part of the input stated."""
    read, stated = _count(raw, READ), _count(raw, *NAMES_IN)
    is_anthropics = "input_tokens" in raw and "prompt_tokens" not in raw
    return read + _count(raw, "cache_creation_input_tokens") if is_anthropics or read > stated else 0


def checked(raw: JsonObject, counted: Usage) -> Usage:
    """Usage as a provider states it in `raw`, where it is plausible; `counted` is our own estimate.

    A prompt or a reply costs something, and no tokenizer is off by more than `limits.USAGE_SLACK`. A count outside of
    that bills the estimate. The room above is wide: providers add to a prompt, and count thoughts that nothing shows.
    """
    said = usage_from_raw(raw)
    is_in = _can_be(said.tokens_in, counted.tokens_in, limits.USAGE_ADDED_TOKENS)
    is_out = _can_be(said.tokens_out, counted.tokens_out, limits.USAGE_THOUGHT_TOKENS)
    if is_in and is_out:
        return said
    tokens_in = said.tokens_in if is_in else counted.tokens_in
    tokens_out = said.tokens_out if is_out else counted.tokens_out
    cached = min(said.tokens_cached, tokens_in) if is_in else 0
    reasoning = min(said.tokens_reasoning, tokens_out) if is_out else 0
    return Usage(tokens_in, tokens_out, cached, reasoning, raw, is_estimated=True)


def _can_be(said: int, counted: int, added: int) -> bool:
    """Whether a provider's count is plausible if ours is `counted` and up to `added` tokens are hidden from us."""
    slack = limits.USAGE_SLACK
    return (said > 0 or not counted) and counted // slack <= said <= counted * slack + added


def _count(raw: Json, *names: str) -> int:
    """The first of `names` that holds more than zero; 0 when none does."""
    if not isinstance(raw, dict):
        return 0
    return next((found for name in names if (found := _number(raw.get(name)))), 0)


def _number(value: Json) -> int | None:
    """A count given as a non-negative number or its digits; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= limits.USAGE_DIGITS_MAX:
        return int(value)
    if isinstance(value, float):
        return max(0, int(value)) if isfinite(value) else None
    # An integer may be too large for isfinite().
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else None
