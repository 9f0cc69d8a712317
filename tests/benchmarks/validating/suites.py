"""Suites made up for validating, and entries as their runs would leave them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from planloop.benchmarks.runs.contestants import proofs_as_contestants
from planloop.benchmarks.scoring.fold import EntryResult
from planloop.benchmarks.suite import Case, Suite
from planloop.benchmarks.suite_parser import read_suite
from planloop.schemas.objects.case import CaseVerdict

SOUND: dict[str, Any] = {
    "prompts": ["write {{nonce.word}} into a.txt"],
    "checks": {"there": {"require-file": "a.txt"}, "right": {"contains": {"path": "a.txt", "text": "{{nonce.word}}"}}},
    "proof": {
        "oracles": {name: {"files": {"a.txt": "{{nonce.word}}"}, "says": name} for name in ("plain", "long", "short")},
        "mutants": {
            "other-word": {"files": {"a.txt": "x"}, "kills": ["right"]},
            "other-file": {"files": {"b.txt": "{{nonce.word}}"}, "kills": ["there"]},
        },
    },
}


class NoFiles:
    """Beside these suites lies nothing."""

    def read(self, path: str) -> bytes:
        raise FileNotFoundError(path)

    def tree(self, path: str) -> Mapping[str, bytes]:
        raise FileNotFoundError(path)


def suite_of(**cases: Any) -> Suite:
    """The suite with `cases`, which are as a file would have them."""
    read = read_suite(json.dumps({"suite": "made-up", "cases": cases}).encode(), file="suite.yaml", sources=NoFiles())
    assert read.suite is not None, read.diagnostics
    return read.suite


def entries(case: Case, *but: tuple[str, CaseVerdict | None, tuple[str, ...]]) -> Iterator[EntryResult]:
    """What a run of a sound case leaves: oracles pass, mutants fail by what they name, all others by every check.

    `but` are the names of proofs of which something else came, with their verdicts and the checks that fail; a verdict
    of None for one that never ended.
    """
    others = {name: (verdict, failed) for name, verdict, failed in but}
    for who in proofs_as_contestants(case):
        every = tuple(check.key for check in case.checks)
        killed = {"oracle": (), "mutant": case.proofs.mutants[who.ref].kills if who.kind == "mutant" else ()}
        failed = killed.get(who.kind, every)
        verdict, failed = others.get(who.name, (CaseVerdict.FAIL if failed else CaseVerdict.PASS, failed))
        if verdict is not None:
            checks = {key: "fail" if key in failed else "pass" for key in every}
            yield EntryResult(case.id, who.name, 1, verdict=verdict, why="because", checks=checks)
