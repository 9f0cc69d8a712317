"""Join the pieces of a streamed reply: tool calls, and fields that must be sent back to the provider."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from planloop.schemas import canonical_json
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen

# Fields of a reply that planloop does not read and that the provider requires back, such as thoughts and signatures.
#
# DeepSeek and Moonshot require the `reasoning_content` of messages with calls, Anthropic its thinking blocks, Gemini
# the `extra_content` of calls, OpenRouter `reasoning_details`. Unknown fields are sent back unchanged.

ANSWER_ONLY_FIELDS: Final = frozenset(
    (
        "role content tool_calls function_call refusal annotations audio images logprobs token_ids name "
        "finish_reason stop_reason usage error"
    ).split()
)
"""Fields of a message that planloop reads, or that no provider accepts back."""

REPLACED_TEXTS: Final = frozenset(("type", "id", "format", "role", "name", "index"))
"""Texts that are repeated in every piece: the newest one counts. Other texts are continued."""

BLOCK_ENDINGS: Final = frozenset(("signature", "data", "thought_signature", "encrypted_content"))
"""Texts that end a block and are sent in one piece."""

STREAMED_TEXTS: Final = frozenset(("text", "thinking", "summary", "reasoning"))
"""Texts of a block that are streamed in pieces."""


def fields_to_return(message: JsonObject) -> JsonObject:
    """The fields of a message or delta that must be sent back to the provider."""
    return {
        name: value for name, value in message.items() if name not in ANSWER_ONLY_FIELDS and value not in (None, "", [])
    }


def join_field(pieces: Sequence[Json]) -> Json:
    """One field from its pieces, in order."""
    if all(isinstance(one, str) for one in pieces):
        return "".join(pieces)
    whole = pieces[0]
    for piece in pieces[1:]:
        whole = merge_field(whole, piece)
    return whole


def merge_field(old: Json, new: Json, name: str = "") -> Json:
    """The value `old` of the field `name` with the piece `new` added."""
    if new in (None, "", []):
        return old
    if isinstance(old, str) and isinstance(new, str):
        if name in REPLACED_TEXTS or (name in BLOCK_ENDINGS and new == old):
            return new
        return old + new
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {key: merge_field(old.get(key), value, key) for key, value in new.items()}
    if isinstance(old, list) and isinstance(new, list):
        return _lists(old, new)
    return new


def storable_fields(extra: JsonObject) -> JsonObject:
    """The fields of `extra` that a log can store: surrogate pairs are joined, NaN and deep nesting are left out."""
    kept: JsonObject = {}
    for name, value in extra.items():
        try:
            kept[name] = canonical_json.decode_foreign(canonical_json.encode(_whole(value)))
        except (ValueError, RecursionError):
            continue
    return kept


def field_size_chars(value: Json) -> int:
    """The approximate number of characters of a field."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(name) + field_size_chars(one) for name, one in value.items())
    return sum(map(field_size_chars, value)) + 1 if isinstance(value, list) else 8


def join_surrogates(text: str) -> str:
    """`text` with halves of surrogate pairs joined; a half without the other becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _whole(value: Json) -> Json:
    if isinstance(value, str):
        return join_surrogates(value)
    if isinstance(value, dict):
        return {join_surrogates(name): _whole(one) for name, one in value.items()}
    return [_whole(one) for one in value] if isinstance(value, list) else value


def _lists(old: list[Json], new: list[Json]) -> list[Json]:
    """Lists of blocks: a piece with an index continues the block of that index, another piece the last open block."""
    blocks = list(old)
    for piece in new:
        at = _place(blocks, piece)
        if at is None:
            blocks.append(piece)
        else:
            blocks[at] = merge_field(blocks[at], piece)
    return blocks


def _place(blocks: list[Json], piece: Json) -> int | None:
    if not isinstance(piece, dict) or not blocks:
        return None
    if piece.get("index") is not None:
        alike = (at for at, one in enumerate(blocks) if isinstance(one, dict) and _is_same(one, piece, "index", "type"))
        return next(alike, None)
    last = blocks[-1]
    is_open = (
        isinstance(last, dict)
        and not STREAMED_TEXTS.isdisjoint(last)
        and not any(last.get(seal) for seal in BLOCK_ENDINGS)
    )
    return len(blocks) - 1 if is_open and _is_same(last, piece, "type") and _may_be(last, piece) else None


def _is_same(one: JsonObject, other: JsonObject, *names: str) -> bool:
    return all(one.get(name) == other.get(name) for name in names)


def _may_be(last: JsonObject, piece: JsonObject) -> bool:
    """Whether two blocks may be the same: they do not have different ids."""
    return not (last.get("id") and piece.get("id") and last["id"] != piece["id"])


# Tool calls from the pieces of a stream.
#
# A piece belongs to a call by its index, its id, or its position. Providers differ: index 0 for all calls, another
# index in each piece, or none; an id once, in every piece, a new one each time, or never; a repeated head of a call;
# `{}` or `null` before the arguments. Two rules decide: two calls are never joined into one, and a piece without a name
# never begins a call after the first one. Arguments stay the text that the model wrote.

EMPTY_ARGUMENTS: Final = frozenset({"{}", "null"})
"""Arguments that mean none; the real ones may follow."""

EMPTY_ARGUMENTS_CHARS: Final = 16  # Including blanks. Longer arguments are not checked for being empty.
ARGUMENT_ALIASES: Final = ("input", "parameters")
"""Other names of the arguments, of Anthropic and Llama."""

KNOWN_MEMBERS: Final = frozenset({"index", "id", "type", "function", "name", "arguments", *ARGUMENT_ALIASES})

_DECODER: Final = json.JSONDecoder()
_AFTER: Final = re.compile(r"(?:[\s}\]`]|</?[\w:]+>|<\|[^|>]*\|>)*")
"""Text that models write after arguments: an extra brace, or the end mark of a call in their own notation."""


@frozen
class CallPiece:
    """One member of `tool_calls`, in a delta or a whole message. `index` is the provider's number of the call."""

    index: int | str | None
    id: str
    name: str
    arguments: str
    extra: JsonObject

    @property
    def says_nothing(self) -> bool:
        return not (self.id or self.name or self.arguments or self.extra)

    @property
    def is_nameless(self) -> bool:
        return self.index is None and not (self.id or self.name)


