"""Assemble a model's reply from a stream or a whole message: text, calls, usage and finish reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import isfinite
from typing import Final

from planloop.controllers.agent.models import reply_pieces
from planloop.controllers.agent.models.port import ModelCall, ModelFailed, ModelReply, TokenUsage
from planloop.controllers.agent.models.reply_pieces import PartialCalls, intended_arguments, parse_piece
from planloop.schemas import canonical_json, limits
from planloop.schemas.canonical_json import Json, JsonObject

# Finish reasons, in the words of many providers.
#
# An answer ends with stop, length or tool_calls. A reply that a content filter cut, or with any other finish reason
# (error, abort, insufficient_system_resource, malformed_function_call, …), is a failed attempt.

STOP, LENGTH, CALLS, FILTERED, BROKEN = "stop", "length", "tool_calls", "content_filter", "broken"

_WORDS: Final[Mapping[str, str]] = {
    "": "null none undefined unspecified",  # The reply has not ended.
    STOP: "stop end end_turn end_of_turn eos eos_token eos_found end_of_text end_of_sequence stop_sequence stop_token "
    "stop_string complete completed done finish finished stopped normal success",
    CALLS: "tool_calls tool_call tool_use tool function_call function_calls",
    LENGTH: "length max_tokens max_length max_output_tokens max_completion_tokens model_length token_limit limit "
    "length_limit max_new_tokens model_context_window_exceeded context_length_exceeded",
    FILTERED: "content_filter content_filtered content_filter_error safety image_safety recitation blocklist spii "
    "refusal prohibited_content language sensitive guardrail_intervened guardrails moderation blocked error_toxic",
}
FINISH_KINDS: Final[Mapping[str, str]] = {word: kind for kind, words in _WORDS.items() for word in words.split()}
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NATIVE: Final = frozenset(("malformed_function_call", "unexpected_tool_call", "malformed_response"))
"""Finish reasons of Gemini that OpenRouter reports as `stop`, with the original in `native_finish_reason`."""


def finish_kind(stated: str) -> str:
    """The kind of the finish reason `stated`; empty if it is empty."""
    word = _word(stated)
    return FINISH_KINDS.get(word, BROKEN) if word else ""


def stated_finish(choice: JsonObject) -> str:
    """The finish reason in a choice of a reply or chunk; empty if the reply has not ended."""
    found = _text(choice.get("finish_reason") or choice.get("finishReason"))
    native = choice.get("native_finish_reason")
    if native and _word(_text(native)) in _NATIVE:
        return _text(native)
    return found if found and finish_kind(found) else ""


def _text(stated: Json) -> str:
    """The finish reason as text. SGLang sends an object with the word as its `type`."""
    if isinstance(stated, dict):
        stated = stated.get("type") or stated.get("reason")
    return str(stated or "")


def _word(stated: str) -> str:
    """A finish reason in lower case, with underscores between its parts."""
    word = re.sub(r"[\s-]+", "_", _HUMP.sub("_", stated.strip())).lower()
    return word.removeprefix("finish_reason_")


# Usage in tokens: parsed from the different forms of providers, or estimated here.
#
# The count decides what is billed, so it is used only if it is plausible by our own estimate.

BYTES_PER_TEXT_TOKEN: Final = 4
"""English prose has 4 to 5 bytes per token, code and JSON 3 to 4, with the tokenizers in use since 2023."""


INPUT_COUNT_NAMES: Final = ("prompt_tokens", "input_tokens", "promptTokenCount")
OUTPUT_COUNT_NAMES: Final = ("completion_tokens", "output_tokens", "candidatesTokenCount")
CACHE_READ_NAME: Final = "cache_read_input_tokens"


def tokens_in_text(size_bytes: int) -> int:
    """The estimated tokens of text of this size; for prose, it tends to be too high."""
    return -(-size_bytes // BYTES_PER_TEXT_TOKEN)


def estimate_usage(prompt: Iterable[bytes], reply: Iterable[bytes]) -> TokenUsage:
    """Usage estimated from the sizes of prompt and reply."""
    tokens_in, tokens_out = (tokens_in_text(sum(len(one) for one in side)) for side in (prompt, reply))
    return TokenUsage(tokens_in, tokens_out, is_estimated=True)


def usage_from_raw(raw: JsonObject) -> TokenUsage:
    """Usage from a provider's own fields. Cached and reasoning tokens that it counts separately are added.

    OpenAI has cached tokens in `prompt_tokens_details`, DeepSeek in `prompt_cache_hit_tokens`, proxies of Anthropic in
    `cache_read_input_tokens`, which Anthropic and some proxies do not count as input. xAI and Gemini do not count
    reasoning in `completion_tokens`, only in `total_tokens`.
    """
    tokens_in = _count(raw, *INPUT_COUNT_NAMES) + _apart(raw)
    tokens_out = _count(raw, *OUTPUT_COUNT_NAMES)
    total = _count(raw, "total_tokens", "totalTokenCount")
    if tokens_in and total > tokens_in + tokens_out:
        tokens_out = total - tokens_in
    cached = (
        _count(raw.get("prompt_tokens_details"), "cached_tokens")
        or _count(raw.get("input_tokens_details"), "cached_tokens")
        or _count(raw, "prompt_cache_hit_tokens", CACHE_READ_NAME, "cached_tokens", "cachedContentTokenCount")
    )
    reasoning = _count(raw.get("completion_tokens_details"), "reasoning_tokens") or _count(raw, "reasoning_tokens")
    return TokenUsage(tokens_in, tokens_out, min(cached, tokens_in), min(reasoning, tokens_out), raw)


def fill_counts(raw: JsonObject, before: JsonObject) -> JsonObject:
    """`raw` with missing counts taken from `before`: some providers send the input first and the output last."""
    missing = {
        name: before[name]
        for names in (INPUT_COUNT_NAMES, OUTPUT_COUNT_NAMES)
        if not _count(raw, *names)
        for name in names
        if _count(before, name)
    }
    return raw | missing


def counts_nothing(raw: JsonObject) -> bool:
    """Whether `raw` counts no tokens at all: some providers end a reply with zeros."""
    return not (_count(raw, *INPUT_COUNT_NAMES) or _count(raw, *OUTPUT_COUNT_NAMES))


def _apart(raw: JsonObject) -> int:
    """Cached tokens that the stated input does not include."""
    read, stated = _count(raw, CACHE_READ_NAME), _count(raw, *INPUT_COUNT_NAMES)
    is_anthropics = "input_tokens" in raw and "prompt_tokens" not in raw
    return read + _count(raw, "cache_creation_input_tokens") if is_anthropics or read > stated else 0


def plausible_usage(raw: JsonObject, counted: TokenUsage) -> TokenUsage:
    """Usage as a provider states it in `raw`, if it is plausible; `counted` is our own estimate.

    A count that is zero for text, or differs from the estimate by more than the factor `limits.USAGE_SLACK`, is
    replaced by the estimate. The upper limit is wide, because providers add text to prompts and count hidden thoughts.
    """
    stated = usage_from_raw(raw)
    is_in = _can_be(stated.tokens_in, counted.tokens_in, limits.USAGE_ADDED_TOKENS)
    is_out = _can_be(stated.tokens_out, counted.tokens_out, limits.USAGE_THOUGHT_TOKENS)
    if is_in and is_out:
        return stated
    tokens_in = stated.tokens_in if is_in else counted.tokens_in
    tokens_out = stated.tokens_out if is_out else counted.tokens_out
    cached = min(stated.tokens_cached, tokens_in) if is_in else 0
    reasoning = min(stated.tokens_reasoning, tokens_out) if is_out else 0
    return TokenUsage(tokens_in, tokens_out, cached, reasoning, raw, is_estimated=True)


def _can_be(stated: int, counted: int, added: int) -> bool:
    """Whether a provider's count is plausible if ours is `counted` and up to `added` tokens are hidden from us."""
    slack = limits.USAGE_SLACK
    return (stated > 0 or not counted) and counted // slack <= stated <= counted * slack + added


