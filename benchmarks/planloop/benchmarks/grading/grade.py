"""Grade one attempt: export its workspace, start its program, run every check, decide the verdict."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from math import fsum
from pathlib import Path
from typing import Final

import anyio.to_thread

from planloop.benchmarks.case_controller import GradedCase
from planloop.benchmarks.checks import soft_figures
from planloop.benchmarks.checks.calls import conduct_figures
from planloop.benchmarks.checks.evidence import Evidence
from planloop.benchmarks.grading import containers, export
from planloop.benchmarks.grading.context import GradingContext
from planloop.benchmarks.grading.run_check import JUDGES, CheckRunner, count_work_errors, has_command, looks_at_files
from planloop.benchmarks.runs.plan import entry_workspace, task_name
from planloop.benchmarks.runs.run_compiler import CompiledRun, RunEntry, fill_for_entry, make_nonce
from planloop.containers.engine.engine import EngineFailed
from planloop.controllers.task.checks.run import CheckEnvironment, CheckFinding
from planloop.reconciler.effects.processes import CommandSandbox
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.case import CaseSpec, CaseStopReason, CaseVerdict, case_from_json
from planloop.schemas.objects.sandbox import BUBBLEWRAP
from planloop.schemas.objects.task import CheckSpec, TaskState, check_from_json
from planloop.schemas.resource import Resource
from planloop.schemas.spec.template_placeholders import nonce_names

# These ends of a task say nothing about the agent: the world failed, and the case is an `error`.

OF_THE_WORLD: Final = frozenset({"ContainerFailed", "NoSandbox", "ParentFailed", "NeedsFailed", "NeedsCancelled"})
"""Reasons of a task's `Ready` condition that are nobody's work."""


def infrastructure_failure(case: Resource, task: Resource, containers: Iterable[Resource]) -> str:
    """What of the world failed, in a sentence; empty when the task came to an end that says something.

    `containers` are those that it worked in.
    """
    cut = case.status.get("cut")
    if cut == CaseStopReason.WORLD:
        return str(case.status.get("why", ""))
    if task.state == TaskState.CANCELLED and cut is None:
        return "it was cancelled"
    ready = (task.status.get("conditions") or {}).get("Ready") or {}
    lost = next((one.address for one in containers if _is_lost(one)), "")
    if lost:
        return f"{lost} went away while it was worked in"
    return f"{ready['reason']}: {ready.get('message', '')}" if ready.get("reason") in OF_THE_WORLD else ""


def _is_lost(container: Resource) -> bool:
    """Whether it ended, or was started or made again: nothing that is at work in it asks for that."""
    status = container.status
    again = max(int(status.get("starts", 0)), int(status.get("incarnation", 0)))
    return again > 1 or bool(status.get("failures") or status.get("losses"))


PROGRAM_CHECK: Final = "program"
CHECK_FILES: Final = "checks"
REPEATED: Final = frozenset({"http", "web", "ws"})
ENCLOSED: Final = CommandSandbox(BUBBLEWRAP, is_alone=True)
"""What commands of checks run in where there is no container: they may well run what the agent wrote, and that must
find no answer beside it."""


@frozen
class _Attempt:
    """What is graded: `case` is the compiled case, filled in for the entry; `evidence` what its agent did."""

    name: str
    case: JsonObject
    checks: tuple[CheckSpec, ...]
    folder: Path
    evidence: Evidence


async def grade_attempt(ground: GradingContext, item: Resource, task: Resource) -> GradedCase:
    """The verdict on what `task` made for the case `item`. A fault of the world is an `error`, whatever checks say."""
    case = case_from_json(item.spec)
    fault = infrastructure_failure(item, task, ground.containers(item))
    if fault:
        return GradedCase(CaseVerdict.ERROR, fault)
    entry = ground.compiled.entries.get(case.entry)
    if entry is None:
        return GradedCase(CaseVerdict.ERROR, f"plan.json has no entry {case.entry}")
    try:
        graded = await _graded(ground, case, entry)
    except export.Ungradable as error:
        # Its own doing: as an error, which is not counted, it would be a way around being found wanting.
        return GradedCase(CaseVerdict.FAIL, str(error))
    except OSError as error:
        return GradedCase(CaseVerdict.ERROR, f"grading failed: {error}")
    except EngineFailed as failed:
        return GradedCase(CaseVerdict.ERROR, f"grading failed: {failed.words}")
    if item.status.get("cut") == CaseStopReason.LIMIT and graded.verdict is not CaseVerdict.PASS:
        return replace(graded, why=f"{item.status['why']}; {graded.why}")
    return graded


async def _graded(ground: GradingContext, case: CaseSpec, entry: RunEntry) -> GradedCase:
    name = task_name(entry.name, case.attempt)
    target = ground.folder / export.GRADED / name
    written = ground.compiled.cases[entry.case]
    compiled: JsonObject = fill_for_entry(ground.compiled, entry, written)
    pairs = zip(written["checks"], compiled["checks"], strict=True)
    checks = tuple(_check(ground.compiled, entry, blank, filled) for blank, filled in pairs)
    attempt = _Attempt(name, compiled, checks, target, await ground.witness(case))
    if _looks_at_work(attempt):  # A copy that nobody reads would cost as much as judging what is in the log.
        await _export(ground.folder / entry_workspace(entry.name, case.attempt), target)
    soft = conduct_figures(attempt.evidence.calls) | await _measured(attempt)
    # Before anything that the agent wrote is run: it could put links there that lead to what it should have made.
    looked = {check.key: await _looked(ground, attempt, check) for check in checks if looks_at_files(check)}
    tried = await _tried(ground, attempt, looked)
    if tried.is_killed:
        # By somebody outside, or made to look so by what was graded: then it fails again.
        tried = await _tried(ground, attempt, looked)
    soft |= tried.figures
    for figure in soft_figures.parse_soft_figures(attempt.case["soft"]):
        if figure.name == "runtime":
            soft["runtime"] = round(sum(result["timing"]["s"] for result in tried.results), 6)
        if not figure.sh and figure.name in soft:
            soft |= figure.limits(soft[figure.name])
    return decide_verdict(tried.results, soft)


@frozen
class _Tried:
    """`is_killed`: not all held, and a container was killed under it, so that it says nothing yet."""

    results: tuple[JsonObject, ...]
    figures: JsonObject
    is_killed: bool = False


async def _tried(ground: GradingContext, attempt: _Attempt, looked: Mapping[str, JsonObject]) -> _Tried:
    """All checks, in containers made for this; those that were `looked` at have their results. Raises EngineFailed."""
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(_served(ground, attempt))
        if served is not None and not served.url:
            # There is nobody to ask: what became of the program is all there is to say.
            log = {"log": served.log} if served.log else {}
            finding = CheckFinding("fail", served.words, evidence=log)
            result = await _result(ground, PROGRAM_CHECK, PROGRAM_CHECK, finding, 0.0)
            return _Tried((result,), {}, await _is_killed(ground, served.ref))
        url = served.url if served is not None else ""
        checking = await stack.enter_async_context(_checking(ground, attempt, url))
        results: list[JsonObject] = []
        figures: list[Mapping[str, float]] = []
        for check in attempt.checks:
            if check.key in looked:
                results.append(looked[check.key])
                continue
            began = ground.clock.now()
            finding = await checking.check(check)
            figures.append(finding.figures)
            took_s = ground.clock.now() - began
            results.append(await _result(ground, check.key, check.kind, finding, took_s))
        own = dict(await _own_figures(checking, attempt))
        if all(result["result"] == "pass" for result in results):
            return _Tried(tuple(results), average_figures(figures) | own)
        program_ref = served.ref if served is not None else ""
        room_ref = checking.room.ref if checking.room is not None else ""
        return _Tried(tuple(results), average_figures(figures) | own, await _is_killed(ground, program_ref, room_ref))


async def _own_figures(checking: CheckRunner, attempt: _Attempt) -> list[tuple[str, float]]:
    """The soft figures that commands of the suite measure, after all checks: they change what these find in nothing."""
    found: list[tuple[str, float]] = []
    for figure in _commands(attempt):
        found += figure.with_limits(figure.read_from(await checking.check(figure.check)))
    return found


def _commands(attempt: _Attempt) -> list[soft_figures.SoftFigure]:
    return [one for one in soft_figures.parse_soft_figures(attempt.case["soft"]) if one.sh]


async def _is_killed(ground: GradingContext, program_ref: str, room_ref: str = "") -> bool:
    """Whether one of these containers was. Raises EngineFailed when one is not there, or nobody tells."""
    refs = ((program_ref, True), (room_ref, False))
    killed = [await containers.was_killed(ground.engine(), ref, ends_itself=own) for ref, own in refs if ref]
    return any(killed)


async def _looked(ground: GradingContext, attempt: _Attempt, check: CheckSpec) -> JsonObject:
    began = ground.clock.now()
    finding = count_work_errors(check, await ground.run_check(check, _bench(ground, attempt)))
    return await _result(ground, check.key, check.kind, finding, ground.clock.now() - began)


async def _export(source: Path, target: Path) -> None:
    if export.is_light(source):
        export.export_workspace(source, target)
    else:
        await anyio.to_thread.run_sync(export.export_workspace, source, target)


def _looks_at_work(attempt: _Attempt) -> bool:
    """Whether anything that is asked of the case is found out from the files that were left, not from the log alone."""
    return (
        attempt.case["serve"] is not None
        or bool(attempt.case["soft"])
        or any(check.kind not in JUDGES for check in attempt.checks)
    )


def _bench(ground: GradingContext, attempt: _Attempt) -> CheckEnvironment:
    label = f"{ground.label}-{attempt.name}"
    folder = str(attempt.folder)  # Made for the attempt, around which nothing of it writes.
    return CheckEnvironment(ground.processes, ground.ids, folder, None, ground.env, label=label, sandbox=ENCLOSED)


async def _measured(attempt: _Attempt) -> JsonObject:
    """The soft figures that the case asks for, of what was left before a program or a check touched it."""
    wanted = attempt.case["soft"]
    if not wanted:
        return {}
    return await anyio.to_thread.run_sync(_figures, attempt)


def _figures(attempt: _Attempt) -> JsonObject:
    names = {one.name for one in soft_figures.parse_soft_figures(attempt.case["soft"])}
    return dict(soft_figures.measure_code(names, attempt.case["files"], soft_figures.read_texts(attempt.folder)))


def _check(compiled: CompiledRun, entry: RunEntry, written: JsonObject, filled: JsonObject) -> CheckSpec:
    """A check with the entry's nonces; one that is done several times makes more of them, so it is told them."""
    spec = check_from_json(filled)
    if spec.kind not in REPEATED:
        return spec
    nonces = {name: make_nonce(compiled.settings.seed, entry.case, entry.trial, name) for name in nonce_names(written)}
    return replace(spec, arguments=spec.arguments | {"nonces": nonces}) if nonces else spec


