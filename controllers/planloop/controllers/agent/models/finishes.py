"""Why a reply ended, in the words of many providers; a reply that did not end well is a failed attempt.

stop, length and tool_calls are the ends of an answer. What a content filter cut is reported as such. Every other word
(error, abort, insufficient_system_resource, malformed_function_call, …) means that the reply broke.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from planloop.schemas.encoding import Json, JsonObject

STOP, LENGTH, CALLS, FILTERED, BROKEN = "stop", "length", "tool_calls", "content_filter", "broken"

_WORDS: Final[Mapping[str, str]] = {
    "": "null none undefined unspecified",  # Of a reply that goes on.
    STOP: "stop end end_turn end_of_turn eos eos_token eos_found end_of_text end_of_sequence stop_sequence stop_token "
    "stop_string complete completed done finish finished stopped normal success",
    CALLS: "tool_calls tool_call tool_use tool function_call function_calls",
    LENGTH: "length max_tokens max_length max_output_tokens max_completion_tokens model_length token_limit limit "
    "length_limit max_new_tokens model_context_window_exceeded context_length_exceeded",
    FILTERED: "content_filter content_filtered content_filter_error safety image_safety recitation blocklist spii "
    "refusal prohibited_content language sensitive guardrail_intervened guardrails moderation blocked error_toxic",
}
KINDS: Final[Mapping[str, str]] = {word: kind for kind, words in _WORDS.items() for word in words.split()}
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NATIVE: Final = frozenset(("malformed_function_call", "unexpected_tool_call", "malformed_response"))
"""Ends of Gemini that OpenRouter hands on as `stop`, with the word itself in `native_finish_reason`."""


def kind_of(stated: str) -> str:
    """Which kind of end `stated` is; empty for no word at all."""
    word = _word(stated)
    return KINDS.get(word, BROKEN) if word else ""


def stated_in(choice: JsonObject) -> str:
    """The word for the end in a choice of a reply or a chunk; empty when it goes on."""
    found = _text(choice.get("finish_reason") or choice.get("finishReason"))
    native = choice.get("native_finish_reason")
    if native and _word(_text(native)) in _NATIVE:
        return _text(native)
    return found if found and kind_of(found) else ""


def _text(stated: Json) -> str:
    """SGLang has an object with the word as its `type`."""
    if isinstance(stated, dict):
        stated = stated.get("type") or stated.get("reason")
    return str(stated or "")


def _word(stated: str) -> str:
    """In lower case, its parts joined by underscores."""
    word = re.sub(r"[\s-]+", "_", _HUMP.sub("_", stated.strip())).lower()
    return word.removeprefix("finish_reason_")
