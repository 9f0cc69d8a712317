"""The tokens of a plan's links: made once, kept in its state folder for this user alone, so that links stay good."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio

from planloop.schemas.encoding import decode, encode
from planloop.server.gateway.guarding import Tokens

FILE: Final = "links.json"
TOKEN_CHARS_MIN: Final = 32
OTHERS: Final = 0o077  # The bits of a mode that let somebody else at a file.


def kept(folder: Path, mint: Callable[[], str]) -> Tokens:
    """The tokens of the plan whose state is in `folder`, made with `mint` unless there are some, whole and secret.

    Where nothing can be written they are good for as long as this process.
    """
    return _known(folder) or _made(folder, mint)


def made(folder: Path, mint: Callable[[], str]) -> Tokens:
    """New tokens, written over the old: every link that was given out is dead. Raises OSError."""
    tokens = Tokens(read=mint(), change=mint())
    beside = _written(folder, tokens, mint())
    beside.replace(folder / FILE)
    return tokens


class Links:
    """The tokens as they are by now: `tokens`, or what another `plan serve --new-links` has put into `folder`."""

    def __init__(self, folder: Path, tokens: Tokens, *, read_only: bool) -> None:
        self._folder = folder
        self._read_only = read_only
        self._tokens = tokens
        self.dead = anyio.Event()

    @property
    def tokens(self) -> Tokens:
        """What opens the gateway now."""
        return replace(self._tokens, change=None) if self._read_only else self._tokens

    def look(self, moved: set[str]) -> None:
        """Takes note of new tokens, if their file is among what moved or nobody knows what did.

        `dead` is set for those who came by an old one.
        """
        found = _known(self._folder) if not moved or FILE in moved else None
        if found is not None and found != self._tokens:
            self._tokens = found
            dead, self.dead = self.dead, anyio.Event()
            dead.set()


def _known(folder: Path) -> Tokens | None:
    with suppress(OSError, ValueError, TypeError, KeyError):
        file = folder / FILE
        if file.stat().st_mode & OTHERS:
            return None
        known = decode(file.read_bytes())
        found = (known["read"], known["change"])
        if all(isinstance(one, str) and len(one) >= TOKEN_CHARS_MIN for one in found) and found[0] != found[1]:
            return Tokens(*found)
    return None


def _made(folder: Path, mint: Callable[[], str]) -> Tokens:
    tokens = Tokens(read=mint(), change=mint())
    try:
        beside = _written(folder, tokens, mint())
    except OSError:
        return tokens
    try:
        # Whoever comes first has made them, if two begin at once; what is damaged or open to others is replaced.
        os.link(beside, folder / FILE)
    except OSError:
        if (known := _known(folder)) is not None:
            return known
        beside.replace(folder / FILE)
    finally:
        beside.unlink(missing_ok=True)
    return tokens


def _written(folder: Path, tokens: Tokens, name: str) -> Path:
    """A file of this user alone beside the place of the tokens."""
    beside = folder / f"{FILE}.{name}"
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(encode({"read": tokens.read, "change": tokens.change}))
    return beside