@asynccontextmanager
async def _served(ground: GradingContext, attempt: _Attempt) -> AsyncIterator[containers.ProgramStart | None]:
    """The program that was made, in a container of its own; None for cases that make none."""
    if attempt.case["serve"] is None:
        yield None
        return
    made = containers.GradedProgram(
        attempt.case["serve"], attempt.folder, _image(ground, attempt), attempt.name, ground.label
    )
    async with containers.run_program(ground.engine(), made) as served:
        yield served


@asynccontextmanager
async def _checking(ground: GradingContext, attempt: _Attempt, url: str) -> AsyncIterator[CheckRunner]:
    """Where its checks are run. Commands get a container that the program never was in."""
    bench = _bench(ground, attempt)
    checking = CheckRunner(attempt.evidence, bench, ground.run_check, url=url)
    has_commands = any(has_command(check) for check in attempt.checks) or bool(_commands(attempt))
    if not attempt.case["image"] or not has_commands:
        yield checking
        return
    files = await anyio.to_thread.run_sync(_check_files, ground.folder, attempt)
    image = _image(ground, attempt)
    async with containers.open_check_container(
        ground.engine(), ground.label, attempt.name, image, attempt.folder, files
    ) as inside:
        yield CheckRunner(attempt.evidence, bench, ground.run_check, inside, url)


