"""Grading one attempt: export what it made, start it if it is a program, run every check, and say what came of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio.to_thread

from benchmarks.compiling.compiled import Compiled, Entry
from benchmarks.compiling.compiling import for_entry
from benchmarks.compiling.filling import nonce
from benchmarks.controller.acting import Graded
from benchmarks.grading import exporting, measuring, program, room
from benchmarks.grading.blobs import keep
from benchmarks.grading.checking import Checking, has_command, looks_at_files
from benchmarks.grading.faults import infrastructure
from benchmarks.grading.ground import Ground
from benchmarks.planning import task_name, workspace
from containers.engine import EngineFailed
from controllers.task.checking import Bench, Finding
from reconciler.effects.processes import Sandbox
from schemas.blanks import nonce_names
from schemas.case import CaseSpec, Cut, Verdict, case_from_json
from schemas.encoding import JsonObject
from schemas.frozen import frozen
from schemas.resource import Resource
from schemas.sandbox import BUBBLEWRAP
from schemas.task import CheckSpec, check_from_json

PROGRAM: Final = "program"
CHECK_FILES: Final = "checks"
REPEATED: Final = frozenset({"http", "web", "ws"})
ENCLOSED: Final = Sandbox(BUBBLEWRAP, is_alone=True)
"""What commands of checks run in where there is no container: they may well run what the agent wrote, and that must
find no answer beside it."""


@frozen
class _Attempt:
    """What is graded: `case` is the compiled case, filled in for the entry."""

    name: str
    case: JsonObject
    checks: tuple[CheckSpec, ...]
    folder: Path


async def grade(ground: Ground, item: Resource, task: Resource) -> Graded:
    """The verdict on what `task` made for the case `item`. A fault of the world is an `error`, whatever checks say."""
    case = case_from_json(item.spec)
    fault = infrastructure(item, task, ground.containers(item))
    if fault:
        return Graded(Verdict.ERROR, fault)
    entry = ground.compiled.entries.get(case.entry)
    if entry is None:
        return Graded(Verdict.ERROR, f"plan.json has no entry {case.entry}")
    try:
        graded = await _graded(ground, case, entry)
    except exporting.TooLarge as error:
        # Its own doing: as an error, which is not counted, it would be a way around being found wanting.
        return Graded(Verdict.FAIL, str(error))
    except OSError as error:
        return Graded(Verdict.ERROR, f"grading failed: {error}")
    except EngineFailed as failed:
        return Graded(Verdict.ERROR, f"grading failed: {failed.words}")
    if item.status.get("cut") == Cut.LIMIT and graded.verdict is not Verdict.PASS:
        return replace(graded, why=f"{item.status['why']}; {graded.why}")
    return graded


async def _graded(ground: Ground, case: CaseSpec, entry: Entry) -> Graded:
    name = task_name(entry.name, case.attempt)
    source, target = ground.folder / workspace(entry.name, case.attempt), ground.folder / exporting.GRADED / name
    await anyio.to_thread.run_sync(exporting.export, source, target)
    compiled: JsonObject = for_entry(ground.compiled, entry, ground.compiled.cases[entry.case])
    checks = tuple(_check(ground.compiled, entry, each) for each in ground.compiled.cases[entry.case]["checks"])
    attempt = _Attempt(name, compiled, checks, target)
    soft = await _measured(attempt)
    # Before anything that the agent wrote is run: it could put links there that lead to what it should have made.
    looked = {check.key: await _looked(ground, attempt, check) for check in checks if looks_at_files(check)}
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(_served(ground, attempt))
        if served is not None and not served.url:
            # There is nobody to ask: what became of the program is all there is to say.
            log = {"log": served.log} if served.log else {}
            finding = Finding("fail", served.words, evidence=log)
            return verdict_of([await _result(ground, PROGRAM, PROGRAM, finding, 0.0)], soft)
        url = served.url if served is not None else ""
        checking = await stack.enter_async_context(_checking(ground, case, attempt, url))
        results: list[JsonObject] = []
        for check in checks:
            if check.key in looked:
                results.append(looked[check.key])
                continue
            began = ground.clock.now()
            checked = await checking.check(check)
            soft |= checked.figures
            took_s = ground.clock.now() - began
            results.append(await _result(ground, check.key, check.kind, checked.finding, took_s))
    if "runtime" in attempt.case["soft"]:
        soft["runtime"] = round(sum(result["timing"]["s"] for result in results), 6)
    return verdict_of(results, soft)


async def _looked(ground: Ground, attempt: _Attempt, check: CheckSpec) -> JsonObject:
    began = ground.clock.now()
    finding = await ground.run_check(check, _bench(ground, attempt))
    return await _result(ground, check.key, check.kind, finding, ground.clock.now() - began)


def _bench(ground: Ground, attempt: _Attempt) -> Bench:
    label = f"{ground.label}-{attempt.name}"
    return Bench(ground.processes, ground.ids, str(attempt.folder), ground.env, label=label, sandbox=ENCLOSED)


async def _measured(attempt: _Attempt) -> JsonObject:
    """The soft figures that the case asks for, of what was left before a program or a check touched it."""
    wanted = attempt.case["soft"]
    if not wanted:
        return {}
    return await anyio.to_thread.run_sync(_figures, attempt)


def _figures(attempt: _Attempt) -> JsonObject:
    return dict(measuring.measured(attempt.case["soft"], attempt.case["files"], measuring.texts(attempt.folder)))


def _check(compiled: Compiled, entry: Entry, written: JsonObject) -> CheckSpec:
    """A check with the entry's nonces; one that is done several times makes more of them, so it is told them."""
    spec = check_from_json(for_entry(compiled, entry, written))
    nonces = {name: nonce(compiled.seed, entry.case, entry.trial, name) for name in nonce_names(written)}
    return replace(spec, arguments=spec.arguments | {"nonces": nonces}) if spec.kind in REPEATED and nonces else spec


