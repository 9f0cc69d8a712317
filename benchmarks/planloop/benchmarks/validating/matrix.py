"""The matrix of a case as text: which check told of which proof. Pure.

A mutant is a column with a number, and its name stands below: the table is narrow however long the names are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from planloop.benchmarks.scoring.kinds import Kind
from planloop.benchmarks.validating.judging import Judgement, Proof
from planloop.schemas.amounts import plural
from planloop.schemas.case import Verdict
from planloop.schemas.widths import cells_wide, cut, padded

WIDTH = 79
NAME_WIDTH = 40
KILLS, TELLS, HOLDS, MISSES, OPEN = "✗", "x", "·", "!", "?"
LEGEND = f"{KILLS} kills the mutant as it must   {TELLS} kills it, too   {HOLDS} holds   {MISSES} had to kill it"


def lines(judgement: Judgement, width: int | None = None) -> Iterator[str]:
    """The lines about one case, none wider than `width` cells unless a name is."""
    width = width or WIDTH
    word = "valid" if judgement.is_valid else "not valid"
    yield f"{judgement.case}: {word}"
    yield from _table(judgement, width)
    for kind in (Kind.ORACLE, Kind.CHEAT, Kind.NOP):
        yield from _summed(judgement.of(kind), kind, width)


def _table(judgement: Judgement, width: int) -> Iterator[str]:
    mutants = judgement.of(Kind.MUTANT)
    if not mutants:
        return
    named = min(max(map(cells_wide, judgement.checks)), NAME_WIDTH)
    cell = len(str(len(mutants))) + 1
    at_once = max(1, (width - 2 - named) // cell)
    for first in range(0, len(mutants), at_once):
        part = list(enumerate(mutants, 1))[first : first + at_once]
        yield "  " + " " * named + "".join(f"{number:>{cell}}" for number, _ in part)
        for check in judgement.checks:
            signs = "".join(f"{_sign(mutant, check):>{cell}}" for _, mutant in part)
            yield f"  {padded(cut(check, named), named)}{signs}"
    yield from _wrapped([f"{number} {mutant.ref}" for number, mutant in enumerate(mutants, 1)], width)


def _sign(mutant: Proof, check: str) -> str:
    if mutant.verdict is None or not mutant.verdict.is_decided:
        return OPEN
    if check in mutant.failed:
        return KILLS if check in mutant.kills else TELLS
    return MISSES if check in mutant.kills else HOLDS


def _summed(proofs: Sequence[Proof], kind: Kind, width: int) -> Iterator[str]:
    """`3 oracles pass`, then those that do not do as they must."""
    right = Verdict.PASS if kind is Kind.ORACLE else Verdict.FAIL
    good = [proof for proof in proofs if proof.verdict is right]
    if kind is Kind.NOP:
        words = ["nop fails"] if good else []
    else:
        does = ("passes", "pass") if kind is Kind.ORACLE else ("fails", "fail")
        words = [f"{plural(len(good), kind)} {does[len(good) != 1]}"] if good else []
    words += [f"{proof.name} {_what(proof)}" for proof in proofs if proof.verdict is not right]
    yield from _wrapped(words, width)


def _what(proof: Proof) -> str:
    match proof.verdict:
        case Verdict.PASS:
            return "passes"
        case Verdict.FAIL:
            return "fails"
        case _:
            return "is not decided"


def _wrapped(words: Iterable[str], width: int) -> Iterator[str]:
    """`words` with commas, on as many lines as they take."""
    line = ""
    for word in words:
        longer = f"{line}, {word}" if line else f"  {word}"
        if line and cells_wide(longer) + 1 > width:
            yield f"{line},"
            longer = f"  {word}"
        line = longer
    if line:
        yield line
