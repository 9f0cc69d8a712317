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

# Why a reply ended, in the words of many providers; a reply that did not end well is a failed attempt.
#
# stop, length and tool_calls are the ends of an answer. What a content filter cut is reported as such. Every other word
# (error, abort, insufficient_system_resource, malformed_function_call, …) means that the reply broke.

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
FINISH_KINDS: Final[Mapping[str, str]] = {word: kind for kind, words in _WORDS.items() for word in words.split()}
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NATIVE: Final = frozenset(("malformed_function_call", "unexpected_tool_call", "malformed_response"))
"""Ends of Gemini that OpenRouter hands on as `stop`, with the word itself in `native_finish_reason`."""


def finish_kind(stated: str) -> str:
    """Which kind of end `stated` is; empty for no word at all."""
    word = _word(stated)
    return FINISH_KINDS.get(word, BROKEN) if word else ""


def stated_finish(choice: JsonObject) -> str:
    """The word for the end in a choice of a reply or a chunk; empty when it goes on."""
    found = _text(choice.get("finish_reason") or choice.get("finishReason"))
    native = choice.get("native_finish_reason")
    if native and _word(_text(native)) in _NATIVE:
        return _text(native)
    return found if found and finish_kind(found) else ""


def _text(stated: Json) -> str:
    """SGLang has an object with the word as its `type`."""
    if isinstance(stated, dict):
        stated = stated.get("type") or stated.get("reason")
    return str(stated or "")


def _word(stated: str) -> str:
    """In lower case, its parts joined by underscores."""
    word = re.sub(r"[\s-]+", "_", _HUMP.sub("_", stated.strip())).lower()
    return word.removeprefix("finish_reason_")


# Usage in tokens: read from what providers say in their different words, or estimated here.
#
# A count decides what is billed, so it is believed only as far as our own estimate allows.

BYTES_PER_TEXT_TOKEN: Final = 4
"""English prose has 4 to 5 bytes a token, code and JSON 3 to 4 with the tokenizers in use since 2023."""


INPUT_COUNT_NAMES: Final = ("prompt_tokens", "input_tokens", "promptTokenCount")
OUTPUT_COUNT_NAMES: Final = ("completion_tokens", "output_tokens", "candidatesTokenCount")
CACHE_READ_NAME: Final = "cache_read_input_tokens"


