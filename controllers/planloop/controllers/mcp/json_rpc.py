"""Parse JSON-RPC as tool servers really write it: a line or body in, well-formed messages out. Pure.

Servers print NaN, halves of surrogate pairs, control characters, two messages on one line, log lines between them, and
answers that break off. What can be read is read. An answer that cannot be read is `UnreadableMessage`, which still says
which request it belongs to, as far as that can be seen.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from planloop.reconciler.effects.truncate import truncate_output
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject

VERSION: Final = "2.0"
PARSE_ERROR: Final = -32700
UNKNOWN_ERROR: Final = -32603
NOT_SENT: Final = -32090
"""Error code of planloop: no server was reached, so nothing was sent."""
NO_SESSION: Final = -32091
"""Error code of planloop: the server does not know the session, so it did not process the request."""
OURS: Final = frozenset({-32000, -32001, NOT_SENT, NO_SESSION})
"""Codes by which the SDK and we know a broken connection and a timeout; servers use some of them for any error."""
_PLACE: Final = re.compile(r'"(?:jsonrpc|id|result|error)"\s*:')
_ID: Final = re.compile(r'"id"\s*:\s*(-?\d{1,18}|"(?:[^"\\]|\\.){0,200}")')
_LAST_ID: Final = re.compile(
    r'"id"\s*:\s*(-?\d{1,18}|"(?:[^"\\]|\\.){0,200}")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?}\s*$'
)
_ENVELOPE: Final = re.compile(r'[{\[][{\[\s]*"(?:jsonrpc|id|result|error|method)"\s*:')
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_BARE: Final = frozenset({"id", "result", "error"})  # The members of an answer that does not say its version.
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\]]', re.DOTALL)  # A text may break off: no second look at it.
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_TAIL_CHARS: Final = 400  # In which the id of a long answer is looked for when it does not begin with it.

Id: TypeAlias = int | str


class UnreadableMessage(Exception):
    """An answer that is not JSON. `text` is its beginning, `why` is the error.

    `id` is the id of its request, None if that cannot be seen.
    """

    def __init__(self, text: str, why: str, id_: Id | None) -> None:
        super().__init__(why)
        self.text = text
        self.why = why
        self.id = id_


ReadMessage: TypeAlias = JsonObject | UnreadableMessage


def read_messages(line: bytes, dropped: int = 0) -> tuple[list[ReadMessage], str]:
    """Return the messages in `line`, and the other text in it.

    `dropped` is the number of bytes that were left out in the middle of a line that was too long.
    """
    text = line.decode(errors="replace").lstrip("\ufeff")
    if dropped:
        return ([_too_long(text, dropped)], "") if _ENVELOPE.match(text) else ([], _shown(text))
    found: list[ReadMessage] = []
    noise: list[str] = []
    at = 0
    while at < len(text):
        begin = _begin_of(text, at)
        noise.append(text[at:begin])
        at, read_here = _one(text, begin)
        found += read_here
        noise += [] if read_here else [text[begin:at]]
    return found, " ".join(part.strip() for part in noise if part.strip())


def _begin_of(text: str, at: int) -> int:
    """Where the next value may begin: at a bracket, and after noise at one that looks like an envelope."""
    begin = _BLANK.match(text, at)
    at = at if begin is None else begin.end()
    return at if text[at : at + 1] in ("{", "[", "") else _next_envelope(text, at)


def _next_envelope(text: str, at: int) -> int:
    found = _ENVELOPE.search(text, at)
    return len(text) if found is None else found.start()


def _one(text: str, begin: int) -> tuple[int, list[ReadMessage]]:
    """The end of the value that begins there, and the messages in it."""
    if begin == len(text):
        return begin, []
    try:
        value, end = _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError) as error:
        if _ENVELOPE.match(text, begin):
            return len(text), _broken(text[begin:], error)
        return _next_envelope(text, begin + 1), []
    return end, [message for one in (value if isinstance(value, list) else [value]) for message in _message(one)]


def _whole(digits: str) -> Json:
    return int(digits) if len(digits) <= limits.SERVER_INTEGER_DIGITS_MAX else digits


_DECODER: Final = json.JSONDecoder(strict=False, parse_int=_whole)


def _broken(text: str, error: Exception) -> list[ReadMessage]:
    """Return an answer that cannot be parsed; other invalid text is ignored."""
    if not _PLACE.search(text):
        return []
    why = "it is nested too deeply" if isinstance(error, RecursionError) else f"it is not JSON: {_place(error)}"
    return [UnreadableMessage(_shown(text), why, find_id(text))]


def _place(error: Exception) -> str:
    return (
        f"{error.msg.removesuffix(' at')} at character {error.pos}"
        if isinstance(error, json.JSONDecodeError)
        else str(error)
    )


def _too_long(text: str, dropped: int) -> UnreadableMessage:
    size_bytes = len(text.encode()) + dropped
    why = f"it has {size_bytes} bytes, and the most is {limits.SERVER_MESSAGE_BYTES_MAX}"
    return UnreadableMessage(_shown(text), why, find_id(text))


def _shown(text: str) -> str:
    return truncate_output(valid_text(text).encode(), limits.FILE_SHOWN_BYTES)


def find_id(text: str) -> Id | None:
    """Return the id of the answer `text`, which may be incomplete JSON; None if it has none.

    Only a member of the envelope counts, so that an `id` inside a result is not taken for it.
    """
    end = text[-_TAIL_CHARS:]
    found = _ID.match(text, _outer(text)) or _LAST_ID.search(end)
    if found is None:
        return None
    digits = found[1]
    return digits[1:-1] if digits.startswith('"') else int(digits)


def _outer(text: str) -> int:
    """The place of the envelope's `"id"`, or the end of the text."""
    depth, at, head = 0, 0, text[: limits.FILE_SHOWN_BYTES]
    while (found := _TOKEN.search(head, at)) is not None:
        word, at = found[0], found.end()
        if word in "{[":
            depth += 1
        elif word in "}]":
            depth -= 1
        elif depth == 1 and word == '"id"' and _ID.match(text, found.start()):
            return found.start()
    return len(text)


