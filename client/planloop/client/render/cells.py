"""One value or one call in a few words, for a cell of a table or a line of text."""

from __future__ import annotations

from planloop.schemas import amounts
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.resource import Resource

ARGUMENT_MAX = 60  # Cells: a file's content is not for a line.


def value_text(value: Json) -> str:
    """A result as its author would say it: text as it is, of a map the part meant for readers."""
    match value:
        case None:
            return ""
        case {"text": str(text)} | {"message": str(text)}:
            return text.strip()
        case dict():
            return ", ".join(f"{key} {one}" for key, one in value.items())
        case _:
            return str(value)


def call_text(item: Resource) -> str:
    """`shell("git push origin fix")`."""
    return call_words(item.spec)


def call_words(spec: JsonObject) -> str:
    """The same for a call that is only told of: `tool` and `arguments`."""
    return f"{spec.get('tool', '')}({one_line(_shown_arguments(spec.get('arguments') or {}))})"


def _shown_arguments(arguments: Json) -> str:
    if not isinstance(arguments, dict):  # A model may write anything there.
        arguments = {"given": arguments}
    values = [value for value in arguments.values() if isinstance(value, str | int | list)]
    shown = (repr(value) if isinstance(value, str) else str(value) for value in values[:3])
    return ", ".join(amounts.truncate_cells(value, ARGUMENT_MAX) for value in shown)


def one_line(text_: str) -> str:
    """The first line, with a mark when there are more."""
    first, _, rest = text_.strip().partition("\n")
    return first + (" …" if rest.strip() else "")
