"""Run the checks `sh` and `run-in` (a command exits with 0, here or in a container) and `container` (it is healthy)."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, assert_never

import anyio

from planloop.containers.engine.engine import EngineFailed, ExecCommand, ExecEnd
from planloop.controllers.shared.container_exec import ContainerProgress
from planloop.controllers.task.checks.run import TOO_MUCH_OUTPUT, CheckEnvironment, CheckFinding, late_message
from planloop.reconciler.effects.processes import UNKNOWN_OUTCOME, ExitCause, ProcessCommand, ProcessExit
from planloop.reconciler.effects.truncate import last_line
from planloop.schemas import limits, quantities
from planloop.schemas.canonical_json import JsonObject, sha256_hex
from planloop.schemas.objects.task import CheckSpec

_CANNOT_RUN = (126, 127)  # Exit codes of shells for "not executable" and "not found".


async def check_shell(spec: CheckSpec, environment: CheckEnvironment) -> CheckFinding:
    """Check `sh`: passes if the command, run in the workspace, exits with 0."""
    exit_ = await run_shell(spec.arguments, environment, spec.timeout_s)
    failure = explain_no_exit(exit_, spec.timeout_s)
    if failure is not None:
        return failure
    return judge_command(spec, exit_.code, exit_.output)


def judge_command(spec: CheckSpec, code: int | None, output: bytes) -> CheckFinding:
    """Judge the command of `spec`, which exited, by its exit code."""
    return judge_exit(command_text(spec.arguments), code, output)


async def run_shell(arguments: JsonObject, environment: CheckEnvironment, timeout_s: float) -> ProcessExit:
    """Run the `shell` or `argv` of a check. A check has effect class read: it may run again at any time."""
    command = ProcessCommand(
        cwd=environment.cwd,
        argv=tuple(arguments.get("argv", ())),
        shell=arguments.get("shell", ""),
        env=environment.env,
        timeout_s=timeout_s,
        output_bytes_max=limits.OUTPUT_KEPT_BYTES_MAX,
        sandbox=environment.sandbox,
    )
    op = environment.ids.mint()
    try:
        return await environment.processes.run(op, command)
    finally:
        environment.processes.forget([op])  # Also when cancelled: the output is not used later.


def judge_exit(command: str, code: int | None, output: bytes) -> CheckFinding:
    """Return the finding for a command that exited by itself."""
    if code == 0:
        return CheckFinding("pass", f"{command}: exit code 0", output)
    line = last_line(output)
    message = f"{command}: {quantities.describe_exit_code(code)}{f': {line}' if line else ''}"
    return CheckFinding("error" if code in _CANNOT_RUN else "fail", message, output)


def explain_no_exit(exit_: ProcessExit, timeout_s: float) -> CheckFinding | None:
    """Return why a command did not exit by itself; None if it did."""
    match exit_.ending:
        case ExitCause.EXITED:
            return None
        case ExitCause.TIMED_OUT:
            return CheckFinding("error", late_message(timeout_s), exit_.output, is_own=True)
        case ExitCause.TOO_MUCH_OUTPUT:
            return CheckFinding("error", TOO_MUCH_OUTPUT, exit_.output, is_own=True)
        case ExitCause.NOT_STARTED:
            return CheckFinding("error", f"could not start: {last_line(exit_.output)}", exit_.output)
        case ExitCause.LOST:
            return CheckFinding("error", UNKNOWN_OUTCOME, exit_.output)


def command_text(arguments: JsonObject) -> str:
    """Return the command of a check as one line, for messages."""
    return str(arguments.get("shell") or " ".join(arguments.get("argv", ())))


async def check_container(spec: CheckSpec, environment: CheckEnvironment) -> CheckFinding:
    """Check `container`: passes if the container is healthy, or running if it has no health check.

    Waits while the container is starting or restarting.
    """
    found = await wait_for_container(spec.arguments["name"], environment, spec.timeout_s)
    if isinstance(found, CheckFinding):
        return found
    if found.is_well:
        return CheckFinding("pass", f"`{found.name}` is {found.state}")
    return CheckFinding("fail", found.words)


async def wait_for_container(
    name: str, environment: CheckEnvironment, within_s: float
) -> ContainerProgress | CheckFinding:
    """Return the container when it has started or failed to; an error if it does not exist or takes too long."""
    if environment.containers is None:
        return CheckFinding("error", f"container `{name}` can be checked only while its plan is running")
    found = await environment.containers().settled(name, within_s)
    if found is None:
        return CheckFinding("error", f"the plan has no container `{name}`")
    if found.is_on_its_way:
        return CheckFinding("error", f"{late_message(within_s)}: {found.words}")
    return found


_MARK_CHARS: Final = 24


async def check_run_in(spec: CheckSpec, environment: CheckEnvironment) -> CheckFinding:
    """Check `run-in`: passes if the command exits with 0 in the container.

    The command runs when the container is up, with its environment and folder. Processes that it leaves are killed.
    """
    began = anyio.current_time()
    found = await wait_for_container(spec.arguments["container"], environment, spec.timeout_s)
    if isinstance(found, CheckFinding):
        return found
    if not found.is_up:
        return CheckFinding("error", found.words)
    left_s = max(1.0, spec.timeout_s - (anyio.current_time() - began))
    try:
        ended = await _run(spec, environment, found, left_s)
    except EngineFailed as failed:
        return CheckFinding("error", f"{found.name}: {failed.words}")
    return _judged(spec, found, ended)


async def _run(spec: CheckSpec, environment: CheckEnvironment, found: ContainerProgress, timeout_s: float) -> ExecEnd:
    assert environment.containers is not None, "a container was found"
    containers = environment.containers()
    # Every try uses the same mark, so that the next owner ends a command that a crashed owner left running.
    mark = f"check.{sha256_hex(f'{environment.label} {spec.key}'.encode())[:_MARK_CHARS]}"
    inside = ExecCommand(
        run_in_argv(spec.arguments), mark, timeout_s=timeout_s, output_bytes_max=limits.OUTPUT_KEPT_BYTES_MAX
    )
    try:
        return await containers.run(found.id, inside)
    finally:
        with anyio.CancelScope(shield=True), suppress(EngineFailed):
            await containers.end(found.id, mark)


def run_in_argv(arguments: JsonObject) -> tuple[str, ...]:
    """Return the command line that runs in the container."""
    line = arguments.get("shell", "")
    return ("sh", "-c", line) if line else tuple(arguments["argv"])


def _judged(spec: CheckSpec, found: ContainerProgress, ended: ExecEnd) -> CheckFinding:
    shown = f"{command_text(spec.arguments)} in `{found.name}`"
    match ended.ending:
        case ExitCause.EXITED:
            return judge_exit(shown, ended.code, ended.output)
        case ExitCause.TIMED_OUT:
            return CheckFinding("error", f"{shown}: {late_message(spec.timeout_s)}", ended.output)
        case ExitCause.TOO_MUCH_OUTPUT:
            return CheckFinding("error", f"{shown}: {TOO_MUCH_OUTPUT}", ended.output)
        case ExitCause.NOT_STARTED:
            return CheckFinding("error", f"{shown}: could not start: {last_line(ended.output)}", ended.output)
        case ExitCause.LOST:
            return CheckFinding("error", f"{shown}: the container stopped while the command was running", ended.output)
        case _:
            assert_never(ended.ending)