def parse_piece(raw: Json) -> CallPiece:
    """One member of `tool_calls`. Raises ValueError if it is malformed."""
    if not isinstance(raw, dict):
        raise ValueError("a tool call is not an object")
    function = raw.get("function")
    if function is None:
        function = {name: raw[name] for name in ("name", "arguments", *ARGUMENT_ALIASES) if name in raw}
    if not isinstance(function, dict):
        raise ValueError("a tool call is not an object")
    arguments = function.get("arguments")
    if "arguments" not in function:
        arguments = next(
            (function[name] for name in ARGUMENT_ALIASES if isinstance(function.get(name), str | dict)), None
        )
    if not isinstance(arguments, str):  # Some servers send the value itself.
        arguments = "" if arguments is None else canonical_json.encode_text(arguments)
    extra = {name: value for name, value in raw.items() if name not in KNOWN_MEMBERS and value not in (None, "")}
    inner = {name: value for name, value in function.items() if name not in KNOWN_MEMBERS and value not in (None, "")}
    head = str(raw.get("id") or ""), str(function.get("name") or "")
    return CallPiece(_index_of(raw.get("index")), *head, arguments, extra | ({"function": inner} if inner else {}))


class PartialCall:
    """One tool call so far."""

    __slots__ = ("_first", "_last", "arguments", "extra", "id", "index", "name")

    def __init__(self, index: int | str | None) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments = ""
        self.extra: JsonObject = {}
        self._first = ""  # The first piece of the arguments, and the newest.
        self._last = ""

    @property
    def whole_arguments(self) -> str:
        """The complete arguments. If each piece repeats all arguments so far, these are the last piece."""
        is_snapshot = self._last != self._first and self._last.startswith(self._first)
        return self._last if is_snapshot and _is_json(self._last) and not _is_json(self.arguments) else self.arguments

    @property
    def has_begun(self) -> bool:
        """Whether its name or arguments have begun."""
        return bool(self.name or self.arguments)

    @property
    def is_whole(self) -> bool:
        """Whether its arguments are a complete JSON value, so that the next piece can only begin another call."""
        if not self.arguments or _is_empty(self.arguments):
            return False
        try:
            canonical_json.decode(self.arguments)
        except ValueError:
            return False
        return True

    def is_followed_by(self, piece: CallPiece) -> bool:
        """Whether a piece at the same index begins another call."""
        has_other_id = bool(piece.id and self.id and piece.id != self.id and self.has_begun)
        if not self.name or self._is_all_of(piece):  # The name comes late, or the piece repeats the whole call.
            return has_other_id and bool(piece.name)
        if not piece.name:  # The head of a call whose name comes later, or more of this call with another id.
            return has_other_id and not piece.arguments and self.is_whole
        if has_other_id:
            return piece.name != self.name or not self._continues_with(piece)
        if not self.arguments:
            return False  # Before any arguments, a name can only continue this call.
        if piece.name == self.name and piece.id and not piece.arguments:
            return False  # The head is repeated to end the call.
        if _is_empty(self.arguments) and piece.id != self.id:
            return True  # Two calls without arguments and without ids.
        return self.is_whole or piece.name != self.name

    def _is_all_of(self, piece: CallPiece) -> bool:
        """Whether `piece` repeats the whole call, with its id, name and arguments."""
        is_alike = bool(piece.id) and (piece.id, piece.name) == (self.id, self.name)
        return is_alike and bool(piece.arguments) and piece.arguments == self.arguments and self.is_whole

    def _continues_with(self, piece: CallPiece) -> bool:
        """Whether a head with the same name and another id continues the arguments; a `{` begins a new call's."""
        if self.arguments and not (_is_empty(self.arguments) or self.is_whole):
            return not piece.arguments.lstrip().startswith("{")
        return bool(piece.arguments) and not self.arguments and not _is_json(piece.arguments)

    def take(self, piece: CallPiece) -> None:
        """Add a piece. Ids and names may also come in parts, and heads may be repeated."""
        is_again = bool(piece.id) and piece.id == self.id and self.has_begun
        if not self.has_begun:
            self.id += "" if piece.name and piece.id == self.id else piece.id
        elif not self.id:
            self.id = piece.id
        if piece.name != self.name or not (is_again or self.arguments or piece.arguments):
            self.name += piece.name
        if piece.arguments:
            self._add(piece.arguments)
        if piece.extra:
            self.extra = merge_field(self.extra, piece.extra)

    def _add(self, arguments: str) -> None:
        self._first, self._last = self._first or arguments, arguments
        if _is_empty(self.arguments):
            self.arguments = arguments
        elif not self._is_said_again(arguments):
            self.arguments += arguments

    def _is_said_again(self, arguments: str) -> bool:
        """Whether a piece after complete arguments only ends the call: it is empty, or repeats all arguments."""
        return (arguments == self.arguments or _is_empty(arguments)) and self.is_whole