def tokens_in_text(size_bytes: int) -> int:
    """About how many tokens so many bytes of text are; errs upwards for prose."""
    return -(-size_bytes // BYTES_PER_TEXT_TOKEN)


def estimate_usage(prompt: Iterable[bytes], reply: Iterable[bytes]) -> TokenUsage:
    """Usage counted here."""
    tokens_in, tokens_out = (tokens_in_text(sum(len(one) for one in side)) for side in (prompt, reply))
    return TokenUsage(tokens_in, tokens_out, is_estimated=True)


def usage_from_raw(raw: JsonObject) -> TokenUsage:
    """Usage as a provider words it. What it keeps apart as cached or reasoning is counted into in and out.

    OpenAI has the cached tokens in `prompt_tokens_details`, DeepSeek in `prompt_cache_hit_tokens`, proxies of
    Anthropic in `cache_read_input_tokens`, which Anthropic itself and some of them leave out of the input. xAI and
    Gemini leave reasoning out of `completion_tokens` and count it in `total_tokens`.
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
    """`raw` with the counts of `before` where it has none: some state the input first and the output last."""
    missing = {
        name: before[name]
        for names in (INPUT_COUNT_NAMES, OUTPUT_COUNT_NAMES)
        if not _count(raw, *names)
        for name in names
        if _count(before, name)
    }
    return raw | missing


def counts_nothing(raw: JsonObject) -> bool:
    """Whether `raw` counts no tokens at all: some close a reply with zeros."""
    return not (_count(raw, *INPUT_COUNT_NAMES) or _count(raw, *OUTPUT_COUNT_NAMES))


def _apart(raw: JsonObject) -> int:
    """Cached tokens that are not part of the input stated."""
    read, stated = _count(raw, CACHE_READ_NAME), _count(raw, *INPUT_COUNT_NAMES)
    is_anthropics = "input_tokens" in raw and "prompt_tokens" not in raw
    return read + _count(raw, "cache_creation_input_tokens") if is_anthropics or read > stated else 0


def plausible_usage(raw: JsonObject, counted: TokenUsage) -> TokenUsage:
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
    return TokenUsage(tokens_in, tokens_out, cached, reasoning, raw, is_estimated=True)


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


# A reply put together from the pieces of a stream, or from a whole message, however a provider shapes it.
#
# Text, tool calls (`planloop.controllers.agent.models.reply_pieces`), the fields that go back to the provider
# (`planloop.controllers.agent.models.reply_pieces`), usage and how it ended.

TEXT_PARTS: Final = (None, "text", "output_text", "input_text", "refusal")
REPEATED_TEXT_CHARS: Final = 16
"""From this length on, a last piece of text that equals all before it says it again; a shorter one may be a "ha"."""


class ReplyTooLong(ValueError):
    """More than any model writes in one reply: everything that keeps it would swell."""


class ReplyAssembly:
    """One reply as it arrives: `text` and `calls` so far, and `finish` in the provider's own word."""

    def __init__(self) -> None:
        self.finish = ""
        self.ends = 0  # Pieces that stated an end: one that every piece states says nothing.
        self._stated: list[JsonObject] = []  # The newest two words on usage.
        self._text: list[str] = []
        self._parts: list[Json] | None = None  # Of a content that is not only text.
        self._size = 0  # Characters of text, arguments and extra fields.
        self._calls = PartialCalls()
        self._extra: dict[str, list[Json]] = {}  # Each field in its pieces.

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
        return self._said() is not None

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """In the order in which they began. Pieces without any name are noise."""
        return tuple(
            ModelCall(one.id, one.name, arguments, {} if at else one.extra)
            for one in self._calls.all
            if one.has_begun
            for at, arguments in enumerate(intended_arguments(one.whole_arguments))
        )

    def take(self, chunk: JsonObject) -> str:
        """Adds one chunk of a stream, or a whole answer; the new text.

        Raises ValueError for one of another shape, ReplyTooLong for one too many.
        """
        # Once for every token: what most chunks do not have is looked for by its name alone.
        if "usage" in chunk or "x_groq" in chunk:
            self._take_usage(chunk)
            self._take_usage(chunk.get("x_groq"))
        choices = chunk.get("choices")
        if not choices:
            return ""
        choice = choices[0] if isinstance(choices, list) else None
        if not isinstance(choice, dict):
            raise ValueError("`choices` is no list of objects")
        delta = choice.get("delta") or self._without_delta(choice)
        if not isinstance(delta, dict):
            raise ValueError("a delta is no object")
        for holder in (choice, delta):
            if holder.get("finish_reason") or "finishReason" in holder or "usage" in holder:
                self._take_end(holder)
        text = self._take_delta(delta, is_last=bool(self.finish) and self.ends <= limits.REPLY_ENDS_MAX)
        if len(choices) > 1:  # Copilot has the text in the first choice and the calls in the next one.
            self._take_calls_beside(choices[1:])
        return text

    def _without_delta(self, choice: JsonObject) -> Json:
        """What a choice has in place of a delta: a whole message, or the text of the older API of completions."""
        if "message" in choice and self._is_blank:  # Beside deltas, a message says everything again.
            message = choice["message"] or {}
            if self._extra and isinstance(message, dict):
                return {name: value for name, value in message.items() if name not in self._extra}
            return message
        return {"content": choice["text"]} if isinstance(choice.get("text"), str) else {}

    def _take_end(self, holder: JsonObject) -> None:
        """Takes how a choice or a delta says that the reply ended, and its usage."""
        self._take_usage(holder)
        stated = stated_finish(holder)
        self.ends += bool(stated)
        self.finish = stated or self.finish

    def reply(self, prompt: Iterable[bytes]) -> ModelReply:
        """The reply, complete. Usage that is missing or absurd is estimated over `prompt` and what was written."""
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
        said = self._said()
        return counted if said is None else plausible_usage(said, counted)

    @property
    def _is_blank(self) -> bool:
        return not (self._text or self._calls.all)

    def _kept_extra(self) -> JsonObject:
        fields = {name: reply_pieces.join_field(pieces) for name, pieces in self._extra.items()}
        if self._parts is not None and not all(_is_text(part) for part in self._parts):
            fields["content"] = reply_pieces.merge_field([], self._parts)
        return reply_pieces.storable_fields(fields) if fields else {}

    def _said(self) -> JsonObject | None:
        """The last word of the provider on usage that a log can hold, with counts that only the one before has."""
        kept: list[JsonObject] = []
        for raw in reversed(self._stated):
            with suppress(ValueError):
                kept.append(_kept(raw))
        return fill_counts(kept[0], kept[-1]) if kept else None

    def _take_usage(self, holder: Json) -> None:
        """Some say it once, some with every chunk, some once more with zeros."""
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
            content = None  # All of it once more, with the end.
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
        raw = delta.get("tool_calls") or [{"function": delta["function_call"]}]  # The older word for a single call.
        if isinstance(raw, dict) and ("function" in raw or "name" in raw):
            raw = [raw]
        if not isinstance(raw, list):
            raise ValueError("`tool_calls` is no list")
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
    """`raw` as a log can hold it. Raises ValueError for NaN and the like, and for more than a count needs."""
    if len(raw) < limits.USAGE_BYTES_MAX // 64 and all(
        type(count) is int and name.isascii() and abs(count) < _LARGE for name, count in raw.items()
    ):
        return raw
    content = canonical_json.encode(raw)
    if len(content) > limits.USAGE_BYTES_MAX:
        raise ValueError("it is no count of tokens")
    kept: JsonObject = canonical_json.decode_foreign(content)
    return kept


_LARGE: Final = 1 << 53  # Numbers below it are printed in one form everywhere.


def _is_text(part: Json) -> bool:
    return not isinstance(part, dict) or part.get("type") in TEXT_PARTS


def _text_of(content: Json) -> str:
    """Text as a string or as a list of parts; parts that are no text are not for the transcript."""
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
