"""Parse a line of a conversation: a message, a slash command, or an error. Pure."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Collection
from typing import TypeAlias

from planloop.schemas.frozen import frozen

SLASH = "/"


@frozen
class MessageLine:
    """Text for the agent."""

    text: str


@frozen
class SlashCommand:
    """`/name words`; `rest` is what follows the name, as it was written."""

    name: str
    words: tuple[str, ...]
    rest: str


@frozen
class InvalidLine:
    """A command that there is not; `near` is the one that may have been meant, empty for none."""

    name: str
    near: str


@frozen
class EmptyLine:
    """An empty line."""


InputLine: TypeAlias = MessageLine | SlashCommand | InvalidLine | EmptyLine


def parse_line(text: str, known: Collection[str]) -> InputLine:
    """What `text` is where `known` are the names of commands and prompts. `//x` says `/x` to the agent."""
    text = text.strip()
    if not text:
        return EmptyLine()
    if not text.startswith(SLASH) or text.startswith(SLASH * 2):
        return MessageLine(text.removeprefix(SLASH) if text.startswith(SLASH * 2) else text)
    name, _, rest = text[1:].partition(" ")
    if name in known:
        return SlashCommand(name, _words(rest), rest.strip())
    return InvalidLine(name, next(iter(difflib.get_close_matches(name, known, n=1)), ""))


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError:  # A quote that is not closed: then quotes mean nothing.
        return tuple(text.split())
