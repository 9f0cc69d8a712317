"""Run an acceptance check of any kind: the environment and result of a check, and the lookup of its runner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import anyio

from planloop.reconciler.clock import Ids
from planloop.reconciler.effects.processes import CommandSandbox, Processes
from planloop.schemas import limits
from planloop.schemas.checks.kinds import CHECK_KINDS
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.task import CheckSpec

if TYPE_CHECKING:
    from planloop.controllers.shared.container_exec import ContainerCommands

FindingResult: TypeAlias = Literal["pass", "fail", "error"]
"""The check passes, fails, or could not run."""


@frozen
class CheckFinding:
    """Result of one check. `message` is a sentence for people and models, `output` everything that was printed.

    `probes` counts the observations: benchmarks do not accept a pass without any. `evidence` holds what the check saw,
    by name. `figures` are additional numbers by name; benchmarks show them and do not use them for the verdict.
    `is_own`: the work under test can have caused this error, so a benchmark counts it as a failure.
    """

    result: FindingResult
    message: str
    output: bytes = b""
    probes: int = 1
    evidence: Mapping[str, bytes] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    is_own: bool = False


@frozen
class CheckEnvironment:
    """Where a check runs: the task's workspace (an absolute path), its environment, and what starts its commands.

    `containers` returns those of the plan, None if no plan runs; `label` marks the commands of this task in them.
    `sandbox` encloses its commands. `no_links_from`: below this folder, the path to `cwd` has no symbolic links, and
    checks follow none that was created since; None if a person may place links on it.
    """

    processes: Processes
    ids: Ids
    cwd: str
    no_links_from: str | None
    env: Mapping[str, str] = field(default_factory=dict)
    containers: Callable[[], ContainerCommands] | None = None
    label: str = ""
    sandbox: CommandSandbox | None = None


CheckFunction: TypeAlias = Callable[[CheckSpec, CheckEnvironment], Awaitable[CheckFinding]]
"""Runs a check within `timeout_s` of its spec. Raises nothing but cancellation."""

ExitJudge: TypeAlias = Callable[[CheckSpec, int | None, bytes], CheckFinding]
"""Judges the command of a check by its exit code and its output."""


@cache
def load_runner(kind: str) -> CheckFunction:
    """Return the function that runs checks of `kind`, and import its module, which most plans do not need.

    Raises:
        KeyError: this version does not run the kind.
    """
    if kind not in CHECK_KINDS or not CHECK_KINDS[kind].runner:
        raise KeyError(kind)
    runner: CheckFunction = _load(CHECK_KINDS[kind].runner)
    return runner


def load_verdict(kind: str) -> ExitJudge:
    """Return the function that judges the command of a check of `kind`."""
    judge: ExitJudge = _load(CHECK_KINDS[kind].verdict)
    return judge


def _load(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(f"{__package__}.{module}"), name)


def late_message(seconds: float) -> str:
    """Return the message of a check that reached its time limit."""
    return f"not done after {seconds:g} s"


TOO_MUCH_OUTPUT: Final = f"stopped: it printed more than {limits.OUTPUT_KEPT_BYTES_MAX >> 20} MiB"
"""The message of a check whose command printed too much."""


async def run_check(spec: CheckSpec, environment: CheckEnvironment) -> CheckFinding:
    """Run one check. Raises nothing but cancellation: a check that cannot run returns an `error`."""
    try:
        runner = load_runner(spec.kind)
    except KeyError:
        return CheckFinding("error", f"this version of planloop does not run checks of kind `{spec.kind}`")
    return await runner(spec, environment)


async def run_checks(
    checks: Iterable[CheckSpec], environment: CheckEnvironment, *, parallel: int = limits.PARALLEL_DEFAULT
) -> dict[str, CheckFinding]:
    """Run checks outside of any plan, at most `parallel` at once, and write nothing: for `plan diff --checks`."""
    wanted = list(checks)
    found: dict[str, CheckFinding] = {}
    slots = anyio.CapacityLimiter(parallel)

    async def one(spec: CheckSpec) -> None:
        async with slots:
            found[spec.key] = await run_check(spec, environment)

    async with anyio.create_task_group() as group:
        for spec in wanted:
            group.start_soon(one, spec)
    return {spec.key: found[spec.key] for spec in wanted}
