"""The matrices of suites as a page of Markdown: what `plan bench validate -o md` prints. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from planloop.benchmarks.scoring.kinds import Kind
from planloop.benchmarks.validating import matrix
from planloop.benchmarks.validating.judging import Judgement
from planloop.schemas.case import Verdict
from planloop.schemas.frozen import frozen

WIDTH = 100
HEAD = """\
# What the checks of the suites tell apart

Made by `plan bench validate --all -o md`, which runs every proof of every suite ([benchmarks](benchmarks.md)). A row is
a check, a column a mutant: an answer that is wrong in one way.
"""


@frozen
class Part:
    """A suite on the page."""

    name: str
    about: str
    judgements: tuple[Judgement, ...]


def page(parts: Sequence[Part]) -> str:
    """The whole page: the sums of all suites, then each with its cases."""
    head = "| suite | cases | checks | oracles pass | mutants die | cheats fail | nop fails |\n" + "|---" * 7 + "|"
    rows = "\n".join(map(_row, parts))
    return "\n".join([HEAD, head, rows, "", f"`{matrix.LEGEND}`", *(_section(part) for part in parts)])


def _row(part: Part) -> str:
    sums = [_share(part.judgements, kind) for kind in (Kind.ORACLE, Kind.MUTANT, Kind.CHEAT, Kind.NOP)]
    checks = sum(len(judged.checks) for judged in part.judgements)
    return f"| {part.name} | {len(part.judgements)} | {checks} | {' | '.join(sums)} |"


def _share(judgements: Iterable[Judgement], kind: Kind) -> str:
    """`12 of 12` that came to the verdict they had to."""
    right = Verdict.PASS if kind is Kind.ORACLE else Verdict.FAIL
    proofs = [proof for judged in judgements for proof in judged.of(kind)]
    return f"{sum(proof.verdict is right for proof in proofs)} of {len(proofs)}"


def _section(part: Part) -> str:
    shown = "\n\n".join("\n".join(_case(judged)) for judged in part.judgements)
    return f"\n## {part.name}\n\n{part.about}\n\n```text\n{shown}\n```"


def _case(judged: Judgement) -> Iterator[str]:
    return matrix.lines(judged, WIDTH)
