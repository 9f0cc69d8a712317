"""Why a reply ended, in the words of many providers; a reply that did not end well is a failed attempt.

stop, length and tool_calls are the ends of an answer. What a content filter cut is reported as such. Every other word
(error, abort, insufficient_system_resource, malformed_function_call, …) means that the reply broke.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

STOP, LENGTH, CALLS, FILTERED, BROKEN = "stop", "length", "tool_calls", "content_filter", "broken"

_WORDS: Final[Mapping[str, str]] = {
    STOP: "stop end end_turn eos eos_token end_of_text stop_sequence stop_token complete completed done finished",
    CALLS: "tool_calls tool_call tool_use tool function_call function_calls",
    LENGTH: "length max_tokens max_length max_output_tokens max_completion_tokens model_length token_limit limit "
    "model_context_window_exceeded",
    FILTERED: "content_filter content_filtered content_filter_error safety image_safety recitation blocklist spii "
    "refusal prohibited_content language sensitive guardrail_intervened guardrails moderation blocked",
}
KINDS: Final[Mapping[str, str]] = {word: kind for kind, words in _WORDS.items() for word in words.split()}


def kind_of(stated: str) -> str:
    """Which kind of end `stated` is; empty for no word at all."""
    word = stated.strip().lower().replace("-", "_").removeprefix("finish_reason_")
    return KINDS.get(word, BROKEN) if word else ""
