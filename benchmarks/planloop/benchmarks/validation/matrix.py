"""Print which check caught which proof, as text and as a Markdown page. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from planloop.benchmarks.scoring.fold import ModelKind
from planloop.benchmarks.validation.judge import CaseJudgement, ProofResult
from planloop.schemas.amounts import cell_width, pad_cells, pluralize, truncate_cells
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.case import CaseVerdict

# The matrix of a case as text: which check told of which proof. Pure.
#
# A mutant is a column with a number, and its name stands below: the table is narrow however long the names are.

WIDTH = 79
NAME_WIDTH = 40
KILLS, TELLS, HOLDS, MISSES, OPEN = "✗", "x", "·", "!", "?"
LEGEND = f"{KILLS} kills the mutant as it must   {TELLS} kills it, too   {HOLDS} holds   {MISSES} had to kill it"


def matrix_lines(judgement: CaseJudgement, width: int | None = None) -> Iterator[str]:
    """The lines about one case, none wider than `width` cells unless a name is."""
    width = width or WIDTH
    word = "valid" if judgement.is_valid else "not valid"
    yield f"{judgement.case}: {word}"
    yield from _table(judgement, width)
    for kind in (ModelKind.ORACLE, ModelKind.CHEAT, ModelKind.NOP):
        yield from _summed(judgement.of(kind), kind, width)


def _table(judgement: CaseJudgement, width: int) -> Iterator[str]:
    mutants = judgement.of(ModelKind.MUTANT)
    if not mutants:
        return
    named = min(max(map(cell_width, judgement.checks)), NAME_WIDTH)
    cell = len(str(len(mutants))) + 1
    at_once = max(1, (width - 2 - named) // cell)
    for first in range(0, len(mutants), at_once):
        part = list(enumerate(mutants, 1))[first : first + at_once]
        yield "  " + " " * named + "".join(f"{number:>{cell}}" for number, _ in part)
        for check in judgement.checks:
            signs = "".join(f"{_sign(mutant, check):>{cell}}" for _, mutant in part)
            yield f"  {pad_cells(truncate_cells(check, named), named)}{signs}"
    yield from _wrapped([f"{number} {mutant.ref}" for number, mutant in enumerate(mutants, 1)], width)


def _sign(mutant: ProofResult, check: str) -> str:
    if mutant.verdict is None or not mutant.verdict.is_decided:
        return OPEN
    if check in mutant.failed:
        return KILLS if check in mutant.kills else TELLS
    return MISSES if check in mutant.kills else HOLDS


def _summed(proofs: Sequence[ProofResult], kind: ModelKind, width: int) -> Iterator[str]:
    """`3 oracles pass`, then those that do not do as they must."""
    right = CaseVerdict.PASS if kind is ModelKind.ORACLE else CaseVerdict.FAIL
    good = [proof for proof in proofs if proof.verdict is right]
    if kind is ModelKind.NOP:
        words = ["nop fails"] if good else []
    else:
        does = ("passes", "pass") if kind is ModelKind.ORACLE else ("fails", "fail")
        words = [f"{pluralize(len(good), kind)} {does[len(good) != 1]}"] if good else []
    words += [f"{proof.name} {_what(proof)}" for proof in proofs if proof.verdict is not right]
    yield from _wrapped(words, width)


def _what(proof: ProofResult) -> str:
    match proof.verdict:
        case CaseVerdict.PASS:
            return "passes"
        case CaseVerdict.FAIL:
            return "fails"
        case _:
            return "is not decided"


def _wrapped(words: Iterable[str], width: int) -> Iterator[str]:
    """`words` with commas, on as many lines as they take."""
    line = ""
    for word in words:
        longer = f"{line}, {word}" if line else f"  {word}"
        if line and cell_width(longer) + 1 > width:
            yield f"{line},"
            longer = f"  {word}"
        line = longer
    if line:
        yield line


# The matrices of suites as a page of Markdown: what `plan bench validate -o md` prints. Pure.

PAGE_WIDTH = 100
HEAD = """\
# What the checks of the suites tell apart

Made by `plan bench validate --all -o md`, which runs every proof of every suite ([benchmarks](benchmarks.md)). A row is
a check, a column a mutant: an answer that is wrong in one way.
"""


@frozen
class SuiteMatrix:
    """A suite on the page."""

    name: str
    about: str
    judgements: tuple[CaseJudgement, ...]


def matrix_page(parts: Sequence[SuiteMatrix]) -> str:
    """The whole page: the sums of all suites, then each with its cases."""
    head = "| suite | cases | checks | oracles pass | mutants die | cheats fail | nop fails |\n" + "|---" * 7 + "|"
    rows = "\n".join(map(_row, parts))
    return "\n".join([HEAD, head, rows, "", f"`{LEGEND}`", *(_section(part) for part in parts)])


def _row(part: SuiteMatrix) -> str:
    sums = [
        _share(part.judgements, kind) for kind in (ModelKind.ORACLE, ModelKind.MUTANT, ModelKind.CHEAT, ModelKind.NOP)
    ]
    checks = sum(len(judged.checks) for judged in part.judgements)
    return f"| {part.name} | {len(part.judgements)} | {checks} | {' | '.join(sums)} |"


def _share(judgements: Iterable[CaseJudgement], kind: ModelKind) -> str:
    """`12 of 12` that came to the verdict they had to."""
    right = CaseVerdict.PASS if kind is ModelKind.ORACLE else CaseVerdict.FAIL
    proofs = [proof for judged in judgements for proof in judged.of(kind)]
    return f"{sum(proof.verdict is right for proof in proofs)} of {len(proofs)}"


def _section(part: SuiteMatrix) -> str:
    shown = "\n\n".join("\n".join(_case(judged)) for judged in part.judgements)
    return f"\n## {part.name}\n\n{part.about}\n\n```text\n{shown}\n```"


def _case(judged: CaseJudgement) -> Iterator[str]:
    return matrix_lines(judged, PAGE_WIDTH)
