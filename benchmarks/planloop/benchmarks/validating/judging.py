"""What a run of all proofs says of its cases: which check told of which proof, and what is wrong. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from planloop.benchmarks.compiling.contestants import Contestant, provers_of
from planloop.benchmarks.reading.suite import Case
from planloop.benchmarks.scoring.folding import Entry
from planloop.benchmarks.scoring.kinds import Kind, kind_of
from planloop.schemas.case import Verdict
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen

ORACLES_MIN = 3
"""In different styles: fewer say little of whether the checks accept every right answer."""


@frozen
class Proof:
    """An agent whose verdict is known beforehand, and what became of it. `verdict` None: it did not come to an end.

    `failed` are the checks that told of it, `kills` those that had to.
    """

    name: str
    kind: Kind
    verdict: Verdict | None
    why: str
    failed: tuple[str, ...] = ()
    kills: tuple[str, ...] = ()

    @property
    def ref(self) -> str:
        """Its name among its kind."""
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
class Judgement:
    """A case: its checks and its proofs in the order of the suite, and what is wrong."""

    case: str
    checks: tuple[str, ...]
    proofs: tuple[Proof, ...]
    faults: tuple[Diagnostic, ...]

    @property
    def is_valid(self) -> bool:
        return not any(fault.severity == "error" for fault in self.faults)

    def of(self, kind: Kind) -> tuple[Proof, ...]:
        return tuple(proof for proof in self.proofs if proof.kind is kind)


def judge(cases: Iterable[Case], entries: Iterable[Entry]) -> tuple[Judgement, ...]:
    """Each of `cases` by what became of its proofs."""
    found = {(entry.case, entry.model): entry for entry in entries}
    return tuple(_judged(case, found) for case in cases)


def _judged(case: Case, entries: Mapping[tuple[str, str], Entry]) -> Judgement:
    proofs = tuple(_proof(who, case, entries.get((case.id, who.name))) for who in provers_of(case))
    checks = tuple(check.key for check in case.checks)
    return Judgement(case.id, checks, proofs, tuple(_faults(case, proofs, checks)))


def _proof(who: Contestant, case: Case, entry: Entry | None) -> Proof:
    kind = kind_of(who.name)
    kills = case.mutants[who.ref].kills if kind is Kind.MUTANT else ()
    if entry is None:
        return Proof(who.name, kind, None, "it did not come to an end", kills=kills)
    failed = tuple(check.key for check in case.checks if entry.checks.get(check.key) == Verdict.FAIL)
    return Proof(who.name, kind, entry.verdict, entry.why, failed, kills)


def _faults(case: Case, proofs: Iterable[Proof], checks: Iterable[str]) -> Iterator[Diagnostic]:
    proofs = tuple(proofs)
    at = ("cases", case.base)
    if len(case.oracles) < ORACLES_MIN:
        yield _few(case, (*at, "proof", "oracles") if case.oracles else at)
    for proof in proofs:
        yield from _of_proof(case, proof, at)
    dead = _dead(proofs, checks)
    for check in checks:
        if check in dead:
            summary = f"`{case.id}`: no mutant is killed by the check `{check}`"
            yield Diagnostic("P0506", summary, _A_MUTANT, (*at, "checks", check), on_key=True)


def _few(case: Case, to: tuple[str, ...]) -> Diagnostic:
    if not case.oracles:
        hint = "add `proof: {oracles: …}`: right answers, in three styles if there are so many"
        return Diagnostic("P0508", f"`{case.id}` has no oracle", hint, to, on_key=True)
    summary = f"`{case.id}` has {len(case.oracles)} of {ORACLES_MIN} oracles"
    hint = "add right answers in other styles: they show that the checks take every right answer"
    return Diagnostic("P0507", summary, hint, to, on_key=True, severity="warning")


def _of_proof(case: Case, proof: Proof, at: tuple[str, ...]) -> Iterator[Diagnostic]:
    to = (*at, "proof", f"{proof.kind}s", proof.ref)
    named = f"`{case.id}`: the {proof.kind} `{proof.ref}`"

    def fault(code: str, said: str, cure: str) -> Diagnostic:
        return Diagnostic(code, f"{named} {said}", cure, to, on_key=True)

    match proof.kind, proof.verdict:
        case _, None | Verdict.ERROR | Verdict.INVALID:
            summary = f"`{case.id}`: `{proof.name}` was not decided: {proof.why}"
            yield Diagnostic("P0509", summary, _UNDECIDED, to, on_key=True)
        case Kind.ORACLE, Verdict.FAIL:
            yield fault("P0501", f"fails: {proof.why}", "mend the check that is too narrow, or the oracle")
        case Kind.MUTANT, Verdict.PASS:
            told = " or ".join(f"`{check}`" for check in proof.kills)
            yield fault("P0502", "passes", f"make {told} stricter, or the mutant more wrong")
        case Kind.MUTANT, _:
            yield from (
                fault("P0503", f"is not killed by `{check}`, but by {_list(proof.failed)}", _NAME_ANOTHER)
                for check in proof.kills
                if check not in proof.failed
            )
        case Kind.CHEAT, Verdict.PASS:
            yield fault("P0504", "passes", "add a check that only the work itself can pass, with a `{{nonce.…}}`")
        case Kind.NOP, Verdict.PASS:
            summary = f"`{case.id}` is passed by doing nothing"
            yield Diagnostic("P0505", summary, "add a check that asks for something to have been done", at, on_key=True)
        case _:
            pass


_A_MUTANT = "add a mutant that only it can tell of, or leave the check out"
_NAME_ANOTHER = "make the check tell of it, or name another under `kills`"
_UNDECIDED = "mend what went wrong and validate again: `plan doctor` says what this machine lacks"


def _dead(proofs: Iterable[Proof], checks: Iterable[str]) -> frozenset[str]:
    told = {check for proof in proofs if proof.kind is Kind.MUTANT for check in proof.failed}
    return frozenset(checks) - told


def _list(names: Iterable[str]) -> str:
    return " and ".join(f"`{name}`" for name in names) or "none"