class PartialCalls:
    """The calls of one reply, in the order in which they began."""

    def __init__(self) -> None:
        self.all: list[PartialCall] = []

    def take_all(self, pieces: Sequence[CallPiece]) -> None:
        """Add pieces that came together. Pieces without index, id and name continue the last calls, in order."""
        is_by_place = 1 < len(pieces) <= len(self.all) and all(one.is_nameless for one in pieces)
        for call, piece in zip(self.all[-len(pieces) :] if is_by_place else (), pieces, strict=False):
            call.take(piece)
        for piece in () if is_by_place else pieces:
            self.take(piece)

    def take(self, piece: CallPiece) -> None:
        """Add a piece to the call that it belongs to, or begin a call with it."""
        if piece.says_nothing:
            return
        found = self._at(piece)
        if found is None or found.is_followed_by(piece):
            found = PartialCall(piece.index)
            self.all.append(found)
        found.take(piece)

    def _at(self, piece: CallPiece) -> PartialCall | None:
        """The call of a piece: by its index (and there by its id, or the newest), by its id, or the last call."""
        found = None
        if piece.index is not None:
            at_index = [one for one in self.all if one.index == piece.index]
            found = next(
                (one for one in at_index if piece.id and one.id == piece.id), at_index[-1] if at_index else None
            )
        if found is None and piece.id and (piece.index is None or piece.arguments):
            found = next((one for one in reversed(self.all) if one.id == piece.id), None)
        if found is not None:
            return self._open_instead(piece, found)
        if piece.name or not self.all:
            return None
        if piece.id and not (piece.arguments or piece.extra):
            return None  # The head of a call whose name comes later.
        return self._unnumbered(piece.index)

    def _open_instead(self, piece: CallPiece, found: PartialCall) -> PartialCall:
        """The last call if the one at the piece's index is complete: some servers number only the heads of calls."""
        last = self.all[-1]
        is_more = last is not found and not (piece.name or piece.id) and bool(piece.arguments)
        return last if is_more and found.is_whole and not last.is_whole else found

    def _unnumbered(self, index: Json) -> PartialCall:
        """The call that a piece without a name continues: by position among heads without index, or the last."""
        if not isinstance(index, int):
            return self.all[-1]
        heads = [one for one in self.all if one.index is None]
        if heads and 0 <= index < len(heads):
            heads[index].index = index
            return heads[index]
        return self.all[-1]


def intended_arguments(arguments: str) -> list[str]:
    """The arguments that a model meant, one text for each call; unchanged if they cannot be repaired.

    Two objects in a row are two calls that a server joined; an empty or repeated object is not a call. Marks and braces
    after an object are removed.
    """
    text = arguments.strip()
    if not text or _is_json(text):
        return [arguments]
    text = text.removeprefix("```json").lstrip("`").lstrip()
    found: list[str] = []
    while text.startswith("{"):
        try:
            _, end = _DECODER.raw_decode(text)
        except (ValueError, RecursionError):
            return [arguments]
        found.append(text[:end])
        text = text[end:].lstrip()
    if not found or not _AFTER.fullmatch(text):
        return [arguments]
    return [one for one in dict.fromkeys(found) if not _is_empty(one)] or found[:1]


def _index_of(raw: Json) -> int | str | None:
    """An index as an integer if it is one in any form, or else as text."""
    if isinstance(raw, str) and raw.isascii() and raw.isdigit() and len(raw) < EMPTY_ARGUMENTS_CHARS:
        return int(raw)
    if isinstance(raw, float) and raw.is_integer():
        return int(raw)
    return raw if isinstance(raw, int | str) else None


def _is_empty(arguments: str) -> bool:
    return len(arguments) <= EMPTY_ARGUMENTS_CHARS and arguments.strip() in EMPTY_ARGUMENTS


def _is_json(text: str) -> bool:
    try:
        canonical_json.decode(text)
    except ValueError:
        return False
    return True