def _message(value: Json) -> Iterator[ReadMessage]:
    """Return `value` as a JSON-RPC message; empty if it is not one, such as a line of a log."""
    if not isinstance(value, dict) or not ("jsonrpc" in value or _BARE.issuperset(value)):
        return
    id_ = _id(value.get("id"))
    method, result, error = value.get("method"), value.get("result"), value.get("error")
    if isinstance(method, str):
        params = value.get("params")
        head: JsonObject = {"jsonrpc": VERSION, "method": valid_text(method)}
        head |= {"params": without_nan(clean_json(params))} if isinstance(params, dict) else {}
        yield head if id_ is None else head | {"id": id_}
    elif error is not None and (result is None or not isinstance(error, bool)):
        yield {"jsonrpc": VERSION, "id": id_, "error": _error(without_nan(clean_json(error)))}
    elif "result" in value and id_ is not None:
        yield {"jsonrpc": VERSION, "id": id_, "result": _result(clean_json(result))}
    elif id_ is not None:
        yield UnreadableMessage(_shown(json.dumps(value)), "it has neither a result nor an error", id_)


def _id(value: Json) -> Id | None:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def _result(value: Json) -> JsonObject:
    """A result is an object; another value is its content."""
    if value is None:
        return {}
    return value if isinstance(value, dict) else {"content": value}


def _error(value: Json) -> JsonObject:
    known = value if isinstance(value, dict) else {"message": value}
    code, message = known.get("code"), known.get("message")
    words = message if isinstance(message, str) and message else json.dumps(message if message is not None else value)
    try:
        number = int(code) if isinstance(code, int | float | str) else UNKNOWN_ERROR
    except (ValueError, OverflowError):
        number = UNKNOWN_ERROR
    number = UNKNOWN_ERROR if number in OURS else number
    data: JsonObject = {"data": known["data"]} if known.get("data") is not None else {}
    return {"code": number, "message": words, **data}


def valid_text(text: str) -> str:
    """`text` without halves of surrogate pairs, which no UTF-8 can hold."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def clean_json(value: Json, depth: int = 0) -> Json:
    """`value` with sound texts and keys, and text where it is nested more deeply than anything of ours is."""
    match value:
        case str():
            return valid_text(value)
        case dict() | list() if depth >= limits.FOREIGN_DEPTH_MAX:
            return "[nested too deeply: left out]"
        case dict():
            return {valid_text(key): clean_json(item, depth + 1) for key, item in value.items()}
        case list():
            return [clean_json(item, depth + 1) for item in value]
        case _:
            return value


def without_nan(value: Json) -> Json:
    """`value` with text in place of NaN and infinities, which no log can hold."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {key: without_nan(item) for key, item in value.items()}
        case list():
            return [without_nan(item) for item in value]
        case _:
            return value


def without_nulls(value: Json) -> Json:
    """`value` without members that are null: the protocol leaves out what there is not."""
    match value:
        case dict():
            return {key: without_nulls(item) for key, item in value.items() if item is not None}
        case list():
            return [without_nulls(item) for item in value]
        case _:
            return value
