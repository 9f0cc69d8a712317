"""Validate a suite: oracles must pass, and mutants and cheats must fail by the intended checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

from planloop.benchmarks.runs.contestants import Contestant, proofs_as_contestants
from planloop.benchmarks.runs.run_compiler import SCORING
from planloop.benchmarks.scoring.fold import EntryResult, ModelKind, model_kind
from planloop.benchmarks.suite import Case, Suite
from planloop.compiler.problems import Origins, Problem, place_problems
from planloop.compiler.read import read_source
from planloop.schemas.canonical_json import JsonObject, sha256_of_value
from planloop.schemas.diagnostic import Diagnostic, sort_diagnostics
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.case import CaseVerdict
from planloop.schemas.quantities import cell_width, pad_cells, pluralize, truncate_cells


def place_in_text(problems: Iterable[Diagnostic], text: str, file: str) -> list[Diagnostic]:
    """Return `problems` with their lines in `text`, or the nearest enclosing lines; in order and without duplicates."""
    tree = read_source(text.encode(), file=file)
    return sort_diagnostics(place_problems([Problem(fault) for fault in problems], Origins(tree, {})))


ORACLES_MIN = 3
"""Minimal number of oracles in different styles: fewer do not show that the checks accept every right answer."""


@frozen
class ProofResult:
    """Result of an agent whose verdict is known. `verdict` is None if it did not finish. `failed` are the checks that
    failed, `kills` the checks that must fail.
    """

    name: str
    kind: ModelKind
    verdict: CaseVerdict | None
    why: str
    failed: tuple[str, ...] = ()
    kills: tuple[str, ...] = ()

    @property
    def ref(self) -> str:
        """Its name within its kind."""
        return self.name.partition(":")[2]

    def to_json(self) -> JsonObject:
        return {
            "name": self.name,
            "verdict": self.verdict,
            "why": self.why,
            "failed": list(self.failed),
            "kills": list(self.kills),
        }


@frozen
class CaseJudgement:
    """Validation of a case: its checks and proofs in the order of the suite, and its problems."""

    case: str
    checks: tuple[str, ...]
    proofs: tuple[ProofResult, ...]
    problems: tuple[Diagnostic, ...]

    @property
    def is_valid(self) -> bool:
        return not any(fault.severity == "error" for fault in self.problems)

    def of(self, kind: ModelKind) -> tuple[ProofResult, ...]:
        return tuple(proof for proof in self.proofs if proof.kind is kind)


def judge_cases(cases: Iterable[Case], entries: Iterable[EntryResult]) -> tuple[CaseJudgement, ...]:
    """Judge each of `cases` by the results of its proofs."""
    found = {(entry.case, entry.model): entry for entry in entries}
    return tuple(_judged(case, found) for case in cases)


def _judged(case: Case, entries: Mapping[tuple[str, str], EntryResult]) -> CaseJudgement:
    proofs = tuple(_proof(who, case, entries.get((case.id, who.name))) for who in proofs_as_contestants(case))
    checks = tuple(check.key for check in case.checks)
    return CaseJudgement(case.id, checks, proofs, tuple(_case_problems(case, proofs, checks)))


def _proof(who: Contestant, case: Case, entry: EntryResult | None) -> ProofResult:
    kind = model_kind(who.name)
    kills = case.proofs.mutants[who.ref].kills if kind is ModelKind.MUTANT else ()
    if entry is None:
        return ProofResult(who.name, kind, None, "it did not finish", kills=kills)
    failed = tuple(check.key for check in case.checks if entry.checks.get(check.key) == CaseVerdict.FAIL)
    return ProofResult(who.name, kind, entry.verdict, entry.why, failed, kills)


def _case_problems(case: Case, proofs: Iterable[ProofResult], checks: Iterable[str]) -> Iterator[Diagnostic]:
    proofs = tuple(proofs)
    at = ("cases", case.base)
    if len(case.proofs.oracles) < ORACLES_MIN:
        yield _few(case, (*at, "proof", "oracles") if case.proofs.oracles else at)
    for proof in proofs:
        yield from _of_proof(case, proof, at)
    dead = _dead(proofs, checks)
    for check in checks:
        if check in dead:
            summary = f"`{case.id}`: the check `{check}` kills no mutant"
            yield Diagnostic("P0506", summary, _A_MUTANT, (*at, "checks", check), on_key=True)


def _few(case: Case, to: tuple[str, ...]) -> Diagnostic:
    if not case.proofs.oracles:
        hint = "add `proof: {oracles: …}` with right answers, in three styles if possible"
        return Diagnostic("P0508", f"`{case.id}` has no oracle", hint, to, on_key=True)
    summary = f"`{case.id}` has {len(case.proofs.oracles)} of {ORACLES_MIN} oracles"
    hint = "add right answers in other styles, to show that the checks accept them all"
    return Diagnostic("P0507", summary, hint, to, on_key=True, severity="warning")


def _of_proof(case: Case, proof: ProofResult, at: tuple[str, ...]) -> Iterator[Diagnostic]:
    to = (*at, "proof", f"{proof.kind}s", proof.ref)
    named = f"`{case.id}`: the {proof.kind} `{proof.ref}`"

    def problem(code: str, what: str, hint: str) -> Diagnostic:
        return Diagnostic(code, f"{named} {what}", hint, to, on_key=True)

    match proof.kind, proof.verdict:
        case _, None | CaseVerdict.ERROR | CaseVerdict.INVALID:
            summary = f"`{case.id}`: `{proof.name}` was not decided: {proof.why}"
            yield Diagnostic("P0509", summary, _UNDECIDED, to, on_key=True)
        case ModelKind.ORACLE, CaseVerdict.FAIL:
            yield problem("P0501", f"fails: {proof.why}", "correct the check that is too narrow, or the oracle")
        case ModelKind.MUTANT, CaseVerdict.PASS:
            checks = " or ".join(f"`{check}`" for check in proof.kills)
            yield problem("P0502", "passes", f"make {checks} stricter, or the mutant worse")
        case ModelKind.MUTANT, _:
            yield from (
                problem("P0503", f"is not killed by `{check}`, but by {_list(proof.failed)}", _NAME_ANOTHER)
                for check in proof.kills
                if check not in proof.failed
            )
        case ModelKind.CHEAT, CaseVerdict.PASS:
            yield problem("P0504", "passes", "add a check that only real work can pass, with a `{{nonce.…}}`")
        case ModelKind.NOP, CaseVerdict.PASS:
            summary = f"`{case.id}`: an agent that does nothing passes"
            yield Diagnostic("P0505", summary, "add a check that requires a result", at, on_key=True)
        case _:
            pass


_A_MUTANT = "add a mutant that only this check detects, or delete the check"
_NAME_ANOTHER = "make the check detect the mutant, or name another check under `kills`"
_UNDECIDED = "fix the cause and validate again. `plan doctor` shows what is missing on this machine"


def _dead(proofs: Iterable[ProofResult], checks: Iterable[str]) -> frozenset[str]:
    killing = {check for proof in proofs if proof.kind is ModelKind.MUTANT for check in proof.failed}
    return frozenset(checks) - killing


def _list(names: Iterable[str]) -> str:
    return " and ".join(f"`{name}`" for name in names) or "none"


# The record stores for each case whether it was valid. A case is identified by the digest of its content, so an edited
# case counts as not validated. Cases that were validated at different times share one file.

RECORD_FILE = "validation.json"
RECORD_FORMAT = 1


def digest_of_case(suite: Suite, case: Case) -> str:
    """The digest of everything that the validation of a case depends on."""
    world = suite.worlds.get(case.setting.world["use"]) if case.setting.world else None
    pool = suite.pools.get(case.setting.decoys["pool"]) if case.setting.decoys else None
    flat = asdict(case)  # One flat map, because existing records have its digest.
    for group in ("setting", "plan", "proofs"):
        flat |= flat.pop(group)
    return sha256_of_value({"scoring": SCORING, "case": flat, "world": world, "pool": pool})


def update_record(before: JsonObject, suite: Suite, judgements: Iterable[CaseJudgement]) -> JsonObject:
    """Return the record `before`, which may be empty or of another format, updated with `judgements`.

    Cases that the suite no longer has are dropped.
    """
    kept = before.get("cases", {}) if before.get("format") == RECORD_FORMAT else {}
    new = {
        judged.case: {
            "digest": digest_of_case(suite, suite.cases[judged.case]),
            "valid": judged.is_valid,
            "codes": sorted({fault.code for fault in judged.problems}),
        }
        for judged in judgements
    }
    cases = {name: one for name, one in {**kept, **new}.items() if name in suite.cases}
    return {"format": RECORD_FORMAT, "suite": suite.name, "cases": {name: cases[name] for name in sorted(cases)}}


def is_validated(record: JsonObject, suite: Suite, cases: Iterable[str]) -> bool | None:
    """Whether all `cases` are valid in their current form. None if none is known to be invalid, but some are
    unknown."""
    known: Mapping[str, JsonObject] = record.get("cases", {}) if record.get("format") == RECORD_FORMAT else {}
    found = [_valid(known.get(name), suite, suite.cases[name]) for name in cases]
    return False if False in found else None if None in found else True


def _valid(one: JsonObject | None, suite: Suite, case: Case) -> bool | None:
    return one["valid"] if one is not None and one["digest"] == digest_of_case(suite, case) else None


# Mutants are numbered columns with their names listed below, so that long names do not widen the table.

WIDTH = 79
NAME_WIDTH = 40
KILLS, TELLS, HOLDS, MISSES, OPEN = "✗", "x", "·", "!", "?"
LEGEND = f"{KILLS} kills the mutant, as required   {TELLS} also kills it   {HOLDS} passes   {MISSES} should kill it"


def matrix_lines(judgement: CaseJudgement, width: int | None = None) -> Iterator[str]:
    """Yield the lines about one case, at most `width` cells wide unless a name is wider."""
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
    """Yield `3 oracles pass`, then the proofs with an unexpected verdict."""
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
            return "is undecided"


def _wrapped(words: Iterable[str], width: int) -> Iterator[str]:
    """Join `words` with commas, wrapped to `width`."""
    line = ""
    for word in words:
        longer = f"{line}, {word}" if line else f"  {word}"
        if line and cell_width(longer) + 1 > width:
            yield f"{line},"
            longer = f"  {word}"
        line = longer
    if line:
        yield line


PAGE_WIDTH = 100
HEAD = """\
# Mutation tables of the suites

