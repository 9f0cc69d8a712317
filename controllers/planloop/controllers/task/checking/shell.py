"""`sh`: holds when the command ends with exit code 0. Also runs commands for checks that read what one prints."""

from __future__ import annotations

from planloop.controllers.task.checking.contract import Bench, Finding
from planloop.reconciler.effects.clamping import last_line
from planloop.reconciler.effects.processes import Command, Ending, Exit
from planloop.schemas import exit_codes, limits
from planloop.schemas.encoding import JsonObject
from planloop.schemas.task import CheckSpec

_CANNOT_RUN = (126, 127)  # What shells answer for "not executable" and "not found".


async def check(spec: CheckSpec, bench: Bench) -> Finding:
    """Runs the command in the workspace."""
    exit_ = await run(spec.arguments, bench, spec.timeout_s)
    trouble = not_ended(exit_, spec.timeout_s)
    if trouble is not None:
        return trouble
    return judged(shown(spec.arguments), exit_.code, exit_.output)


async def run(arguments: JsonObject, bench: Bench, timeout_s: float) -> Exit:
    """Runs the `shell` or `argv` of a check. A check is of class read: it may run again at any time."""
    command = Command(
        cwd=bench.cwd,
        argv=tuple(arguments.get("argv", ())),
        shell=arguments.get("shell", ""),
        env=bench.env,
        timeout_s=timeout_s,
        output_bytes_max=limits.OUTPUT_KEPT_BYTES_MAX,
        sandbox=bench.sandbox,
    )
    op = bench.ids.mint()
    try:
        return await bench.processes.run(op, command)
    finally:
        bench.processes.forget([op])  # Cancelled as well: nobody will ask for its output.


def judged(command: str, code: int | None, output: bytes) -> Finding:
    """What is found by a `command` that came to an end of its own."""
    if code == 0:
        return Finding("pass", f"{command}: exit code 0", output)
    line = last_line(output)
    message = f"{command}: {exit_codes.words(code)}{f': {line}' if line else ''}"
    return Finding("error" if code in _CANNOT_RUN else "fail", message, output)


def not_ended(exit_: Exit, timeout_s: float) -> Finding | None:
    """Why the command did not come to an end of its own; None when it did."""
    match exit_.ending:
        case Ending.EXITED:
            return None
        case Ending.TIMED_OUT:
            return Finding("error", f"not done after {timeout_s:g} s", exit_.output, is_own=True)
        case Ending.TOO_MUCH_OUTPUT:
            message = f"stopped: it printed more than {limits.OUTPUT_KEPT_BYTES_MAX >> 20} MiB"
            return Finding("error", message, exit_.output, is_own=True)
        case Ending.NOT_STARTED:
            return Finding("error", f"could not start: {last_line(exit_.output)}", exit_.output)
        case Ending.LOST:
            return Finding("error", "nobody saw how it ended", exit_.output)


def shown(arguments: JsonObject) -> str:
    """The command as people read it."""
    return str(arguments.get("shell") or " ".join(arguments.get("argv", ())))
