"""Usage in tokens: read from what providers say in their different words, or estimated here.

A count decides what is billed, so it is believed only as far as our own estimate allows.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Final

from controllers.agent.models.port import Usage
from schemas import limits
from schemas.encoding import Json, JsonObject

BYTES_A_TOKEN: Final = 4
"""English prose has 4 to 5 bytes a token, code and JSON 3 to 4 with the tokenizers in use since 2023."""


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
    Anthropic in `cache_read_input_tokens`. xAI and Gemini leave reasoning out of `completion_tokens` and count it in
    `total_tokens`.
    """
    tokens_in = _count(raw, "prompt_tokens", "input_tokens")
    tokens_out = _count(raw, "completion_tokens", "output_tokens")
    total = _count(raw, "total_tokens")
    if tokens_in and tokens_out and total > tokens_in + tokens_out:
        tokens_out = total - tokens_in
    cached = (
        _count(raw.get("prompt_tokens_details"), "cached_tokens")
        or _count(raw.get("input_tokens_details"), "cached_tokens")
        or _count(raw, "prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens")
    )
    reasoning = _count(raw.get("completion_tokens_details"), "reasoning_tokens") or _count(raw, "reasoning_tokens")
    return Usage(tokens_in, tokens_out, min(cached, tokens_in), min(reasoning, tokens_out), raw)


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
    """The first of `names` that holds a count; 0 when none does."""
    if not isinstance(raw, dict):
        return 0
    return next((found for name in names if (found := _number(raw.get(name))) is not None), 0)


def _number(value: Json) -> int | None:
    """A count given as a non-negative number or its digits; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= limits.USAGE_DIGITS_MAX:
        return int(value)
    is_count = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    return max(0, int(value)) if is_count else None
