"""Grade one attempt: export its workspace, start its program, run every check in its place, decide the verdict."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from math import fsum
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

import anyio.to_thread

from planloop.benchmarks.case_controller import GradedCase
from planloop.benchmarks.checks import abstain, calls, log, soft_figures, state
from planloop.benchmarks.checks.calls import conduct_figures
from planloop.benchmarks.checks.evidence import CheckJudge, Evidence
from planloop.benchmarks.grading import containers, export
from planloop.benchmarks.grading.containers import CheckContainer
from planloop.benchmarks.grading.context import GradingContext
from planloop.benchmarks.runs.plan import entry_workspace, task_name
from planloop.benchmarks.runs.run_compiler import CompiledRun, RunEntry, fill_for_entry, make_nonce
from planloop.containers.engine.engine import EngineFailed
from planloop.controllers.task.checks import command as checks_command
from planloop.controllers.task.checks.command import run_in_argv
from planloop.controllers.task.checks.run import CheckEnvironment, CheckFinding, CheckFunction, load_verdict
from planloop.reconciler.effects.processes import CommandSandbox, ExitCause, ProcessExit
from planloop.schemas import codec
from planloop.schemas.canonical_json import JsonObject, sha256_hex
from planloop.schemas.checks.kinds import CHECK_KINDS
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.case import CaseSpec, CaseStopReason, CaseVerdict, case_from_json
from planloop.schemas.objects.sandbox import BUBBLEWRAP
from planloop.schemas.objects.task import CheckSpec, TaskState
from planloop.schemas.resource import Resource
from planloop.schemas.spec.template_placeholders import fill_placeholders, nonce_names

# A check runs on the log, in a fresh container, against the program, or on files.

JUDGES: Final[Mapping[str, CheckJudge]] = MappingProxyType(
    {"calls": calls.judge_calls, "abstain": abstain.judge_abstain, "state": state.judge_state, "log": log.judge_log}
)
PROGRAM: Final = "program"
"""Stands for the program's host and port in all texts."""
_MARK_CHARS: Final = 24


@frozen
class CheckRunner:
    """Runs the checks of one attempt in `container`, or on this machine. `url` is the program's, empty without one."""

    evidence: Evidence
    bench: CheckEnvironment
    run_check: CheckFunction
    container: CheckContainer | None = None
    url: str = ""

    async def check(self, spec: CheckSpec) -> CheckFinding:
        """Run the check `spec`. Raises nothing except for cancellation."""
        judge = JUDGES.get(spec.kind)
        if judge is not None:
            return judge(spec.arguments, self.evidence)
        if has_command(spec):
            return await self._command(spec)
        found = count_work_errors(spec, await self.run_check(self._aimed(spec), self.bench))
        return without_address(found, self.url) if self.url else found

    async def _command(self, spec: CheckSpec) -> CheckFinding:
        if self.container is None:
            return judge_command_exit(
                spec, await checks_command.run_shell(spec.arguments, self.bench, spec.timeout_s), is_inside=False
            )
        mark = f"check.{sha256_hex(spec.key.encode())[:_MARK_CHARS]}"
        try:
            ended = await self.container.run(run_in_argv(spec.arguments), mark, spec.timeout_s, {})
        except EngineFailed as failed:
            return CheckFinding("error", failed.words)
        return judge_command_exit(spec, ProcessExit(ended.ending, ended.code, ended.output), is_inside=True)

    def _aimed(self, spec: CheckSpec) -> CheckSpec:
        """The check with the program's address if it has none. Requests to other hosts are not allowed."""
        alone = CHECK_KINDS[spec.kind].alone
        if alone is None:
            return spec
        arguments: JsonObject = fill_placeholders(spec.arguments, {"url": self.url})
        url = str(arguments.get("url", ""))
        aimed = url if "://" in url else self.url + url
        return replace(spec, arguments=arguments | {"url": aimed} | alone)


def without_address(found: CheckFinding, url: str) -> CheckFinding:
    """Return `found` with `program` for the host and port of `url`, which differ from run to run."""
    parts = urlsplit(url)
    call = f"('{parts.hostname}', {parts.port})", f"('{PROGRAM}', {parts.port})"  # The form in Python's errors.

    def renamed(text: str) -> str:
        return re.sub(rf"(?<![\w.]){re.escape(parts.netloc)}(?!\d)", PROGRAM, text).replace(*call)

    def seen(data: bytes) -> bytes:
        try:
            return renamed(data.decode()).encode()
        except UnicodeDecodeError:  # A picture.
            return data

    evidence = {name: seen(data) for name, data in found.evidence.items()}
    return replace(found, message=renamed(found.message), output=seen(found.output), evidence=evidence)


