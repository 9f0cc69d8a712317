"""Fields of a reply that planloop does not read and the provider wants back: thoughts, their signatures, and the like.

DeepSeek and Moonshot want `reasoning_content` of a message with calls, Anthropic its thinking blocks, Gemini the
`extra_content` of a call, OpenRouter `reasoning_details`. A field that is unknown here goes back as it came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planloop.schemas import encoding
from planloop.schemas.encoding import Json, JsonObject

ANSWER_ONLY: Final = frozenset(
    (
        "role content tool_calls function_call refusal annotations audio images logprobs token_ids name "
        "finish_reason stop_reason usage error"
    ).split()
)
"""Fields of a message that are read here, or that no provider takes back."""

WORDS: Final = frozenset(("type", "id", "format", "role", "name", "index"))
"""Texts that come with every piece: the newest one counts. Other texts are continued."""

SEALS: Final = frozenset(("signature", "data", "thought_signature", "encrypted_content"))
"""Texts that end a block, and that come whole."""

WRITTEN: Final = frozenset(("text", "thinking", "summary", "reasoning"))
"""What is written piece by piece in a block."""


def of_message(message: JsonObject) -> JsonObject:
    """The fields of a message or a delta that go back to the provider."""
    return {name: value for name, value in message.items() if name not in ANSWER_ONLY and value not in (None, "", [])}


def joined(pieces: Sequence[Json]) -> Json:
    """One field from its pieces, in order."""
    if all(isinstance(one, str) for one in pieces):
        return "".join(pieces)
    whole = pieces[0]
    for piece in pieces[1:]:
        whole = merged(whole, piece)
    return whole


def merged(old: Json, new: Json, name: str = "") -> Json:
    """The field `name` with the piece `new` added to what came before."""
    if new in (None, "", []):
        return old
    if isinstance(old, str) and isinstance(new, str):
        if name in WORDS or (name in SEALS and new == old):
            return new
        return old + new
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {key: merged(old.get(key), value, key) for key, value in new.items()}
    if isinstance(old, list) and isinstance(new, list):
        return _lists(old, new)
    return new


def storable(extra: JsonObject) -> JsonObject:
    """What a log can hold of `extra`, by field. Halves of surrogate pairs are joined, NaN and deep nesting left out."""
    kept: JsonObject = {}
    for name, value in extra.items():
        try:
            kept[name] = encoding.decode_foreign(encoding.encode(_whole(value)))
        except (ValueError, RecursionError):
            continue
    return kept


def size_of(value: Json) -> int:
    """Characters of a field, about."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(name) + size_of(one) for name, one in value.items())
    return sum(map(size_of, value)) + 1 if isinstance(value, list) else 8


def text_whole(text: str) -> str:
    """`text` with the surrogate pairs joined that came in halves; a half without the other becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _whole(value: Json) -> Json:
    if isinstance(value, str):
        return text_whole(value)
    if isinstance(value, dict):
        return {text_whole(name): _whole(one) for name, one in value.items()}
    return [_whole(one) for one in value] if isinstance(value, list) else value


def _lists(old: list[Json], new: list[Json]) -> list[Json]:
    """Blocks: one with an index goes to that of the same index, one without continues the last while it is open."""
    blocks = list(old)
    for piece in new:
        at = _place(blocks, piece)
        if at is None:
            blocks.append(piece)
        else:
            blocks[at] = merged(blocks[at], piece)
    return blocks


def _place(blocks: list[Json], piece: Json) -> int | None:
    if not isinstance(piece, dict) or not blocks:
        return None
    if piece.get("index") is not None:
        alike = (at for at, one in enumerate(blocks) if isinstance(one, dict) and _is_same(one, piece, "index", "type"))
        return next(alike, None)
    last = blocks[-1]
    is_open = isinstance(last, dict) and not WRITTEN.isdisjoint(last) and not any(last.get(seal) for seal in SEALS)
    return len(blocks) - 1 if is_open and _is_same(last, piece, "type") and _may_be(last, piece) else None


def _is_same(one: JsonObject, other: JsonObject, *names: str) -> bool:
    return all(one.get(name) == other.get(name) for name in names)


def _may_be(last: JsonObject, piece: JsonObject) -> bool:
    """Whether two blocks have no ids that tell them apart."""
    return not (last.get("id") and piece.get("id") and last["id"] != piece["id"])
