"""A reply put together from the pieces of a stream, or from a whole message, however a provider shapes it.

Text, tool calls (`call_pieces.py`), the fields that go back to the provider (`extras.py`), usage and how it ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from planloop.controllers.agent.models import extras, finishes
from planloop.controllers.agent.models.call_pieces import Calls, meant, piece_of
from planloop.controllers.agent.models.port import ModelCall, ModelFailed, ModelReply, Usage
from planloop.controllers.agent.models.usage import checked, estimated, filled, is_nothing
from planloop.schemas import encoding, limits
from planloop.schemas.encoding import Json, JsonObject

TEXT_PARTS: Final = (None, "text", "output_text", "input_text", "refusal")
SAID_AGAIN_CHARS: Final = 16
"""From this length on, a last piece of text that equals all before it says it again; a shorter one may be a "ha"."""


class TooLong(ValueError):
    """More than any model writes in one reply: everything that keeps it would swell."""


class Assembly:
    """One reply as it arrives: `text` and `calls` so far, and `finish` in the provider's own word."""

    def __init__(self) -> None:
        self.finish = ""
        self.ends = 0  # Pieces that stated an end: one that every piece states says nothing.
        self._stated: list[JsonObject] = []  # The newest two words on usage.
        self._text: list[str] = []
        self._parts: list[Json] | None = None  # Of a content that is not only text.
        self._size = 0  # Characters of text, arguments and extra fields.
        self._calls = Calls()
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
            for at, arguments in enumerate(meant(one.whole_arguments))
        )

    def take(self, chunk: JsonObject) -> str:
        """Adds one chunk of a stream, or a whole answer; the new text.

        Raises ValueError for one of another shape, TooLong for one too many.
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
        stated = finishes.stated_in(holder)
        self.ends += bool(stated)
        self.finish = stated or self.finish

    def reply(self, prompt: Iterable[bytes]) -> ModelReply:
        """The reply, complete. Usage that is missing or absurd is estimated over `prompt` and what was written."""
        whole = extras.text_whole
        calls = tuple(
            ModelCall(whole(one.id), whole(one.name), whole(one.arguments), extras.storable(one.extra))
            for one in self.calls
        )
        finish = finishes.kind_of(self.finish) or (finishes.CALLS if calls else finishes.STOP)
        if calls and finish == finishes.STOP:
            finish = finishes.CALLS
        return ModelReply(whole(self.text), calls, self.usage(prompt), finish, self._kept_extra())

    def failure(self, who: str, prompt: Iterable[bytes]) -> ModelFailed | None:
        """Why a complete reply from `who` is not an answer: a content filter, or an invalid finish reason."""
        kind = finishes.kind_of(self.finish)
        if kind == finishes.FILTERED:
            text = f"{who} cut the reply with its content filter (`{self.finish}`)"
            return ModelFailed("Filtered", text, is_transient=True, usage=self.usage(prompt))
        if kind == finishes.BROKEN:
            shown = self.finish[: limits.VALUE_SHOWN_CHARS]
            text = f"{who} ended the reply before it was complete, with the finish reason `{shown}`"
            return ModelFailed("CutOff", text, is_transient=True, usage=self.usage(prompt))
        return None

    def usage(self, prompt: Iterable[bytes]) -> Usage:
        """Usage so far: the provider's count if it is plausible, otherwise our estimate."""
        written = [self.text, *(one.name + one.arguments for one in self._calls.all)]
        counted = estimated(prompt, (text.encode(errors="replace") for text in written))
        said = self._said()
        return counted if said is None else checked(said, counted)

    @property
    def _is_blank(self) -> bool:
        return not (self._text or self._calls.all)

    def _kept_extra(self) -> JsonObject:
        fields = {name: extras.joined(pieces) for name, pieces in self._extra.items()}
        if self._parts is not None and not all(_is_text(part) for part in self._parts):
            fields["content"] = extras.merged([], self._parts)
        return extras.storable(fields) if fields else {}

    def _said(self) -> JsonObject | None:
        """The last word of the provider on usage that a log can hold, with counts that only the one before has."""
        kept: list[JsonObject] = []
        for raw in reversed(self._stated):
            with suppress(ValueError):
                kept.append(_kept(raw))
        return filled(kept[0], kept[-1]) if kept else None

    def _take_usage(self, holder: Json) -> None:
        """Some say it once, some with every chunk, some once more with zeros."""
        raw = holder.get("usage") if isinstance(holder, dict) else None
        if isinstance(raw, dict) and raw and not (self._stated and is_nothing(raw)):
            self._stated = [*self._stated[-1:], raw]

    def _take_calls_beside(self, others: list[Json]) -> None:
        for choice in others:
            message = (choice.get("delta") or choice.get("message")) if isinstance(choice, dict) else None
            if isinstance(message, dict) and message.get("tool_calls") and not self._calls.all:
                self._take_calls(message)

    def _take_delta(self, delta: JsonObject, *, is_last: bool) -> str:
        content = delta.get("content")
        if is_last and content and len(text := _text_of(content)) >= SAID_AGAIN_CHARS and text == self.text:
            content = None  # All of it once more, with the end.
        text = self._take_content(content) if content else ""
        if not text and delta.get("refusal"):
            text = _text_of(delta["refusal"])
        if text:
            self._count(len(text))
            self._text.append(text)
        if delta.keys() - extras.ANSWER_ONLY:
            self._take_extra(extras.of_message(delta))
        if delta.get("tool_calls") or delta.get("function_call"):
            self._take_calls(delta)
        return text

    def _take_content(self, content: Json) -> str:
        if isinstance(content, str):
            if content and self._parts is not None:
                self._parts = extras.merged(self._parts, [{"type": "text", "text": content}])
            return content
        if isinstance(content, list) and content:
            if self._parts is None:
                self._parts = [{"type": "text", "text": self.text}] if self._text else []
            self._count(extras.size_of(content))
            self._parts = extras.merged(self._parts, content)
        return _text_of(content)

    def _take_extra(self, fields: JsonObject) -> None:
        for name, value in fields.items():
            self._count(len(name) + extras.size_of(value))
            self._extra.setdefault(name, []).append(value)

    def _take_calls(self, delta: JsonObject) -> None:
        raw = delta.get("tool_calls") or [{"function": delta["function_call"]}]  # The older word for a single call.
        if isinstance(raw, dict) and ("function" in raw or "name" in raw):
            raw = [raw]
        if not isinstance(raw, list):
            raise ValueError("`tool_calls` is no list")
        pieces = [piece_of(one) for one in raw if one is not None]
        for piece in pieces:
            self._count(len(piece.id) + len(piece.name) + len(piece.arguments) + extras.size_of(piece.extra))
        self._calls.take_all(pieces)

    def _count(self, written: int) -> None:
        self._size += written
        if self._size > limits.MODEL_REPLY_CHARS_MAX:
            raise TooLong(f"its reply is longer than {limits.MODEL_REPLY_CHARS_MAX} characters")


def _kept(raw: JsonObject) -> JsonObject:
    """`raw` as a log can hold it. Raises ValueError for NaN and the like, and for more than a count needs."""
    if len(raw) < limits.USAGE_BYTES_MAX // 64 and all(
        type(count) is int and name.isascii() and abs(count) < _LARGE for name, count in raw.items()
    ):
        return raw
    content = encoding.encode(raw)
    if len(content) > limits.USAGE_BYTES_MAX:
        raise ValueError("it is no count of tokens")
    kept: JsonObject = encoding.decode_foreign(content)
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