def has_command(spec: CheckSpec) -> bool:
    """Whether the check runs a command. It then runs in the container, if there is one."""
    return spec.kind in CHECK_KINDS and not spec.arguments.keys().isdisjoint(("shell", "argv"))


def looks_at_files(spec: CheckSpec) -> bool:
    """Whether the check reads a file on this machine and follows its links."""
    return spec.kind in CHECK_KINDS and "path" in spec.arguments


def count_work_errors(spec: CheckSpec, found: CheckFinding) -> CheckFinding:
    """Return `found`, with `fail` for an error that the work can have caused.

    Errors are counted in no rate, so otherwise an agent could avoid a failure by causing an error.
    """
    if found.result != "error" or not found.is_own:
        return found
    what = spec.arguments.get("path", "the work")
    return replace(
        found, result="fail", message=f"{found.message}: the check could not finish because of the content of {what}"
    )


def judge_command_exit(spec: CheckSpec, exit_: ProcessExit, *, is_inside: bool) -> CheckFinding:
    """Judge a command: if it has no exit code and the work can be the cause, the check fails.

    If it ran inside a container (`is_inside`), a program that cannot start is a failure of the work: the image has
    every program that the suite needs.
    """
    command = checks_command.command_text(spec.arguments)
    trouble = checks_command.explain_no_exit(exit_, spec.timeout_s)
    if trouble is None:
        found = load_verdict(spec.kind)(spec, exit_.code, exit_.output)
        return replace(found, result="fail") if found.result == "error" else found
    is_lacking = exit_.ending is ExitCause.NOT_STARTED and (is_inside or _is_of_the_work(spec.arguments))
    is_own = trouble.is_own or is_lacking
    return replace(trouble, result="fail", message=f"{command}: {trouble.message}") if is_own else trouble


def _is_of_the_work(arguments: JsonObject) -> bool:
    """Whether the program is a path in the workspace, so that only the agent can have created it."""
    program = next(iter(arguments.get("argv", ())), "")
    return "/" in program and not program.startswith("/")


# If a task ends for one of these reasons, the infrastructure failed. It says nothing about the agent: an `error`.

OF_THE_WORLD: Final = frozenset({"ContainerFailed", "NoSandbox", "ParentFailed", "NeedsFailed", "NeedsCancelled"})
"""Reasons of a task's `Ready` condition."""


def infrastructure_failure(case: Resource, task: Resource, containers: Iterable[Resource]) -> str:
    """Return the infrastructure failure that ended the task, as a sentence; empty if the agent decided the result.

    `containers` are the containers that the task used.
    """
    cut = case.status.get("cut")
    if cut == CaseStopReason.WORLD:
        return str(case.status.get("why", ""))
    if task.state == TaskState.CANCELLED and cut is None:
        return "the task was cancelled"
    ready = (task.status.get("conditions") or {}).get("Ready") or {}
    lost = next((one.address for one in containers if _is_lost(one)), "")
    if lost:
        return f"{lost} stopped or was replaced while the task used it"
    return f"{ready['reason']}: {ready.get('message', '')}" if ready.get("reason") in OF_THE_WORLD else ""


def _is_lost(container: Resource) -> bool:
    """Whether the container ended, or was restarted or created again. No agent inside it can do that."""
    status = container.status
    again = max(int(status.get("starts", 0)), int(status.get("incarnation", 0)))
    return again > 1 or bool(status.get("failures") or status.get("losses"))


PROGRAM_CHECK: Final = "program"
CHECK_FILES: Final = "checks"
ENCLOSED: Final = CommandSandbox(BUBBLEWRAP, is_alone=True)
"""Sandbox of check commands outside of containers: they may run the agent's code, which must not find answers."""


@frozen
class _Attempt:
    """The attempt to grade. `case` is the compiled case, filled in for the entry; `folder` is for the workspace's
    copy."""

    name: str
    case: JsonObject
    checks: tuple[CheckSpec, ...]
    soft: tuple[soft_figures.SoftFigure, ...]
    workspace: Path
    folder: Path
    evidence: Evidence


async def grade_attempt(context: GradingContext, item: Resource, task: Resource) -> GradedCase:
    """Return the verdict on the result of `task` for the case `item`.

    An infrastructure failure is an `error`, whatever the results of the checks.
    """
    case = case_from_json(item.spec)
    failure = infrastructure_failure(item, task, context.containers(item))
    if failure:
        return GradedCase(CaseVerdict.ERROR, failure)
    entry = context.compiled.entries.get(case.entry)
    if entry is None:
        return GradedCase(CaseVerdict.ERROR, f"plan.json has no entry {case.entry}")
    try:
        graded = await _AttemptGrader(context, await _attempt(context, case, entry)).grade()
    except export.Ungradable as error:
        # The agent caused it. Errors are counted in no rate, so an error would be a way to avoid a failure.
        return GradedCase(CaseVerdict.FAIL, str(error))
    except OSError as error:
        return GradedCase(CaseVerdict.ERROR, f"grading failed: {error}")
    except EngineFailed as failed:
        return GradedCase(CaseVerdict.ERROR, f"grading failed: {failed.words}")
    if item.status.get("cut") == CaseStopReason.LIMIT and graded.verdict is not CaseVerdict.PASS:
        return replace(graded, why=f"{item.status['why']}; {graded.why}")
    return graded


