"""Nonces of a check that is done several times: each time has its own, so that what one time left helps no other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planloop.reconciler.clock import Ids
from planloop.schemas.blanks import NONCE, fill, nonce_names, replace
from planloop.schemas.encoding import Json, JsonObject, digest
from planloop.schemas.frozen import frozen

_DIGITS: Final = 12


@frozen
class Nonces:
    """The nonces of a check by name."""

    words: Mapping[str, str]

    def of(self, time: int) -> Mapping[str, str]:
        """The nonces of the n-th time, from 0: the first has those of the check."""
        if not time:
            return self.words
        return {name: digest(f"{word}/{time}".encode())[:_DIGITS] for name, word in self.words.items()}

    def another(self, name: str, ids: Ids) -> str:
        """One more word, for `name`: the same whenever these are the same, fresh where there are none."""
        return digest(f"{sorted(self.words.items()) or ids.mint()}/{name}".encode())[:_DIGITS]

    def put(self, value: Json, time: int) -> Json:
        """`value` as it is the n-th time; nonces that were filled before are found by their text."""
        own = self.of(time)
        filled = fill(value, {f"{NONCE}{name}": word for name, word in own.items()})
        return filled if not time else replace(filled, {word: own[name] for name, word in self.words.items()})


def nonces_of(arguments: JsonObject, ids: Ids) -> Nonces:
    """The nonces that a check was given, and fresh ones for those that nobody has filled."""
    given = {name.removeprefix(NONCE): word for name, word in arguments.get("nonces", {}).items()}
    fresh = [name for name in nonce_names(arguments) if name not in given]
    return Nonces({**given, **{name: digest(ids.mint().encode())[:_DIGITS] for name in fresh}})
