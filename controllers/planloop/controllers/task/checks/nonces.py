"""Nonces of a check that runs several times: each run has its own, so that an earlier run cannot help it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planloop.reconciler.clock import Ids
from planloop.schemas.canonical_json import Json, JsonObject, sha256_hex
from planloop.schemas.frozen import frozen
from planloop.schemas.spec.template_placeholders import NONCE, fill_placeholders, nonce_names, replace_texts

_DIGITS: Final = 12


@frozen
class CheckNonces:
    """The nonces of a check by name."""

    words: Mapping[str, str]

    def of(self, time: int) -> Mapping[str, str]:
        """Return the nonces of run `time`, counted from 0. The first run has the nonces of the check."""
        if not time:
            return self.words
        return {name: sha256_hex(f"{word}/{time}".encode())[:_DIGITS] for name, word in self.words.items()}

    def another(self, name: str, ids: Ids) -> str:
        """Return one more nonce for `name`, derived from the nonces of the check; random if it has none."""
        return sha256_hex(f"{sorted(self.words.items()) or ids.mint()}/{name}".encode())[:_DIGITS]

    def put(self, value: Json, time: int) -> Json:
        """Return `value` for run `time`. Nonces that are filled in already are replaced by text."""
        own = self.of(time)
        filled = fill_placeholders(value, {f"{NONCE}{name}": word for name, word in own.items()})
        return filled if not time else replace_texts(filled, {word: own[name] for name, word in self.words.items()})


def fill_nonces(arguments: JsonObject, ids: Ids) -> CheckNonces:
    """Return the nonces of a check: those in its arguments, and random ones for the names without a value."""
    given = {name.removeprefix(NONCE): word for name, word in arguments.get("nonces", {}).items()}
    fresh = [name for name in nonce_names(arguments) if name not in given]
    return CheckNonces({**given, **{name: sha256_hex(ids.mint().encode())[:_DIGITS] for name in fresh}})
