"""Usage in tokens: read from what providers say in their different words, or estimated when they say nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from controllers.agent.models.port import Usage
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
    Anthropic in `cache_read_input_tokens`.
    """
    tokens_in = _count(raw, "prompt_tokens", "input_tokens")
    tokens_out = _count(raw, "completion_tokens", "output_tokens")
    cached = (
        _count(raw.get("prompt_tokens_details"), "cached_tokens")
        or _count(raw.get("input_tokens_details"), "cached_tokens")
        or _count(raw, "prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens")
    )
    reasoning = _count(raw.get("completion_tokens_details"), "reasoning_tokens") or _count(raw, "reasoning_tokens")
    return Usage(tokens_in, tokens_out, min(cached, tokens_in), min(reasoning, tokens_out), raw)


def _count(raw: Json, *names: str) -> int:
    """The first of `names` that holds a count; 0 when none does."""
    if not isinstance(raw, dict):
        return 0
    found = next((raw[name] for name in names if isinstance(raw.get(name), int | float)), 0)
    return max(0, int(found))
