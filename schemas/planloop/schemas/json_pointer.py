"""JSON pointers (RFC 6901) into the plan document, and the object each one belongs to.

The document is maps keyed by id, so `/tasks/frontend/tasks/ui/goal` names a field of `task/frontend/ui` for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planloop.schemas.address import Address
from planloop.schemas.canonical_json import Json

_INDEX_DIGITS: Final = 10  # No list is longer, and `int` refuses thousands of digits with an error of its own.


class BadPointer(ValueError):
    """The text is not a JSON pointer, or leads nowhere in the document at hand."""


def parse_pointer(text: str) -> tuple[str, ...]:
    """The tokens of `text`; the empty text is the whole document. Raises BadPointer."""
    if text == "":
        return ()
    if not text.startswith("/"):
        raise BadPointer(f"`{text}` is not a path: it starts with `/`, as in `/tasks/frontend/goal`")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in text[1:].split("/"))


def render_pointer(tokens: Sequence[str]) -> str:
    """The pointer with these tokens; inverse of `parse_pointer`."""
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)


def value_at(document: Json, tokens: Sequence[str]) -> Json:
    """The value at `tokens`. Raises BadPointer naming the first token that leads nowhere."""
    value = document
    for depth, token in enumerate(tokens):
        if isinstance(value, dict) and token in value:
            value = value[token]
        elif isinstance(value, list) and (index := list_index(token)) is not None and index < len(value):
            value = value[index]
        else:
            raise BadPointer(f"nothing at `{render_pointer(tokens[: depth + 1])}`")
    return value


def list_index(token: str) -> int | None:
    """The list index that `token` states, None when it states none: no sign, no leading zero, plain digits."""
    is_index = token.isascii() and token.isdigit() and len(token) < _INDEX_DIGITS and (token == "0" or token[0] != "0")
    return int(token) if is_index else None


def has_value(document: Json, tokens: Sequence[str]) -> bool:
    """Whether something, null included, stands at `tokens`."""
    try:
        value_at(document, tokens)
    except BadPointer:
        return False
    return True


def task_pointer(path: Sequence[str]) -> tuple[str, ...]:
    """Tokens of the task at `path`: `('frontend', 'ui')` gives `('tasks', 'frontend', 'tasks', 'ui')`."""
    return tuple(token for name in path for token in ("tasks", name))


def pointer_owner(tokens: Sequence[str]) -> tuple[Address, tuple[str, ...]]:
    """The object a pointer falls into, and the rest of the pointer within that object.

    `/tasks/a/goal` gives `task/a` and `('goal',)`; `/containers/redis/image` gives `container/redis` and `('image',)`;
    anything else belongs to the root task: `/budget/usd` gives `task/.` and `('budget', 'usd')`.
    """
    rest, path = tuple(tokens), []
    while len(rest) >= 2 and rest[0] == "tasks":
        path.append(rest[1])
        rest = rest[2:]
    if not path and len(rest) >= 2 and rest[0] in ("containers", "hooks"):
        return Address(rest[0][:-1], (rest[1],)), rest[2:]
    return Address("task", tuple(path)), rest
