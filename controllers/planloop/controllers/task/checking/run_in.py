"""`run-in`: holds when a command inside a container ends with exit code 0. What it leaves running there is ended."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, assert_never

import anyio

from planloop.containers.engine import Ended, EngineFailed, Inside
from planloop.controllers.inside import Standing
from planloop.controllers.task.checking import container, shell
from planloop.controllers.task.checking.contract import Bench, Finding
from planloop.reconciler.effects.clamping import last_line
from planloop.reconciler.effects.processes import Ending
from planloop.schemas import limits
from planloop.schemas.encoding import JsonObject, digest
from planloop.schemas.task import CheckSpec

_MARK_CHARS: Final = 24


async def check(spec: CheckSpec, bench: Bench) -> Finding:
    """Runs the command when the container is up, with the container's own environment and folder."""
    began = anyio.current_time()
    found = await container.settled(spec.arguments["container"], bench, spec.timeout_s)
    if isinstance(found, Finding):
        return found
    if not found.is_up:
        return Finding("error", found.words)
    left_s = max(1.0, spec.timeout_s - (anyio.current_time() - began))
    try:
        ended = await _run(spec, bench, found, left_s)
    except EngineFailed as failed:
        return Finding("error", f"{found.name}: {failed.words}")
    return _judged(spec, found, ended)


async def _run(spec: CheckSpec, bench: Bench, found: Standing, timeout_s: float) -> Ended:
    containers = bench.containers
    assert containers is not None, "a container was found"
    # The same name in every try, so that what an owner that crashed left running is ended by the next.
    mark = f"check.{digest(f'{bench.label} {spec.key}'.encode())[:_MARK_CHARS]}"
    inside = Inside(argv_of(spec.arguments), mark, timeout_s=timeout_s, output_bytes_max=limits.OUTPUT_KEPT_BYTES_MAX)
    try:
        return await containers.run(found.id, inside)
    finally:
        with anyio.CancelScope(shield=True), suppress(EngineFailed):
            await containers.end(found.id, mark)


def argv_of(arguments: JsonObject) -> tuple[str, ...]:
    """The command as it is run inside."""
    line = arguments.get("shell", "")
    return ("sh", "-c", line) if line else tuple(arguments["argv"])


def _judged(spec: CheckSpec, found: Standing, ended: Ended) -> Finding:
    shown = f"{shell.shown(spec.arguments)} in `{found.name}`"
    match ended.ending:
        case Ending.EXITED:
            return shell.judged(shown, ended.code, ended.output)
        case Ending.TIMED_OUT:
            return Finding("error", f"{shown}: not done after {spec.timeout_s:g} s", ended.output)
        case Ending.TOO_MUCH_OUTPUT:
            most = limits.OUTPUT_KEPT_BYTES_MAX >> 20
            return Finding("error", f"{shown}: stopped: it printed more than {most} MiB", ended.output)
        case Ending.NOT_STARTED:
            return Finding("error", f"{shown}: could not start: {last_line(ended.output)}", ended.output)
        case Ending.LOST:
            return Finding("error", f"{shown}: the container went away under it", ended.output)
        case _:
            assert_never(ended.ending)
