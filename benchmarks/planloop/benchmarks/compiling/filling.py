"""What the blanks of a case stand for, and the nonces that no answer can know beforehand. Pure.

`{{nonce.word}}` is another word for every case, trial and name, and the same in every run of one seed. `{{language}}`
and `{{url}}` are of the case; `{{kept.name}}` is of none: an `http` check fills it with what an answer had.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from planloop.schemas.blanks import NONCE, blanks_in, fill, nonce_names
from planloop.schemas.encoding import Json, digest_of
from planloop.schemas.fault_at import FaultAt, Place

NONCE_DIGITS: Final = 12
KEPT: Final = "kept."


def filled(value: Json, values: Mapping[str, str]) -> Json:
    """`value` with every `{{name}}` of `values` replaced, in texts and keys at any depth; others stay as they are."""
    return fill(value, values)


def nonce(seed: int, case: str, trial: int, name: str) -> str:
    """12 hex digits that only the seed foretells: SHA-256 of (seed, case, trial, name)."""
    return digest_of([seed, case, trial, name])[:NONCE_DIGITS]


def nonces_in(value: Json, seed: int, case: str, trial: int) -> dict[str, str]:
    """The nonces that `value` has blanks for, as `filled` takes them."""
    return {f"{NONCE}{name}": nonce(seed, case, trial, name) for name in nonce_names(value)}


def blank_faults(value: Json, known: Collection[str] = ("language", "url"), at: Place = ()) -> Iterator[FaultAt]:
    """Tells of blanks that nothing will fill. `known` are the plain ones that the case has."""
    for place, name in blanks_in(value, at):
        if name in known or name.startswith((NONCE, KEPT)):
            continue
        kind, dot, rest = name.partition(".")
        near = get_close_matches(kind, ("nonce", "kept") if dot else sorted(known), n=1)
        cure = f"did you mean `{{{{{near[0]}{dot}{rest}}}}}`?" if near else _there_are(known)
        yield FaultAt(place, "P0213", f"nothing fills `{{{{{name}}}}}`", cure)


def _there_are(known: Collection[str]) -> str:
    return "there are " + ", ".join(f"`{{{{{name}}}}}`" for name in ("nonce.NAME", *sorted(known)))
