"""A reply put together from the pieces of a stream, however a provider cuts it.

A tool call goes by its index and its id. Providers are known to send index 0 for all calls, no index, the id only
once, in every piece or never, several calls in one piece, and the head of a call again; a call must never swallow the
next one. Arguments stay the text that the model wrote: whether they are JSON is for whoever runs the call.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from controllers.agent.models.port import ModelCall, ModelReply, Usage
from controllers.agent.models.usage import estimated, usage_from_raw
from schemas import encoding, limits
from schemas.encoding import Json, JsonObject

FINISHES: Final = {
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}


class TooLong(ValueError):
    """More than any model writes in one reply: everything that keeps it would swell."""


class _Call:
    """One tool call so far."""

    __slots__ = ("arguments", "id", "index", "name")

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments = ""

    @property
    def has_begun(self) -> bool:
        """Whether more than (a part of) its id is known."""
        return bool(self.name or self.arguments)

    @property
    def is_whole(self) -> bool:
        """Whether its arguments are a JSON value: what comes next can only be another call."""
        try:
            encoding.decode(self.arguments)
        except ValueError:
            return False
        return True

    def is_followed_by(self, id_: str, name: str, arguments: str) -> bool:
        """Whether a piece at the same place is the head of another call."""
        if id_ and self.id and id_ != self.id and self.has_begun:
            return True
        if not name or not self.arguments:
            return False  # Without arguments so far, a name can only be more of this one.
        if name == self.name and id_ and not arguments:
            return False  # The head once more, to close the call.
        return self.is_whole or name != self.name

    def take(self, id_: str, name: str, arguments: str) -> None:
        """Adds a piece: ids and names may come in parts too, and heads again."""
        is_again = bool(id_) and id_ == self.id and self.has_begun
        if not self.has_begun:
            self.id += "" if name and id_ == self.id else id_
        elif not self.id:
            self.id = id_
        if name != self.name or not (is_again or self.arguments or arguments):
            self.name += name
        self.arguments += arguments


class Assembly:
    """One reply as it arrives. `text` and `calls` are what is there so far."""

    def __init__(self) -> None:
        self.finish = ""
        self._stated: list[JsonObject] = []  # The newest two words on usage.
        self._text: list[str] = []
        self._size = 0  # Characters of text and arguments.
        self._calls: list[_Call] = []

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written, and nobody says that it cost anything."""
        return not self._text and not self._calls and self._said() is None

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """In the order in which they began. Pieces without any name are noise."""
        return tuple(ModelCall(one.id, one.name, one.arguments) for one in self._calls if one.has_begun)

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
        if "usage" in choice:
            self._take_usage(choice)
        if choice.get("finish_reason"):
            self.finish = str(choice["finish_reason"])
        return self._take_delta(choice.get("delta") or choice.get("message") or {})

    def reply(self, prompt: Iterable[bytes]) -> ModelReply:
        """The reply, complete. Usage that nobody stated is estimated over `prompt` and what was written."""
        calls = tuple(ModelCall(*map(_whole, (one.id, one.name, one.arguments))) for one in self.calls)
        finish = FINISHES.get(self.finish, "tool_calls" if calls else "stop")
        return ModelReply(_whole(self.text), calls, self.usage(prompt), finish)

    def usage(self, prompt: Iterable[bytes]) -> Usage:
        """What it costs so far."""
        said = self._said()
        if said is not None:
            return usage_from_raw(said)
        written = [self.text, *(one.name + one.arguments for one in self._calls)]
        return estimated(prompt, (text.encode(errors="replace") for text in written))

    def _said(self) -> JsonObject | None:
        """The last word of the provider on usage that a log can hold."""
        for raw in reversed(self._stated):
            with suppress(ValueError):
                return _kept(raw)
        return None

    def _take_usage(self, holder: Json) -> None:
        """Some say it once, some with every chunk."""
        if isinstance(holder, dict) and isinstance(holder.get("usage"), dict) and holder["usage"]:
            self._stated = [*self._stated[-1:], holder["usage"]]

    def _take_delta(self, delta: Json) -> str:
        if not isinstance(delta, dict):
            raise ValueError("a delta is no object")
        content = delta.get("content")
        text = content if isinstance(content, str) else _text_of(content)
        if not text and "refusal" in delta:
            text = _text_of(delta["refusal"])
        if text:
            self._count(text)
            self._text.append(text)
        calls = delta.get("tool_calls")
        if not calls:
            return text
        if not isinstance(calls, list):
            raise ValueError("`tool_calls` is no list")
        for piece in calls:
            self._take_call(piece)
        return text

    def _take_call(self, piece: Json) -> None:
        function = piece.get("function") if isinstance(piece, dict) else None
        if not isinstance(piece, dict) or not isinstance(function, dict | None):
            raise ValueError("a tool call is no object")
        function = function or {}
        id_, name = piece.get("id") or "", function.get("name") or ""
        arguments = function.get("arguments")
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            arguments = encoding.encode_text(arguments)  # Some servers send the value itself.
        head = str(id_), str(name), arguments
        self._count(*head)
        self._call_for(piece.get("index"), *head).take(*head)

    def _call_for(self, index: int | None, id_: str, name: str, arguments: str) -> _Call:
        """The call that a piece belongs to: at its index the newest, without an index the one with its id."""
        if index is not None:
            found = next((one for one in reversed(self._calls) if one.index == index), None)
        elif id_:
            found = next((one for one in reversed(self._calls) if one.id == id_), None)
        else:
            found = self._calls[-1] if self._calls else None
        if found is None or found.is_followed_by(id_, name, arguments):
            found = _Call(index)
            self._calls.append(found)
        return found

    def _count(self, *written: str) -> None:
        self._size += sum(map(len, written))
        if self._size > limits.MODEL_REPLY_CHARS_MAX:
            raise TooLong(f"its reply is longer than {limits.MODEL_REPLY_CHARS_MAX} characters")


def _kept(raw: JsonObject) -> JsonObject:
    """`raw` as a log can hold it. Raises ValueError for NaN and the like."""
    if all(type(count) is int and name.isascii() for name, count in raw.items()):
        return raw
    kept: JsonObject = encoding.decode_foreign(encoding.encode(raw))
    return kept


def _whole(text: str) -> str:
    """`text` with the surrogate pairs joined that came in halves; a half without the other becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _text_of(content: Json) -> str:
    """Text as a string or as a list of parts; parts that are no text are not for the transcript."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
