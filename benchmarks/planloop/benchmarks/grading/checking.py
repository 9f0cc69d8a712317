"""Runs one check of an attempt where it belongs: on the log, in a fresh container, against the program, or on files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from planloop.benchmarks.checks import abstain, calls, log, state
from planloop.benchmarks.checks.contract import Evidence, Judge
from planloop.benchmarks.compiling.filling import filled
from planloop.benchmarks.grading.room import Room
from planloop.containers.engine import EngineFailed
from planloop.controllers.task.checking import Bench, Finding, RunCheck, json_subset, shell
from planloop.controllers.task.checking.run_in import argv_of
from planloop.reconciler.effects.processes import Ending, Exit
from planloop.schemas.encoding import JsonObject, digest
from planloop.schemas.frozen import frozen
from planloop.schemas.task import CheckSpec

JUDGES: Final[Mapping[str, Judge]] = MappingProxyType(
    {"calls": calls.judge, "abstain": abstain.judge, "state": state.judge, "log": log.judge}
)
OVER_THE_NET: Final = frozenset({"web", "http", "ws"})
NOBODY_ELSE: Final[Mapping[str, JsonObject]] = MappingProxyType({"http": {"follows": "own"}, "web": {"alone": True}})
"""What keeps others from answering in a program's stead, by the kind of the check."""
OF_FILES: Final = frozenset({"require-file", "contains", "json"})
OF_COMMANDS: Final = frozenset({"sh", "json"})
"""Kinds that run a command, where they do not name a file."""
PROGRAM: Final = "program"
"""What the host of the program under test is called wherever somebody reads of it."""
_MARK_CHARS: Final = 24


@frozen
class Checking:
    """Where the checks of one attempt are run. `room` is None where they run on this machine, `url` empty without a
    program."""

    evidence: Evidence
    bench: Bench
    run_check: RunCheck
    room: Room | None = None
    url: str = ""

    async def check(self, spec: CheckSpec) -> Finding:
        """What `spec` finds. Never raises but for cancellation."""
        judge = JUDGES.get(spec.kind)
        if judge is not None:
            return judge(spec.arguments, self.evidence).finding()
        if has_command(spec):
            return await self._command(spec)
        found = counted(spec, await self.run_check(self._aimed(spec), self.bench))
        return without_address(found, self.url) if self.url else found

    async def _command(self, spec: CheckSpec) -> Finding:
        if self.room is None:
            return judged(spec, await shell.run(spec.arguments, self.bench, spec.timeout_s), is_inside=False)
        mark = f"check.{digest(spec.key.encode())[:_MARK_CHARS]}"
        try:
            ended = await self.room.run(argv_of(spec.arguments), mark, spec.timeout_s, {})
        except EngineFailed as failed:
            return Finding("error", failed.words)
        return judged(spec, Exit(ended.ending, ended.code, ended.output), is_inside=True)

    def _aimed(self, spec: CheckSpec) -> CheckSpec:
        """The check with the program's address where it says none; nobody answers in the program's stead."""
        if spec.kind not in OVER_THE_NET:
            return spec
        arguments: JsonObject = filled(spec.arguments, {"url": self.url})
        url = str(arguments.get("url", ""))
        aimed = url if "://" in url else self.url + url
        return replace(spec, arguments=arguments | {"url": aimed} | NOBODY_ELSE.get(spec.kind, {}))


def without_address(found: Finding, url: str) -> Finding:
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
    return spec.kind in OF_COMMANDS and "path" not in spec.arguments


def looks_at_files(spec: CheckSpec) -> bool:
    """Whether the check reads a file on this machine, following links wherever they lead."""
    return spec.kind in OF_FILES and "path" in spec.arguments


def counted(spec: CheckSpec, found: Finding) -> Finding:
    """`found`, as failed where the work can have made an error of it: else an agent could choose to be in no rate."""
    if found.result != "error" or not found.is_own:
        return found
    what = spec.arguments.get("path", "the work")
    return replace(found, result="fail", message=f"{found.message}: what {what} holds keeps the check from its end")


def judged(spec: CheckSpec, exit_: Exit, *, is_inside: bool) -> Finding:
    """What a command says of the work: that it does not come to a good end is the work's own fault, if it can be.

    `is_inside` a container, every program is there that was there for whoever did the work: one that cannot be started
    is never the world's.
    """
    command = shell.shown(spec.arguments)
    trouble = shell.not_ended(exit_, spec.timeout_s)
    if trouble is None:
        found = _said(spec, exit_)
        return replace(found, result="fail") if found.result == "error" else found
    is_lacking = exit_.ending is Ending.NOT_STARTED and (is_inside or _is_of_the_work(spec.arguments))
    is_own = trouble.is_own or is_lacking
    return replace(trouble, result="fail", message=f"{command}: {trouble.message}") if is_own else trouble


def _said(spec: CheckSpec, exit_: Exit) -> Finding:
    """What is found by a command that came to an end of its own."""
    if spec.kind == "json":
        return json_subset.printed(spec, exit_.code, exit_.output)
    return shell.judged(shell.shown(spec.arguments), exit_.code, exit_.output)


def _is_of_the_work(arguments: JsonObject) -> bool:
    """Whether the program is named by its place in the workspace: it is there only if the work has made it."""
    program = next(iter(arguments.get("argv", ())), "")
    return "/" in program and not program.startswith("/")