`plan bench validate --all -o md` prints this page. It runs every proof of every suite. A row is a check, a column a
mutant: an answer that is wrong in one way.
"""


@frozen
class SuiteMatrix:
    """A suite on the page that `matrix_page` writes."""

    name: str
    about: str
    judgements: tuple[CaseJudgement, ...]


def matrix_page(parts: Sequence[SuiteMatrix]) -> str:
    """The Markdown page: totals of all suites, then each suite with its cases."""
    head = "| suite | cases | checks | oracles pass | mutants fail | cheats fail | nop fails |\n" + "|---" * 7 + "|"
    rows = "\n".join(map(_row, parts))
    return "\n".join([HEAD, head, rows, "", f"`{LEGEND}`", *(_section(part) for part in parts)])


def _row(part: SuiteMatrix) -> str:
    sums = [
        _share(part.judgements, kind) for kind in (ModelKind.ORACLE, ModelKind.MUTANT, ModelKind.CHEAT, ModelKind.NOP)
    ]
    checks = sum(len(judged.checks) for judged in part.judgements)
    return f"| {part.name} | {len(part.judgements)} | {checks} | {' | '.join(sums)} |"


def _share(judgements: Iterable[CaseJudgement], kind: ModelKind) -> str:
    """`12 of 12`: proofs with the expected verdict, and all proofs."""
    right = CaseVerdict.PASS if kind is ModelKind.ORACLE else CaseVerdict.FAIL
    proofs = [proof for judged in judgements for proof in judged.of(kind)]
    return f"{sum(proof.verdict is right for proof in proofs)} of {len(proofs)}"


def _section(part: SuiteMatrix) -> str:
    shown = "\n\n".join("\n".join(_case(judged)) for judged in part.judgements)
    return f"\n## {part.name}\n\n{part.about}\n\n```text\n{shown}\n```"


def _case(judged: CaseJudgement) -> Iterator[str]:
    return matrix_lines(judged, PAGE_WIDTH)
