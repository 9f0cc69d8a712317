"""Runs one check of an attempt where it belongs: on the log, in a fresh container, against the program, or on files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from benchmarks.checks import abstain, calls, log, state
from benchmarks.checks.contract import Evidence, Judge
from benchmarks.compiling.filling import filled
from benchmarks.grading.room import Room
from containers.engine import EngineFailed
from controllers.task.checking import Bench, Finding, RunCheck, shell
from controllers.task.checking.run_in import argv_of
from reconciler.effects.processes import Ending, Exit
from schemas.encoding import JsonObject, digest
from schemas.frozen import frozen
from schemas.task import CheckSpec

JUDGES: Final[Mapping[str, Judge]] = MappingProxyType(
    {"calls": calls.judge, "abstain": abstain.judge, "state": state.judge, "log": log.judge}
)
OVER_THE_NET: Final = frozenset({"web", "http", "ws"})
OF_FILES: Final = frozenset({"require-file", "contains", "json"})
_MARK_CHARS: Final = 24


@frozen
class Checked:
    """What a check found, with the soft figures that it has beside."""

    finding: Finding
    figures: Mapping[str, float]


@frozen
class Checking:
    """Where the checks of one attempt are run. `room` is None where they run on this machine, `url` empty without a
    program."""

    evidence: Evidence
    bench: Bench
    run_check: RunCheck
    room: Room | None = None
    url: str = ""

    async def check(self, spec: CheckSpec) -> Checked:
        """What `spec` finds. Never raises but for cancellation."""
        judge = JUDGES.get(spec.kind)
        if judge is not None:
            judged = judge(spec.arguments, self.evidence)
            return Checked(judged.finding(), judged.figures)
        if has_command(spec):
            return Checked(await self._command(spec), {})
        return Checked(await self.run_check(self._aimed(spec), self.bench), {})

    async def _command(self, spec: CheckSpec) -> Finding:
        if self.room is None:
            return judged(spec, await shell.run(spec.arguments, self.bench, spec.timeout_s))
        mark = f"check.{digest(spec.key.encode())[:_MARK_CHARS]}"
        try:
            ended = await self.room.run(argv_of(spec.arguments), mark, spec.timeout_s, {})
        except EngineFailed as failed:
            return Finding("error", failed.words)
        return judged(spec, Exit(ended.ending, ended.code, ended.output))

    def _aimed(self, spec: CheckSpec) -> CheckSpec:
        """The check with the program's address where it says none; nobody answers in the program's stead."""
        if spec.kind not in OVER_THE_NET:
            return spec
        arguments: JsonObject = filled(spec.arguments, {"url": self.url})
        url = str(arguments.get("url", ""))
        aimed = url if "://" in url else self.url + url
        return replace(spec, arguments=arguments | {"url": aimed} | ({"follows": "own"} if spec.kind == "http" else {}))


def has_command(spec: CheckSpec) -> bool:
    """Whether the check is a command, which belongs into a container when there is one."""
    return spec.kind == "sh"


def looks_at_files(spec: CheckSpec) -> bool:
    """Whether the check reads a file on this machine, following links wherever they lead."""
    return spec.kind in OF_FILES and "path" in spec.arguments


def judged(spec: CheckSpec, exit_: Exit) -> Finding:
    """What a command says of the work. One that takes too long, or that is not there, is the work's own fault."""
    command = shell.shown(spec.arguments)
    trouble = shell.not_ended(exit_, spec.timeout_s)
    if trouble is None:
        found = shell.judged(command, exit_.code, exit_.output)
        return replace(found, result="fail") if found.result == "error" else found
    is_own = exit_.ending in (Ending.TIMED_OUT, Ending.TOO_MUCH_OUTPUT)
    return replace(trouble, result="fail", message=f"{command}: {trouble.message}") if is_own else trouble
