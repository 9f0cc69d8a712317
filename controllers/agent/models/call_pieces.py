"""Tool calls put together from the pieces of a stream, however a provider cuts and numbers them.

A piece belongs to a call by its index, its id, or its place. Providers send index 0 for all calls, another index with
each piece or none, an id once, in every piece, another one each time or never, the head of a call again, and `{}` or
`null` before the arguments. Two rules decide: a call must never swallow the next one, and a piece without a name never
begins a call while another one is there. Arguments stay the text that the model wrote.
"""

from __future__ import annotations

from typing import Final

from controllers.agent.models import extras
from schemas import encoding
from schemas.encoding import Json, JsonObject
from schemas.frozen import frozen

EMPTY: Final = frozenset({"{}", "null"})
"""Arguments that stand for none: the real ones may follow."""

EMPTY_CHARS: Final = 16  # With blanks around them: long arguments are not looked through with every piece.
KNOWN: Final = frozenset({"index", "id", "type", "function", "name", "arguments"})


@frozen
class Piece:
    """One member of `tool_calls`, in a delta or a whole message. `index` is the provider's number of the call."""

    index: Json
    id: str
    name: str
    arguments: str
    extra: JsonObject

    @property
    def says_nothing(self) -> bool:
        return not (self.id or self.name or self.arguments or self.extra)


def piece_of(raw: Json) -> Piece:
    """Raises ValueError for a piece of another shape."""
    if not isinstance(raw, dict):
        raise ValueError("a tool call is no object")
    function = raw.get("function")
    if function is None:
        function = {name: raw[name] for name in ("name", "arguments") if name in raw}
    if not isinstance(function, dict):
        raise ValueError("a tool call is no object")
    arguments = function.get("arguments")
    if not isinstance(arguments, str):  # Some servers send the value itself.
        arguments = "" if arguments is None else encoding.encode_text(arguments)
    extra = {name: value for name, value in raw.items() if name not in KNOWN and value not in (None, "")}
    inner = {name: value for name, value in function.items() if name not in KNOWN and value not in (None, "")}
    head = str(raw.get("id") or ""), str(function.get("name") or "")
    return Piece(raw.get("index"), *head, arguments, extra | ({"function": inner} if inner else {}))


class Call:
    """One tool call so far."""

    __slots__ = ("arguments", "extra", "id", "index", "name")

    def __init__(self, index: Json) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments = ""
        self.extra: JsonObject = {}

    @property
    def has_begun(self) -> bool:
        """Whether more than (a part of) its id is known."""
        return bool(self.name or self.arguments)

    @property
    def is_whole(self) -> bool:
        """Whether its arguments are a JSON value: what comes next can only be another call."""
        if not self.arguments or _is_empty(self.arguments):
            return False
        try:
            encoding.decode(self.arguments)
        except ValueError:
            return False
        return True

    def is_followed_by(self, piece: Piece) -> bool:
        """Whether a piece at the same index begins another call."""
        has_other_id = bool(piece.id and self.id and piece.id != self.id and self.has_begun)
        if not piece.name:  # A head whose name comes later, or more of this call under another id.
            return has_other_id and not piece.arguments and self.is_whole
        if has_other_id:
            return piece.name != self.name or not self._goes_on_with(piece)
        if not self.arguments:
            return False  # Without arguments so far, a name can only be more of this one.
        if piece.name == self.name and piece.id and not piece.arguments:
            return False  # The head once more, to close the call.
        if _is_empty(self.arguments) and piece.id != self.id:
            return True  # Two calls without arguments, and no id to tell them apart.
        return self.is_whole or piece.name != self.name

    def _goes_on_with(self, piece: Piece) -> bool:
        """Whether a head of the same name under another id has the next arguments: a `{` begins those of a new call."""
        if self.arguments and not (_is_empty(self.arguments) or self.is_whole):
            return not piece.arguments.lstrip().startswith("{")
        return bool(piece.arguments) and not self.arguments and not _is_json(piece.arguments)

    def take(self, piece: Piece) -> None:
        """Adds a piece: ids and names may come in parts too, and heads again."""
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
            self.extra = extras.merged(self.extra, piece.extra)

    def _add(self, arguments: str) -> None:
        if _is_empty(self.arguments):
            self.arguments = arguments
        elif not self._is_said_again(arguments):
            self.arguments += arguments

    def _is_said_again(self, arguments: str) -> bool:
        """Whether a piece after whole arguments only closes the call: empty ones, or all of them again."""
        return (arguments == self.arguments or _is_empty(arguments)) and self.is_whole


class Calls:
    """The calls of one reply, in the order in which they began."""

    def __init__(self) -> None:
        self.all: list[Call] = []

    def take(self, piece: Piece) -> None:
        """Adds a piece to the call that it belongs to, or begins one with it."""
        if piece.says_nothing:
            return
        found = self._at(piece)
        if found is None or found.is_followed_by(piece):
            found = Call(piece.index)
            self.all.append(found)
        found.take(piece)

    def _at(self, piece: Piece) -> Call | None:
        """The call of a piece: at its index the newest, else the one with its id, else what it continues."""
        found = self._newest("index", piece.index) if piece.index is not None else None
        if found is None and piece.id and (piece.index is None or piece.arguments):
            found = self._newest("id", piece.id)
        if found is not None or piece.name or not self.all:
            return found
        if piece.id and not (piece.arguments or piece.extra):
            return None  # The head of a call whose name comes later.
        return self._unnumbered(piece.index)

    def _unnumbered(self, index: Json) -> Call:
        """The call that a piece without a name continues: by place among heads without an index, or the last."""
        if not isinstance(index, int):
            return self.all[-1]
        heads = [one for one in self.all if one.index is None]
        if heads and 0 <= index < len(heads):
            heads[index].index = index
            return heads[index]
        return self.all[-1]

    def _newest(self, name: str, value: Json) -> Call | None:
        return next((one for one in reversed(self.all) if getattr(one, name) == value), None)


def _is_empty(arguments: str) -> bool:
    return len(arguments) <= EMPTY_CHARS and arguments.strip() in EMPTY


def _is_json(text: str) -> bool:
    try:
        encoding.decode(text)
    except ValueError:
        return False
    return True
