"""The tokens of identities over HTTP: one each, made once, in the plan's state folder for this user alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from planloop.schemas.encoding import JsonObject, decode, encode

FILE: Final = "guests.json"
TOKEN_CHARS_MIN: Final = 32
OTHERS: Final = 0o077  # The bits of a mode that let somebody else at a file.


def kept(folder: Path, names: Sequence[str], mint: Callable[[], str], *, anew: bool = False) -> Mapping[str, str]:
    """The token of each of `names`; one that is missing, or all with `anew`, is made. Raises OSError."""
    there = known(folder)
    tokens = {name: there.get(name, "") if not anew else "" for name in names}
    made = {name: token or mint() for name, token in tokens.items()}
    if made != tokens:
        beside = folder / f"{FILE}.{mint()[:8]}"
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(encode({**there, **made}))
        beside.replace(folder / FILE)
    return made


def known(folder: Path) -> JsonObject:
    """The tokens by name, as they are kept; none where their file is missing, damaged or open to others."""
    with suppress(OSError, ValueError):
        file = folder / FILE
        found = decode(file.read_bytes())
        if isinstance(found, dict) and not file.stat().st_mode & OTHERS:
            return {name: one for name, one in found.items() if isinstance(one, str) and len(one) >= TOKEN_CHARS_MIN}
    return {}
