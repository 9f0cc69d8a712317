"""Grading one attempt: export what it made, start it if it is a program, run every check, and say what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import Final

import anyio.to_thread

from benchmarks.checks import abstain, calls
from benchmarks.checks.contract import Evidence, Judge
from benchmarks.compiling.compiled import Entry
from benchmarks.compiling.compiling import for_entry
from benchmarks.controller.acting import Graded
from benchmarks.grading import exporting
from benchmarks.grading.blobs import keep
from benchmarks.grading.faults import infrastructure
from benchmarks.grading.ground import Ground
from benchmarks.planning import task_name, workspace
from controllers.task.checking import Bench, Finding
from schemas.case import CaseSpec, Verdict
from schemas.encoding import JsonObject
from schemas.frozen import frozen
from schemas.resource import Resource
from schemas.task import CheckSpec, check_from_json

JUDGES: Final[Mapping[str, Judge]] = MappingProxyType({"calls": calls.judge, "abstain": abstain.judge})


@frozen
class _Checked:
    """One check that was run: its result, with the soft figures that it has beside."""

    data: JsonObject
    figures: Mapping[str, float]


async def grade(ground: Ground, case: CaseSpec, task: Resource) -> Graded:
    """The verdict on what `task` made. A fault of the world is an `error`, whatever the checks might have said."""
    fault = infrastructure(task)
    if fault:
        return Graded(Verdict.ERROR, fault)
    entry = ground.compiled.entries.get(case.entry)
    if entry is None:
        return Graded(Verdict.ERROR, f"plan.json has no entry {case.entry}")
    try:
        return await _graded(ground, case, entry)
    except (OSError, exporting.TooLarge) as error:
        return Graded(Verdict.ERROR, f"grading failed: {error}")


async def _graded(ground: Ground, case: CaseSpec, entry: Entry) -> Graded:
    name = task_name(entry.name, case.attempt)
    source, target = ground.folder / workspace(entry.name, case.attempt), ground.folder / exporting.GRADED / name
    exported = await anyio.to_thread.run_sync(exporting.export, source, target)
    compiled = ground.compiled.cases[entry.case]
    checks = [check_from_json(each) for each in for_entry(ground.compiled, entry, compiled["checks"])]
    evidence = await ground.witness(case)
    bench = Bench(ground.processes, ground.ids, str(exported.folder), ground.env, label=f"{ground.label}-{name}")
    async with AsyncExitStack():  # The program under test goes here.
        checked = [await _check(ground, check, bench, evidence) for check in checks]
    return verdict_of([each.data for each in checked], _soft(checked))


async def _check(ground: Ground, check: CheckSpec, bench: Bench, evidence: Evidence) -> _Checked:
    began = ground.clock.now()
    figures: Mapping[str, float] = {}
    if check.kind in JUDGES:
        judged = JUDGES[check.kind](check.arguments, evidence)
        finding, figures = judged.finding(), judged.figures
    else:
        finding = await ground.run_check(check, bench)
    blobs = await anyio.to_thread.run_sync(keep, ground.folder, dict(finding.evidence)) if finding.evidence else {}
    data: JsonObject = {
        "check": check.key,
        "kind": check.kind,
        "result": _result(finding),
        "message": finding.message,
        "probes": finding.probes,
        "blobs": blobs,
        "timing": {"s": round(ground.clock.now() - began, 6)},
    }
    return _Checked(data, figures)


def _result(finding: Finding) -> str:
    """A pass without a look at anything is no pass."""
    return "invalid" if finding.result == "pass" and finding.probes < 1 else finding.result


def verdict_of(results: Sequence[JsonObject], soft: JsonObject) -> Graded:
    """All must hold. One that could not be run leaves the case undecided, whatever the others say."""
    by_result: dict[str, list[JsonObject]] = {}
    for one in results:
        by_result.setdefault(one["result"], []).append(one)
    for verdict in (Verdict.ERROR, Verdict.INVALID, Verdict.FAIL):
        found = by_result.get(verdict)
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            return Graded(verdict, f"{found[0]['check']}: {found[0]['message']}{more}", tuple(results), soft)
    if not results:
        return Graded(Verdict.INVALID, "no check was run", (), soft)
    return Graded(Verdict.PASS, f"all of {len(results)} checks hold", tuple(results), soft)


def _soft(checked: Sequence[_Checked]) -> JsonObject:
    return {name: value for one in checked for name, value in one.figures.items()}
