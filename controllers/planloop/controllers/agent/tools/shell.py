"""The shell tool: a command in the workspace, in its own process group, with a clean environment and limits.

The whole output is kept as a blob, the caller sees head and tail. Class `once` unless the plan says otherwise: a
command whose end nobody saw is never run again by itself.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, Field

from planloop.controllers.agent.calling import workspaces
from planloop.controllers.agent.calling.workspaces import environment
from planloop.controllers.agent.tools import trespassing
from planloop.controllers.agent.tools.command_results import result_of
from planloop.controllers.agent.tools.tool import Context, Settlement
from planloop.reconciler.effects.processes import Command, Exit
from planloop.schemas import limits
from planloop.schemas.encoding import JsonObject


async def shell(
    context: Context,
    command: Annotated[str, Field(min_length=1, description="A line for /bin/sh, run in the workspace.")],
    timeout_s: Annotated[
        float | None,
        Field(gt=0, validation_alias=AliasChoices("timeout", "timeout_s"), description="Seconds; at most ten minutes."),
    ] = None,
) -> Settlement:
    """Runs a shell command in the workspace; gives its exit code and its output, stdout and stderr mixed."""
    context.workspace.ensure()
    wanted = command_of(context, command, timeout_s)
    await trespassing.watched(context)
    found = await context.world.processes.run(context.spec.op, wanted)
    return await ended(context, found)


def command_of(context: Context, line: str, timeout_s: float | None) -> Command:
    """The process of a shell line, under the sandbox settings of the agent and what its budget leaves of time."""
    sandbox = context.seen.spec.sandbox
    bounds: JsonObject = sandbox if isinstance(sandbox, dict) else {}
    return Command(
        cwd=str(context.workspace.root),
        shell=line,
        env=environment(context.world, context.seen),
        timeout_s=time_bound_s(context, timeout_s),
        output_bytes_max=limits.OUTPUT_KEPT_BYTES_MAX,
        memory_bytes_max=bounds.get("memory"),
        processes_max=bounds.get("processes"),
        sandbox=workspaces.sandbox(context.world, context.seen),
    )


def time_bound_s(context: Context, wanted_s: float | None) -> float:
    """Seconds that one command may take: what was asked for, the call limit, and what mixins and budget leave it."""
    bounds = [limits.CALL_TIMEOUT_S, wanted_s, context.time_s, context.seen.left.get("time_s")]
    return min(bound for bound in bounds if bound is not None)


async def ended(context: Context, found: Exit) -> Settlement:
    """What the caller reads of an ended process."""
    late, lost = "it took too long and was stopped", "it began, and nobody saw how it ended"
    settled = Settlement(result_of(context, found, late=late, lost=lost))
    return await trespassing.judged(context, settled)
