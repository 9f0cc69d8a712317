"""`{{name}}` in prompts, checks and proofs, and the nonces that no answer can know beforehand. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from schemas.encoding import Json, canonical, digest

_HOLE: Final = re.compile(r"\{\{\s*([A-Za-z0-9_.-]+)\s*\}\}")
NONCE_DIGITS: Final = 12


def filled(value: Json, values: Mapping[str, str]) -> Json:
    """`value` with every `{{name}}` of `values` replaced, in texts and keys at any depth; others stay as they are."""
    match value:
        case str():
            return _HOLE.sub(lambda found: values.get(found[1], found[0]), value) if "{{" in value else value
        case dict():
            return {filled(key, values): filled(item, values) for key, item in value.items()}
        case list():
            return [filled(item, values) for item in value]
        case _:
            return value


def nonce(seed: int, case: str, trial: int, name: str) -> str:
    """12 hex digits that only the seed foretells: SHA-256 of (seed, case, trial, name)."""
    return digest(canonical([seed, case, trial, name]))[:NONCE_DIGITS]