def _count(raw: Json, *names: str) -> int:
    """The first positive count among `names`, or 0."""
    if not isinstance(raw, dict):
        return 0
    return next((found for name in names if (found := _number(raw.get(name)))), 0)


def _number(value: Json) -> int | None:
    """A count given as a non-negative number or its digits; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= limits.USAGE_DIGITS_MAX:
        return int(value)
    if isinstance(value, float):
        return max(0, int(value)) if isfinite(value) else None
    # isfinite() raises for very large integers.
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else None


# The assembly of a reply. `planloop.controllers.agent.models.reply_pieces` joins tool calls and extra fields.

TEXT_PARTS: Final = (None, "text", "output_text", "input_text", "refusal")
REPEATED_TEXT_CHARS: Final = 16
"""From this length on, a last piece that equals all text before it is a repetition. A shorter one may be new text."""


class ReplyTooLong(ValueError):
    """The reply is longer than `limits.MODEL_REPLY_CHARS_MAX`."""


class ReplyAssembly:
    """One reply as it arrives: `text` and `calls` so far, and `finish`, the provider's own finish reason."""

    def __init__(self) -> None:
        self.finish = ""
        self.ends = 0  # Counts pieces with a finish reason: if every piece has one, it does not mean the end.
        self._stated: list[JsonObject] = []  # The last two usages.
        self._text: list[str] = []
        self._parts: list[Json] | None = None  # The parts of a content that is not only text.
        self._size = 0  # Characters of text, arguments and extra fields.
        self._calls = PartialCalls()
        self._extra: dict[str, list[Json]] = {}  # The pieces of each field.

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def is_empty(self) -> bool:
        """Whether the reply is empty and the provider reports no usage."""
        return not self._text and not self._calls.all and not self._extra and not self.is_counted

    @property
    def is_counted(self) -> bool:
        """Whether the provider reports usage."""
        return self._last_usage() is not None

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """The calls in the order in which they began. Pieces without name and arguments are ignored."""
        return tuple(
            ModelCall(one.id, one.name, arguments, {} if at else one.extra)
            for one in self._calls.all
            if one.has_begun
            for at, arguments in enumerate(intended_arguments(one.whole_arguments))
        )

    def take(self, chunk: JsonObject) -> str:
        """Add one chunk of a stream, or a whole answer. Returns its text.

        Raises ValueError if it is malformed, ReplyTooLong if the reply is too long.
        """
        # This runs for every token, so rare fields are first looked up by name only.
        if "usage" in chunk or "x_groq" in chunk:
            self._take_usage(chunk)
            self._take_usage(chunk.get("x_groq"))
        choices = chunk.get("choices")
        if not choices:
            return ""
        choice = choices[0] if isinstance(choices, list) else None
        if not isinstance(choice, dict):
            raise ValueError("`choices` is not a list of objects")
        delta = choice.get("delta") or self._without_delta(choice)
        if not isinstance(delta, dict):
            raise ValueError("a delta is not an object")
        for holder in (choice, delta):
            if holder.get("finish_reason") or "finishReason" in holder or "usage" in holder:
                self._take_end(holder)
        text = self._take_delta(delta, is_last=bool(self.finish) and self.ends <= limits.REPLY_ENDS_MAX)
        if len(choices) > 1:  # Copilot has the text in the first choice and the calls in the next one.
            self._take_calls_beside(choices[1:])
        return text

    def _without_delta(self, choice: JsonObject) -> Json:
        """What a choice has instead of a delta: a whole message, or the text of the older completions API."""
        if "message" in choice and self._is_blank:  # After deltas, a message only repeats them.
            message = choice["message"] or {}
            if self._extra and isinstance(message, dict):
                return {name: value for name, value in message.items() if name not in self._extra}
            return message
        return {"content": choice["text"]} if isinstance(choice.get("text"), str) else {}

    def _take_end(self, holder: JsonObject) -> None:
        """Add the finish reason and the usage of a choice or delta."""
        self._take_usage(holder)
        stated = stated_finish(holder)
        self.ends += bool(stated)
        self.finish = stated or self.finish

    def reply(self, prompt: Iterable[bytes]) -> ModelReply:
        """The complete reply. Missing or implausible usage is estimated from `prompt` and the text of the reply."""
        whole = reply_pieces.join_surrogates
        calls = tuple(
            ModelCall(whole(one.id), whole(one.name), whole(one.arguments), reply_pieces.storable_fields(one.extra))
            for one in self.calls
        )
        finish = finish_kind(self.finish) or (CALLS if calls else STOP)
        if calls and finish == STOP:
            finish = CALLS
        return ModelReply(whole(self.text), calls, self.usage(prompt), finish, self._kept_extra())

    def failure(self, who: str, prompt: Iterable[bytes]) -> ModelFailed | None:
        """Why a complete reply from `who` is not an answer: a content filter, or an invalid finish reason."""
        kind = finish_kind(self.finish)
        if kind == FILTERED:
            text = f"{who} cut the reply with its content filter (`{self.finish}`)"
            return ModelFailed("Filtered", text, is_transient=True, usage=self.usage(prompt))
        if kind == BROKEN:
            shown = self.finish[: limits.VALUE_SHOWN_CHARS]
            text = f"{who} ended the reply before it was complete, with the finish reason `{shown}`"
            return ModelFailed("CutOff", text, is_transient=True, usage=self.usage(prompt))
        return None

    def usage(self, prompt: Iterable[bytes]) -> TokenUsage:
        """Usage so far: the provider's count if it is plausible, otherwise our estimate."""
        written = [self.text, *(one.name + one.arguments for one in self._calls.all)]
        counted = estimate_usage(prompt, (text.encode(errors="replace") for text in written))
        stated = self._last_usage()
        return counted if stated is None else plausible_usage(stated, counted)

    @property
    def _is_blank(self) -> bool:
        return not (self._text or self._calls.all)

    def _kept_extra(self) -> JsonObject:
        fields = {name: reply_pieces.join_field(pieces) for name, pieces in self._extra.items()}
        if self._parts is not None and not all(_is_text(part) for part in self._parts):
            fields["content"] = reply_pieces.merge_field([], self._parts)
        return reply_pieces.storable_fields(fields) if fields else {}

    def _last_usage(self) -> JsonObject | None:
        """The provider's last usage that a log can store; missing counts come from the one before."""
        kept: list[JsonObject] = []
        for raw in reversed(self._stated):
            with suppress(ValueError):
                kept.append(_kept(raw))
        return fill_counts(kept[0], kept[-1]) if kept else None

    def _take_usage(self, holder: Json) -> None:
        """Add the usage in `holder`. Providers send it once, with every chunk, or again with zeros at the end."""
        raw = holder.get("usage") if isinstance(holder, dict) else None
        if isinstance(raw, dict) and raw and not (self._stated and counts_nothing(raw)):
            self._stated = [*self._stated[-1:], raw]

    def _take_calls_beside(self, others: list[Json]) -> None:
        for choice in others:
            message = (choice.get("delta") or choice.get("message")) if isinstance(choice, dict) else None
            if isinstance(message, dict) and message.get("tool_calls") and not self._calls.all:
                self._take_calls(message)

    def _take_delta(self, delta: JsonObject, *, is_last: bool) -> str:
        content = delta.get("content")
        if is_last and content and len(text := _text_of(content)) >= REPEATED_TEXT_CHARS and text == self.text:
            content = None  # The last chunk repeats the whole text.
        text = self._take_content(content) if content else ""
        if not text and delta.get("refusal"):
            text = _text_of(delta["refusal"])
        if text:
            self._count(len(text))
            self._text.append(text)
        if delta.keys() - reply_pieces.ANSWER_ONLY_FIELDS:
            self._take_extra(reply_pieces.fields_to_return(delta))
        if delta.get("tool_calls") or delta.get("function_call"):
            self._take_calls(delta)
        return text

    def _take_content(self, content: Json) -> str:
        if isinstance(content, str):
            if content and self._parts is not None:
                self._parts = reply_pieces.merge_field(self._parts, [{"type": "text", "text": content}])
            return content
        if isinstance(content, list) and content:
            if self._parts is None:
                self._parts = [{"type": "text", "text": self.text}] if self._text else []
            self._count(reply_pieces.field_size_chars(content))
            self._parts = reply_pieces.merge_field(self._parts, content)
        return _text_of(content)

    def _take_extra(self, fields: JsonObject) -> None:
        for name, value in fields.items():
            self._count(len(name) + reply_pieces.field_size_chars(value))
            self._extra.setdefault(name, []).append(value)

    def _take_calls(self, delta: JsonObject) -> None:
        raw = delta.get("tool_calls") or [{"function": delta["function_call"]}]  # The older form of a single call.
        if isinstance(raw, dict) and ("function" in raw or "name" in raw):
            raw = [raw]
        if not isinstance(raw, list):
            raise ValueError("`tool_calls` is not a list")
        pieces = [parse_piece(one) for one in raw if one is not None]
        for piece in pieces:
            self._count(
                len(piece.id) + len(piece.name) + len(piece.arguments) + reply_pieces.field_size_chars(piece.extra)
            )
        self._calls.take_all(pieces)

    def _count(self, written: int) -> None:
        self._size += written
        if self._size > limits.MODEL_REPLY_CHARS_MAX:
            raise ReplyTooLong(f"its reply is longer than {limits.MODEL_REPLY_CHARS_MAX} characters")


def _kept(raw: JsonObject) -> JsonObject:
    """`raw` in a form that a log can store. Raises ValueError if it has NaN or similar, or is too large."""
    if len(raw) < limits.USAGE_BYTES_MAX // 64 and all(
        type(count) is int and name.isascii() and abs(count) < _LARGE for name, count in raw.items()
    ):
        return raw
    content = canonical_json.encode(raw)
    if len(content) > limits.USAGE_BYTES_MAX:
        raise ValueError("the usage is too large")
    kept: JsonObject = canonical_json.decode_foreign(content)
    return kept


_LARGE: Final = 1 << 53  # Smaller integers have one form in all JSON encoders.


def _is_text(part: Json) -> bool:
    return not isinstance(part, dict) or part.get("type") in TEXT_PARTS


def _text_of(content: Json) -> str:
    """The text of a content, which is a string or a list of parts; other parts are left out."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return ""
    return "".join(
        part if isinstance(part, str) else str(part.get("text") or part.get("refusal") or "")
        for part in content
        if isinstance(part, str) or (isinstance(part, dict) and part.get("type") in TEXT_PARTS)
    )
