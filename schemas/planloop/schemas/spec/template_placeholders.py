"""Placeholders in texts, `{{nonce.word}}`: find them and fill the known ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from planloop.schemas.canonical_json import Json, encode_text
from planloop.schemas.diagnostic import ValuePath

PLACEHOLDER: Final = re.compile(r"\{\{\s*([A-Za-z0-9_.-]+)\s*\}\}")
OPENING: Final = "{{"
"""Looked for first: hardly any text has a blank, and a search takes longer."""
NONCE: Final = "nonce."
"""Before the name of a nonce."""


def fill_placeholders(value: Json, blanks: Mapping[str, Json]) -> Json:
    """`value` with its blanks filled, in names of members too; those that are not known stay as they are.

    A text that is nothing but one blank becomes what the blank stands for, whatever its type; within a text that is
    written as JSON.
    """
    if not blanks:
        return value

    def filled(text: str) -> Json:
        if OPENING not in text:
            return text
        whole = PLACEHOLDER.fullmatch(text)
        if whole is not None and whole[1] in blanks:
            return blanks[whole[1]]
        return PLACEHOLDER.sub(lambda found: _text(blanks[found[1]]) if found[1] in blanks else found[0], text)

    return _mapped(value, filled)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else encode_text(value)


def _mapped(value: Json, change: Callable[[str], Json]) -> Json:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    if isinstance(value, dict):
        return {_text(change(name)): _mapped(item, change) for name, item in value.items()}
    return value


def replace_texts(value: Json, texts: Mapping[str, str]) -> Json:
    """`value` with each of `texts` replaced wherever it stands, in names too, all at the same time."""
    if not texts:
        return value
    anyone = re.compile("|".join(map(re.escape, sorted(texts, key=len, reverse=True))))
    return _mapped(value, lambda text: anyone.sub(lambda found: texts[found[0]], text))


def find_placeholders(value: Json, at: ValuePath = ()) -> Iterator[tuple[ValuePath, str]]:
    """The name of every blank and the place of the text that it stands in; for a name of a member, the member's."""
    if isinstance(value, str):
        if OPENING in value:
            yield from ((at, found[1]) for found in PLACEHOLDER.finditer(value))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from find_placeholders(item, (*at, str(index)))
    elif isinstance(value, dict):
        for name, item in value.items():
            if OPENING in name:
                yield from find_placeholders(name, (*at, name))
            yield from find_placeholders(item, (*at, name))


def nonce_names(value: Json) -> tuple[str, ...]:
    """The names of the nonces in `value`, without `nonce.`, each once, sorted."""
    if OPENING not in encode_text(value):  # Only texts can have two of them: what opens a map is followed by a name.
        return ()
    names = {name.removeprefix(NONCE) for _, name in find_placeholders(value) if name.startswith(NONCE)}
    return tuple(sorted(names))
