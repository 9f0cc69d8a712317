"""Run one check where it belongs: on the log, in a fresh container, against the program, or on files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from planloop.benchmarks.checks import abstain, calls, log, state
from planloop.benchmarks.checks.evidence import CheckJudge, Evidence
from planloop.benchmarks.grading.containers import CheckContainer
from planloop.containers.engine.engine import EngineFailed
from planloop.controllers.task.checks import command as checks_command
from planloop.controllers.task.checks import files
from planloop.controllers.task.checks.command import run_in_argv
from planloop.controllers.task.checks.run import CheckEnvironment, CheckFinding, CheckFunction
from planloop.reconciler.effects.processes import ExitCause, ProcessExit
from planloop.schemas.canonical_json import JsonObject, sha256_hex
from planloop.schemas.checks.kinds import CHECK_KINDS
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.task import CheckSpec
from planloop.schemas.spec.template_placeholders import fill_placeholders

JUDGES: Final[Mapping[str, CheckJudge]] = MappingProxyType(
    {"calls": calls.judge_calls, "abstain": abstain.judge_abstain, "state": state.judge_state, "log": log.judge_log}
)
PROGRAM: Final = "program"
"""The name of the program's host in all texts."""
_MARK_CHARS: Final = 24


@frozen
class CheckRunner:
    """Runs the checks of one attempt: in `container`, or on this machine. `url` is the program's, if there is one."""

    evidence: Evidence
    bench: CheckEnvironment
    run_check: CheckFunction
    container: CheckContainer | None = None
    url: str = ""

    async def check(self, spec: CheckSpec) -> CheckFinding:
        """What `spec` finds. Never raises but for cancellation."""
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
        """The check with the program's address if it has none; no other host may answer instead."""
        alone = CHECK_KINDS[spec.kind].alone
        if alone is None:
            return spec
        arguments: JsonObject = fill_placeholders(spec.arguments, {"url": self.url})
        url = str(arguments.get("url", ""))
        aimed = url if "://" in url else self.url + url
        return replace(spec, arguments=arguments | {"url": aimed} | alone)


def without_address(found: CheckFinding, url: str) -> CheckFinding:
    """`found` with `program` where it names the host and port of `url`, which are others in each run."""
    parts = urlsplit(url)
    call = f"('{parts.hostname}', {parts.port})", f"('{PROGRAM}', {parts.port})"  # As Python's own errors have it.

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
    """Whether the check runs a command, which belongs into a container when there is one."""
    return spec.kind in CHECK_KINDS and not spec.arguments.keys().isdisjoint(("shell", "argv"))


def looks_at_files(spec: CheckSpec) -> bool:
    """Whether the check reads a file on this machine, following links wherever they lead."""
    return spec.kind in CHECK_KINDS and "path" in spec.arguments


def count_work_errors(spec: CheckSpec, found: CheckFinding) -> CheckFinding:
    """`found`, as failed where the work can have made an error of it: else an agent could choose to be in no rate."""
    if found.result != "error" or not found.is_own:
        return found
    what = spec.arguments.get("path", "the work")
    return replace(found, result="fail", message=f"{found.message}: what {what} holds keeps the check from its end")


def judge_command_exit(spec: CheckSpec, exit_: ProcessExit, *, is_inside: bool) -> CheckFinding:
    """Judge a command: if it does not end well and the work can be the cause, that is a failure of the work.

    If it `is_inside` a container, every program of the image is there: one that cannot start is never the machine's
    fault.
    """
    command = checks_command.command_text(spec.arguments)
    trouble = checks_command.explain_no_exit(exit_, spec.timeout_s)
    if trouble is None:
        found = _said(spec, exit_)
        return replace(found, result="fail") if found.result == "error" else found
    is_lacking = exit_.ending is ExitCause.NOT_STARTED and (is_inside or _is_of_the_work(spec.arguments))
    is_own = trouble.is_own or is_lacking
    return replace(trouble, result="fail", message=f"{command}: {trouble.message}") if is_own else trouble


def _said(spec: CheckSpec, exit_: ProcessExit) -> CheckFinding:
    """The finding of a command that ended by itself."""
    if spec.kind == "json":
        return files.judge_printed_json(spec, exit_.code, exit_.output)
    return checks_command.judge_exit(checks_command.command_text(spec.arguments), exit_.code, exit_.output)


def _is_of_the_work(arguments: JsonObject) -> bool:
    """Whether the program is named by a path in the workspace, so that only the work can have created it."""
    program = next(iter(arguments.get("argv", ())), "")
    return "/" in program and not program.startswith("/")
