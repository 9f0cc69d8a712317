"""The checks `sh` and `run-in` (a command exits with 0, here or in a container) and `container` (it is healthy)."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, assert_never

import anyio

from planloop.containers.engine.engine import EngineFailed, ExecCommand, ExecEnd
from planloop.controllers.shared.container_exec import ContainerProgress
from planloop.controllers.task.checks.run import CheckEnvironment, CheckFinding
from planloop.reconciler.effects.processes import ExitCause, ProcessCommand, ProcessExit
from planloop.reconciler.effects.truncate import last_line
from planloop.schemas import limits, quantities
from planloop.schemas.canonical_json import JsonObject, sha256_hex
from planloop.schemas.objects.task import CheckSpec

# `sh`: holds when the command ends with exit code 0. Also runs commands for checks that read what one prints.

_CANNOT_RUN = (126, 127)  # What shells answer for "not executable" and "not found".


async def check_shell(spec: CheckSpec, environment: CheckEnvironment) -> CheckFinding:
    """Runs the command in the workspace."""
    exit_ = await run_shell(spec.arguments, environment, spec.timeout_s)
    trouble = explain_no_exit(exit_, spec.timeout_s)
    if trouble is not None:
        return trouble
    return judge_command(spec, exit_.code, exit_.output)


def judge_command(spec: CheckSpec, code: int | None, output: bytes) -> CheckFinding:
    """Judge the command of `spec`, which exited, by its exit code."""
    return judge_exit(command_text(spec.arguments), code, output)


async def run_shell(arguments: JsonObject, environment: CheckEnvironment, timeout_s: float) -> ProcessExit:
    """Runs the `shell` or `argv` of a check. A check is of class read: it may run again at any time."""
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
        environment.processes.forget([op])  # Cancelled as well: nobody will ask for its output.


def judge_exit(command: str, code: int | None, output: bytes) -> CheckFinding:
    """What is found by a `command` that came to an end of its own."""
    if code == 0:
        return CheckFinding("pass", f"{command}: exit code 0", output)
    line = last_line(output)
    message = f"{command}: {quantities.describe_exit_code(code)}{f': {line}' if line else ''}"
    return CheckFinding("error" if code in _CANNOT_RUN else "fail", message, output)


def explain_no_exit(exit_: ProcessExit, timeout_s: float) -> CheckFinding | None:
    """Why the command did not come to an end of its own; None when it did."""
    match exit_.ending:
        case ExitCause.EXITED:
            return None
        case ExitCause.TIMED_OUT:
            return CheckFinding("error", f"not done after {timeout_s:g} s", exit_.output, is_own=True)
        case ExitCause.TOO_MUCH_OUTPUT:
            message = f"stopped: it printed more than {limits.OUTPUT_KEPT_BYTES_MAX >> 20} MiB"
            return CheckFinding("error", message, exit_.output, is_own=True)
        case ExitCause.NOT_STARTED:
            return CheckFinding("error", f"could not start: {last_line(exit_.output)}", exit_.output)
        case ExitCause.LOST:
            return CheckFinding("error", "nobody saw how it ended", exit_.output)


def command_text(arguments: JsonObject) -> str:
    """The command as people read it."""
    return str(arguments.get("shell") or " ".join(arguments.get("argv", ())))


# `container`: holds when the container is healthy, or runs where it has no health check.
#
# One that is being started, or started again, is waited for: whether it holds is not known before.


async def check_container(spec: CheckSpec, environment: CheckEnvironment) -> CheckFinding:
    """Looks at how far it is."""
    found = await wait_for_container(spec.arguments["name"], environment, spec.timeout_s)
    if isinstance(found, CheckFinding):
        return found
    if found.is_well:
        return CheckFinding("pass", f"`{found.name}` is {found.state}")
    return CheckFinding("fail", found.words)


async def wait_for_container(
    name: str, environment: CheckEnvironment, within_s: float
) -> ContainerProgress | CheckFinding:
    """The container once it is up or will not be soon; an error when it is not to be had, or that takes too long."""
    if environment.containers is None:
        return CheckFinding("error", f"`{name}` can be looked into only while its plan runs")
    found = await environment.containers().settled(name, within_s)
    if found is None:
        return CheckFinding("error", f"the plan has no container `{name}`")
    if found.is_on_its_way:
        return CheckFinding("error", f"not done after {within_s:g} s: {found.words}")
    return found


# `run-in`: holds when a command inside a container ends with exit code 0. What it leaves running there is ended.

_MARK_CHARS: Final = 24


async def check_run_in(spec: CheckSpec, environment: CheckEnvironment) -> CheckFinding:
    """Runs the command when the container is up, with the container's own environment and folder."""
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
    # The same name in every try, so that what an owner that crashed left running is ended by the next.
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
    """The command as it is run inside."""
    line = arguments.get("shell", "")
    return ("sh", "-c", line) if line else tuple(arguments["argv"])


def _judged(spec: CheckSpec, found: ContainerProgress, ended: ExecEnd) -> CheckFinding:
    shown = f"{command_text(spec.arguments)} in `{found.name}`"
    match ended.ending:
        case ExitCause.EXITED:
            return judge_exit(shown, ended.code, ended.output)
        case ExitCause.TIMED_OUT:
            return CheckFinding("error", f"{shown}: not done after {spec.timeout_s:g} s", ended.output)
        case ExitCause.TOO_MUCH_OUTPUT:
            most = limits.OUTPUT_KEPT_BYTES_MAX >> 20
            return CheckFinding("error", f"{shown}: stopped: it printed more than {most} MiB", ended.output)
        case ExitCause.NOT_STARTED:
            return CheckFinding("error", f"{shown}: could not start: {last_line(ended.output)}", ended.output)
        case ExitCause.LOST:
            return CheckFinding("error", f"{shown}: the container went away under it", ended.output)
        case _:
            assert_never(ended.ending)