@asynccontextmanager
async def _served(ground: Ground, attempt: _Attempt) -> AsyncIterator[program.Serving | None]:
    """The program that was made, in a container of its own; None for cases that make none."""
    if attempt.case["serve"] is None:
        yield None
        return
    made = program.Program(attempt.case["serve"], attempt.folder, _image(ground, attempt), attempt.name, ground.label)
    async with program.serving(ground.engine(), made) as served:
        yield served


@asynccontextmanager
async def _checking(ground: Ground, case: CaseSpec, attempt: _Attempt, url: str) -> AsyncIterator[Checking]:
    """Where its checks are run. Commands get a container that the program never was in."""
    evidence = await ground.witness(case)
    bench = _bench(ground, attempt)
    checking = Checking(evidence, bench, ground.run_check, url=url)
    if not attempt.case["image"] or not any(has_command(check) for check in attempt.checks):
        yield checking
        return
    files = await anyio.to_thread.run_sync(_check_files, ground.folder, attempt)
    image = _image(ground, attempt)
    async with room.opened(ground.engine(), ground.label, attempt.name, image, attempt.folder, files) as inside:
        yield Checking(evidence, bench, ground.run_check, inside, url)


def _image(ground: Ground, attempt: _Attempt) -> str:
    """The id of the image that was worked in."""
    name: str = attempt.case["image"]
    return ground.compiled.images.get(name, name)


def _check_files(run: Path, attempt: _Attempt) -> Path:
    """The folder with the case's files for checks, which no agent ever sees."""
    folder = run / CHECK_FILES / attempt.name
    for path, text in attempt.case["check_files"].items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


async def _result(ground: Ground, name: str, kind: str, finding: Finding, took_s: float) -> JsonObject:
    """One result as events have it."""
    evidence: Mapping[str, bytes] = finding.evidence or ({"output": finding.output} if finding.output else {})
    blobs = await anyio.to_thread.run_sync(keep, ground.folder, dict(evidence)) if evidence else {}
    # A pass without a look at anything is no pass.
    result = "invalid" if finding.result == "pass" and finding.probes < 1 else finding.result
    return {
        "check": name,
        "kind": kind,
        "result": result,
        "message": finding.message,
        "probes": finding.probes,
        "blobs": blobs,
        "timing": {"s": round(took_s, 6)},
    }


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
