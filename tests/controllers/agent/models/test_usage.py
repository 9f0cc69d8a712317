"""Usage that providers state is billed as far as it is plausible."""

from __future__ import annotations

import json
from typing import Any

from planloop.controllers.agent.models.port import TokenUsage
from planloop.controllers.agent.models.reply_assembly import ReplyAssembly
from planloop.schemas import limits
from tests import rows

PROMPT = (b"x" * 4_000,)  # 1,000 tokens by our count.
TEXT = "y" * 400  # 100 tokens.


def billed(usage: Any) -> TokenUsage:
    assembly = ReplyAssembly()
    assembly.take({"choices": [{"delta": {"content": TEXT}}]})
    assembly.take({"choices": [], "usage": usage})
    return assembly.reply(PROMPT).usage


ABSURD: dict[str, Any] = {
    "zero": {"prompt_tokens": 0, "completion_tokens": 0},
    "negative": {"prompt_tokens": -100_000, "completion_tokens": -50_000},
    "null": {"prompt_tokens": None, "completion_tokens": None},
    "too small": {"prompt_tokens": 1, "completion_tokens": 1},
    "huge": {"prompt_tokens": 10**15, "completion_tokens": 10**15},
    "beyond 64 bits": {"prompt_tokens": 10**40, "completion_tokens": 10**40},
    "a huge float": {"prompt_tokens": 1e308, "completion_tokens": 1e308},
    "infinite": json.loads('{"prompt_tokens": 1e999, "completion_tokens": 1}'),
    "no number": json.loads('{"prompt_tokens": NaN, "completion_tokens": NaN}'),
    "booleans": {"prompt_tokens": True, "completion_tokens": True},
    "words": {"prompt_tokens": "many", "completion_tokens": "few"},
    "a total only": {"total_tokens": 10**12},
    "absurd total": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 10**12},
    "another shape": {"tokens": [1, 2]},
    "a flood": {f"n{index}": index for index in range(5_000)},
}


@rows.each("usage", ABSURD.values(), ids=list(ABSURD))
def test_usage_that_cannot_be_right_bills_the_estimate(usage: Any) -> None:
    found = billed(usage)

    assert (found.tokens_in, found.tokens_out, found.is_estimated) == (1_000, 100, True)
    assert len(json.dumps(found.raw)) <= limits.USAGE_BYTES_MAX


STATED: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "as counted here": ({"prompt_tokens": 1_000, "completion_tokens": 100}, (1_000, 100, 0, 0)),
    "another tokenizer": ({"prompt_tokens": 400, "completion_tokens": 250}, (400, 250, 0, 0)),
    "text": ({"prompt_tokens": "900", "completion_tokens": "90"}, (900, 90, 0, 0)),
    "fractions": ({"prompt_tokens": 900.7, "completion_tokens": 90.2}, (900, 90, 0, 0)),
    "cached beyond the prompt": (
        {"prompt_tokens": 900, "completion_tokens": 90, "prompt_tokens_details": {"cached_tokens": 10**9}},
        (900, 90, 900, 0),
    ),
    "thoughts of which nothing is shown": (
        {"prompt_tokens": 900, "completion_tokens": 60_000, "completion_tokens_details": {"reasoning_tokens": 59_900}},
        (900, 60_000, 0, 59_900),
    ),
    "thoughts that only the total has": (
        {"prompt_tokens": 900, "completion_tokens": 90, "reasoning_tokens": 300, "total_tokens": 1_290},
        (900, 390, 0, 300),
    ),
    "one side absurd": ({"prompt_tokens": 900, "completion_tokens": -1}, (900, 100, 0, 0)),
}


@rows.each(("usage", "counts"), STATED.values(), ids=list(STATED))
def test_usage_that_can_be_right_is_billed_as_it_is_stated(usage: Any, counts: tuple[int, ...]) -> None:
    found = billed(usage)

    assert (found.tokens_in, found.tokens_out, found.tokens_cached, found.tokens_reasoning) == counts


DIVIDED: dict[str, tuple[list[Any], tuple[int, int, int]]] = {
    "Anthropic's input without the cache": (
        [{"input_tokens": 10, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 90, "output_tokens": 100}],
        (1000, 100, 900),
    ),
    "an input without the cache": (
        [{"prompt_tokens": 100, "cache_read_input_tokens": 900, "completion_tokens": 100}],
        (1000, 100, 900),
    ),
    "an input with the cache": (
        [{"prompt_tokens": 1000, "cache_read_input_tokens": 900, "completion_tokens": 100}],
        (1000, 100, 900),
    ),
    "zeros at the end": (
        [{"prompt_tokens": 1100, "completion_tokens": 110}, *[{"prompt_tokens": 0, "completion_tokens": 0}] * 2],
        (1100, 110, 0),
    ),
    "the input first and the output last": (
        [{"prompt_tokens": 1100, "completion_tokens": 0}, {"completion_tokens": 110}],
        (1100, 110, 0),
    ),
    "a sum that grows": (
        [{"prompt_tokens": 1100, "completion_tokens": count} for count in (1, 50, 110)],
        (1100, 110, 0),
    ),
    "Gemini's names": (
        [{"promptTokenCount": 1100, "candidatesTokenCount": 100, "totalTokenCount": 1210}],
        (1100, 110, 0),
    ),
    "the input and a total": ([{"prompt_tokens": 1100, "total_tokens": 1210}], (1100, 110, 0)),
}


@rows.each(("said", "counts"), DIVIDED.values(), ids=list(DIVIDED))
def test_usage_is_read_however_a_provider_divides_it(said: list[Any], counts: tuple[int, int, int]) -> None:
    assembly = ReplyAssembly()
    assembly.take({"choices": [{"delta": {"content": TEXT}}]})
    for usage in said:
        assembly.take({"choices": [{"delta": {"usage": usage}}]})
    found = assembly.reply(PROMPT).usage

    assert (found.tokens_in, found.tokens_out, found.tokens_cached, found.is_estimated) == (*counts, False)