def _image(ground: GradingContext, attempt: _Attempt) -> str:
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


async def _result(ground: GradingContext, name: str, kind: str, finding: CheckFinding, took_s: float) -> JsonObject:
    """One result as events have it."""
    evidence: Mapping[str, bytes] = finding.evidence or ({"output": finding.output} if finding.output else {})
    blobs = ground.blobs.kept(evidence) if evidence else {}
    if blobs is None:
        blobs = await anyio.to_thread.run_sync(ground.blobs.keep, dict(evidence))
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


def average_figures(figures: Sequence[Mapping[str, float]]) -> JsonObject:
    """The figures of a case from those of its checks: of each the mean over the checks that have it."""
    found: dict[str, list[float]] = {}
    for name, value in (figure for one in figures for figure in one.items()):
        found.setdefault(name, []).append(value)
    return {name: fsum(values) / len(values) for name, values in found.items()}


def decide_verdict(results: Sequence[JsonObject], soft: JsonObject) -> GradedCase:
    """All must hold: one that failed decides, whatever came of the others. Else one that could not be run leaves the
    case undecided."""
    by_result: dict[str, list[JsonObject]] = {}
    for one in results:
        by_result.setdefault(one["result"], []).append(one)
    for verdict in (CaseVerdict.FAIL, CaseVerdict.ERROR, CaseVerdict.INVALID):
        found = by_result.get(verdict)
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            return GradedCase(verdict, f"{found[0]['check']}: {found[0]['message']}{more}", tuple(results), soft)
    if not results:
        return GradedCase(CaseVerdict.INVALID, "no check was run", (), soft)
    return GradedCase(CaseVerdict.PASS, f"all of {len(results)} checks hold", tuple(results), soft)
