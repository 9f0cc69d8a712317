"""Reproducible draws from a run's seed: decoy tools, nonces, and the placeholders they fill. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from planloop.schemas.canonical_json import Json, canonical_bytes, sha256_hex, sha256_of_value
from planloop.schemas.diagnostic import ValuePath, ValueProblem
from planloop.schemas.frozen import frozen
from planloop.schemas.spec.template_placeholders import NONCE, fill_placeholders, find_placeholders, nonce_names

# Choices without chance: names are ranked by SHA-256(seed, case, name), so that a seed means the same for ever. Pure.
#
# A tool that is added to a pool takes the place of at most one of those that were picked.

_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")


@frozen
class DrawnDecoys:
    """The decoys of a case: those that share a word with a tool that is needed, and those that do not."""

    near: Sequence[str]
    far: Sequence[str]


def rank_name(seed: int, case: str, name: str) -> str:
    """What `name` is sorted by."""
    return sha256_hex(canonical_bytes([seed, case, name]))


def tool_name_words(tool: str) -> frozenset[str]:
    """The verbs and nouns of a tool's name; `events` is `event`."""
    return frozenset(word.lower().removesuffix("s") for word in _WORDS.findall(tool))


def draw_decoys(
    seed: int, case: str, pool: Iterable[str], needed: Iterable[str], *, pick: int, near: int
) -> DrawnDecoys:
    """`pick` tools of `pool` that are not `needed`, `near` of them near ones.

    Where there are too few of one kind, those of the other are taken.
    """
    needed = frozenset(needed)
    names = [name for name in pool if name not in needed]
    names.sort(key=lambda name: rank_name(seed, case, name))
    words = frozenset().union(*map(tool_name_words, needed))
    close = [name for name in names if words & tool_name_words(name)]
    distant = [name for name in names if not words & tool_name_words(name)]
    far_count = min(max(pick - near, pick - len(close), 0), len(distant))
    return DrawnDecoys(close[: pick - far_count], distant[:far_count])


# What the blanks of a case stand for, and the nonces that no answer can know beforehand. Pure.
#
# `{{nonce.word}}` is another word for every case, trial and name, and the same in every run of one seed. `{{language}}`
# and `{{url}}` are of the case; `{{kept.name}}` is of none: an `http` check fills it with what an answer had.

NONCE_DIGITS: Final = 12
KEPT: Final = "kept."


def fill_values(value: Json, values: Mapping[str, str]) -> Json:
    """`value` with every `{{name}}` of `values` replaced, in texts and keys at any depth; others stay as they are."""
    return fill_placeholders(value, values)


def make_nonce(seed: int, case: str, trial: int, name: str) -> str:
    """12 hex digits that only the seed foretells: SHA-256 of (seed, case, trial, name)."""
    return sha256_of_value([seed, case, trial, name])[:NONCE_DIGITS]


def make_nonces(value: Json, seed: int, case: str, trial: int) -> dict[str, str]:
    """The nonces that `value` has blanks for, as `filled` takes them."""
    return {f"{NONCE}{name}": make_nonce(seed, case, trial, name) for name in nonce_names(value)}


def placeholder_problems(
    value: Json, known: Collection[str] = ("language", "url"), at: ValuePath = ()
) -> Iterator[ValueProblem]:
    """Tells of blanks that nothing will fill. `known` are the plain ones that the case has."""
    for place, name in find_placeholders(value, at):
        if name in known or name.startswith((NONCE, KEPT)):
            continue
        kind, dot, rest = name.partition(".")
        near = get_close_matches(kind, ("nonce", "kept") if dot else sorted(known), n=1)
        cure = f"did you mean `{{{{{near[0]}{dot}{rest}}}}}`?" if near else _there_are(known)
        yield ValueProblem(place, "P0213", f"nothing fills `{{{{{name}}}}}`", cure)


def _there_are(known: Collection[str]) -> str:
    return "there are " + ", ".join(f"`{{{{{name}}}}}`" for name in ("nonce.NAME", *sorted(known)))
