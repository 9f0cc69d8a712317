"""What is remembered of validations: for each case, whether it was valid as it then was. Pure.

A case is known by the digest of all that it is made of, so that one that was edited since is not known. Cases that were
validated at different times stand side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict

from planloop.benchmarks.compiling.compiled import SCORING
from planloop.benchmarks.reading.suite import Case, Suite
from planloop.benchmarks.validating.judging import Judgement
from planloop.schemas.encoding import JsonObject, digest_of

FILE = "validation.json"
FORMAT = 1


def digest_of_case(suite: Suite, case: Case) -> str:
    """Of everything that its validation depends on."""
    world = suite.worlds.get(case.world["use"]) if case.world else None
    pool = suite.pools.get(case.decoys["pool"]) if case.decoys else None
    return digest_of({"scoring": SCORING, "case": asdict(case), "world": world, "pool": pool})


def recorded(before: JsonObject, suite: Suite, judgements: Iterable[Judgement]) -> JsonObject:
    """`before`, which may be empty or of another format, with `judgements` laid over it. Cases that are gone go."""
    kept = before.get("cases", {}) if before.get("format") == FORMAT else {}
    new = {
        judged.case: {
            "digest": digest_of_case(suite, suite.cases[judged.case]),
            "valid": judged.is_valid,
            "codes": sorted({fault.code for fault in judged.faults}),
        }
        for judged in judgements
    }
    cases = {name: one for name, one in {**kept, **new}.items() if name in suite.cases}
    return {"format": FORMAT, "suite": suite.name, "cases": {name: cases[name] for name in sorted(cases)}}


def is_validated(record: JsonObject, suite: Suite, cases: Iterable[str]) -> bool | None:
    """Whether all `cases` were valid as they are now; None when none is known not to be, but not all are known."""
    known: Mapping[str, JsonObject] = record.get("cases", {}) if record.get("format") == FORMAT else {}
    found = [_valid(known.get(name), suite, suite.cases[name]) for name in cases]
    return False if False in found else None if None in found else True


def _valid(one: JsonObject | None, suite: Suite, case: Case) -> bool | None:
    return one["valid"] if one is not None and one["digest"] == digest_of_case(suite, case) else None