async def _attempt(context: GradingContext, case: CaseSpec, entry: RunEntry) -> _Attempt:
    written = context.compiled.cases[entry.case]
    filled: JsonObject = fill_for_entry(context.compiled, entry, written)
    pairs = zip(written["checks"], filled["checks"], strict=True)
    name = task_name(entry.name, case.attempt)
    return _Attempt(
        name,
        filled,
        tuple(_check(context.compiled, entry, blank, check) for blank, check in pairs),
        tuple(soft_figures.parse_soft_figures(filled["soft"])),
        context.folder / entry_workspace(entry.name, case.attempt),
        context.folder / export.GRADED / name,
        await context.witness(case),
    )


def _check(compiled: CompiledRun, entry: RunEntry, written: JsonObject, filled: JsonObject) -> CheckSpec:
    """The check with the entry's nonces. A kind that needs more nonces gets the argument `nonces`."""
    spec = codec.from_json(CheckSpec, filled)
    if spec.kind not in CHECK_KINDS or not CHECK_KINDS[spec.kind].makes_nonces:
        return spec
    nonces = {name: make_nonce(compiled.settings.seed, entry.case, entry.trial, name) for name in nonce_names(written)}
    return replace(spec, arguments=spec.arguments | {"nonces": nonces}) if nonces else spec


@frozen
class _CheckResults:
    """Results of all checks. `is_killed`: a check did not pass and a container was killed, so the results do not
    count."""

    results: tuple[JsonObject, ...]
    figures: JsonObject
    is_killed: bool = False


