"""What a line of a conversation is: something to say, a command with its words, or a slip. Pure."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Collection
from typing import TypeAlias

from planloop.schemas.frozen import frozen

SLASH = "/"


@frozen
class Say:
    """Text for the agent."""

    text: str


@frozen
class Command:
    """`/name words`; `rest` is what follows the name, as it was written."""

    name: str
    words: tuple[str, ...]
    rest: str


@frozen
class Slip:
    """A command that there is not; `near` is the one that may have been meant, empty for none."""

    name: str
    near: str


@frozen
class Nothing:
    """An empty line."""


Line: TypeAlias = Say | Command | Slip | Nothing


def parse(text: str, known: Collection[str]) -> Line:
    """What `text` is where `known` are the names of commands and prompts. `//x` says `/x` to the agent."""
    text = text.strip()
    if not text:
        return Nothing()
    if not text.startswith(SLASH) or text.startswith(SLASH * 2):
        return Say(text.removeprefix(SLASH) if text.startswith(SLASH * 2) else text)
    name, _, rest = text[1:].partition(" ")
    if name in known:
        return Command(name, _words(rest), rest.strip())
    return Slip(name, next(iter(difflib.get_close_matches(name, known, n=1)), ""))


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError:  # A quote that is not closed: then quotes mean nothing.
        return tuple(text.split())