class _AttemptGrader:
    """Runs the checks of one attempt."""

    def __init__(self, context: GradingContext, attempt: _Attempt) -> None:
        self._context = context
        self._attempt = attempt
        self._case = attempt.case
        self._image: str = context.compiled.images.get(attempt.case["image"], attempt.case["image"])
        self._soft_commands = [figure for figure in attempt.soft if figure.sh]
        # The folder was created for the attempt, and nothing of the attempt writes outside of it.
        self._environment = CheckEnvironment(
            context.processes,
            context.ids,
            str(attempt.folder),
            None,
            context.env,
            label=f"{context.label}-{attempt.name}",
            sandbox=ENCLOSED,
        )

    async def grade(self) -> GradedCase:
        """Return the verdict. Raises OSError, EngineFailed and Ungradable."""
        attempt = self._attempt
        if self._reads_files():  # Copying files that no check reads would cost as much as judging the log.
            await self._export()
        soft = conduct_figures(attempt.evidence.calls) | await self._code_figures()
        # Before any program of the agent runs, which could add links to the files that the checks expect.
        looked = {check.key: await self._look(check) for check in attempt.checks if looks_at_files(check)}
        found = await self._run_checks(looked)
        if found.is_killed:
            # Killed from outside, or by the graded program itself, which looks the same and then fails again.
            found = await self._run_checks(looked)
        soft |= found.figures
        for figure in attempt.soft:
            if figure.name == "runtime":
                soft["runtime"] = round(sum(result["timing"]["s"] for result in found.results), 6)
            if not figure.sh and figure.name in soft:
                soft |= figure.limits(soft[figure.name])
        return decide_verdict(found.results, soft)

    def _reads_files(self) -> bool:
        """Whether grading needs the files of the workspace, not only the log."""
        is_logged_only = all(check.kind in JUDGES for check in self._attempt.checks)
        return self._case["serve"] is not None or bool(self._case["soft"]) or not is_logged_only

    async def _export(self) -> None:
        source, target = self._attempt.workspace, self._attempt.folder
        if export.is_light(source):
            export.export_workspace(source, target)
        else:
            await anyio.to_thread.run_sync(export.export_workspace, source, target)

    async def _code_figures(self) -> JsonObject:
        """Measure the figures of code, before a program or a check changes a file."""
        attempt = self._attempt
        if not attempt.soft:
            return {}
        after = await anyio.to_thread.run_sync(soft_figures.read_texts, attempt.folder)
        return dict(soft_figures.measure_code({one.name for one in attempt.soft}, self._case["files"], after))

    async def _look(self, check: CheckSpec) -> JsonObject:
        began = self._context.clock.now()
        finding = count_work_errors(check, await self._context.run_check(check, self._environment))
        return await self._result(check.key, check.kind, finding, began)

    async def _run_checks(self, looked: Mapping[str, JsonObject]) -> _CheckResults:
        """Run all checks in fresh containers, except those with a result in `looked`. Raises EngineFailed."""
        async with AsyncExitStack() as stack:
            program = await stack.enter_async_context(self._program())
            if program is not None and not program.url:
                log = {"log": program.log} if program.log else {}
                finding = CheckFinding("fail", program.words, evidence=log)
                result = await self._result(PROGRAM_CHECK, PROGRAM_CHECK, finding)
                return _CheckResults((result,), {}, await self._is_killed(program.ref))
            runner = await stack.enter_async_context(self._runner(program.url if program is not None else ""))
            results: list[JsonObject] = []
            figures: list[Mapping[str, float]] = []
            for check in self._attempt.checks:
                if check.key in looked:
                    results.append(looked[check.key])
                    continue
                began = self._context.clock.now()
                finding = await runner.check(check)
                figures.append(finding.figures)
                results.append(await self._result(check.key, check.kind, finding, began))
            measured = average_figures(figures)
            for figure in self._soft_commands:  # After all checks, so that these commands cannot change their results.
                measured |= figure.with_limits(figure.read_from(await runner.check(figure.check)))
            is_killed = False
            if any(result["result"] != "pass" for result in results):
                container_ref = runner.container.ref if runner.container is not None else ""
                is_killed = await self._is_killed(program.ref if program is not None else "", container_ref)
            return _CheckResults(tuple(results), measured, is_killed)

    async def _is_killed(self, program_ref: str, container_ref: str = "") -> bool:
        """Whether one of these containers was killed. Raises EngineFailed if one is missing or cannot be asked."""
        refs = ((program_ref, True), (container_ref, False))
        engine = self._context.engine
        return any([await containers.was_killed(engine(), ref, ends_itself=own) for ref, own in refs if ref])

    @asynccontextmanager
    async def _program(self) -> AsyncIterator[containers.ProgramStart | None]:
        """Run the program of the attempt in a fresh container; None if the case has no program."""
        attempt, serve = self._attempt, self._case["serve"]
        if serve is None:
            yield None
            return
        program = containers.GradedProgram(serve, attempt.folder, self._image, attempt.name, self._context.label)
        async with containers.run_program(self._context.engine(), program) as started:
            yield started

    @asynccontextmanager
    async def _runner(self, url: str) -> AsyncIterator[CheckRunner]:
        """Yield a runner for the checks. Commands get a container in which the program never ran."""
        context, attempt = self._context, self._attempt
        runner = CheckRunner(attempt.evidence, self._environment, context.run_check, url=url)
        has_commands = any(map(has_command, attempt.checks)) or bool(self._soft_commands)
        if not self._case["image"] or not has_commands:
            yield runner
            return
        files = await anyio.to_thread.run_sync(self._write_check_files)
        async with containers.open_check_container(
            context.engine(), context.label, attempt.name, self._image, attempt.folder, files
        ) as container:
            yield replace(runner, container=container)

    def _write_check_files(self) -> Path:
        """Write the case's files for checks, which no agent ever sees, and return their folder."""
        folder = self._context.folder / CHECK_FILES / self._attempt.name
        for path, text in self._case["check_files"].items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    async def _result(self, name: str, kind: str, finding: CheckFinding, began: float | None = None) -> JsonObject:
        """A result in the form of events. `began` is when the check started."""
        took_s = 0.0 if began is None else self._context.clock.now() - began
        evidence: Mapping[str, bytes] = finding.evidence or ({"output": finding.output} if finding.output else {})
        blobs = self._context.blobs.kept(evidence) if evidence else {}
        if blobs is None:
            blobs = await anyio.to_thread.run_sync(self._context.blobs.keep, dict(evidence))
        # A check that looked at nothing does not pass.
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
    """The figures of a case: of each figure the mean over the checks that report it."""
    found: dict[str, list[float]] = {}
    for name, value in (figure for one in figures for figure in one.items()):
        found.setdefault(name, []).append(value)
    return {name: fsum(values) / len(values) for name, values in found.items()}


def decide_verdict(results: Sequence[JsonObject], soft: JsonObject) -> GradedCase:
    """Return the verdict of all results. All checks must pass; a failed one decides, whatever the others. Otherwise a
    check that could not run leaves the case undecided."""
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
    return GradedCase(CaseVerdict.PASS, f"all {len(results)} checks pass", tuple(results), soft)
