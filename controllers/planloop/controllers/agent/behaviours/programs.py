"""Steps that are programs: `python: file.py:name` and `run:`, JSON in, JSON out, each in a process of its own.

Such a step has no effects of its own: after a crash it is simply run again. It may deny, narrow arguments, comment or
withhold; whatever else it does (dies, hangs, prints nonsense) is a fault, and an exit code alone is never a verdict.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from planloop.controllers.agent.behaviours.steps import Step
from planloop.controllers.agent.calling.workspaces import around_functions, environment, sandbox, workspace_of
from planloop.controllers.agent.minds.port import MindFailed
from planloop.controllers.agent.minds.python_function import python_command
from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.ports import World
from planloop.controllers.agent.tools.faults import ToolFault
from planloop.controllers.agent.tools.tool import Context, Settlement
from planloop.reconciler.effects.clamping import last_line
from planloop.reconciler.effects.processes import Command, Ending
from planloop.schemas import limits
from planloop.schemas.call import CallResult
from planloop.schemas.encoding import JsonObject, decode_foreign, encode
from planloop.schemas.frozen import frozen

VERSION: Final = 1
"""Of what such a program is told; it rises when a member changes its meaning."""

ANSWERS: Final = frozenset({"deny", "arguments", "comment", "withhold", "say"})


@frozen
class Said:
    """What a step's program answered. `note` is a fault that its policy lets pass."""

    deny: str = ""
    arguments: JsonObject | None = None
    comment: str = ""
    withhold: str = ""
    note: str = ""


class _Fault(Exception):
    """The program gave no usable answer."""


def of_call(context: Context, step: Step, result: CallResult | None = None) -> JsonObject:
    """What a step is told about a call."""
    spec = context.spec
    call: JsonObject = {"tool": spec.tool, "arguments": spec.arguments, "effect": str(spec.effect)}
    told: JsonObject = {"version": VERSION, "point": step.point, "on": step.on, "agent": context.agent, "call": call}
    return told if result is None else told | {"result": result.to_json()}


async def asked(context: Context, step: Step, told: JsonObject) -> Said:
    """What the program of `step` says to `told`; a fault by the step's policy."""
    return await asked_by(context.world, context.seen, step, told)


async def asked_by(world: World, seen: Observed, step: Step, told: JsonObject) -> Said:
    """The same for an agent rather than for one of its calls."""
    try:
        return _understood(await _output(world, seen, step, told))
    except _Fault as fault:
        text = f"{step.words} broke: {fault}"
        policy = step.on_fault or ("deny" if step.point == "before" else "note")
        if policy == "note":
            return Said(note=text)
        return Said(deny=text) if step.point == "before" else Said(withhold=text)


async def _output(world: World, seen: Observed, step: Step, told: JsonObject) -> bytes:
    try:
        space = workspace_of(world, seen)
        space.ensure()
        argv = _argv(world, step)
    except (ToolFault, MindFailed) as fault:
        raise _Fault(str(fault)) from fault
    command = Command(
        cwd=str(space.root),
        argv=argv,
        env=environment(world, seen),
        stdin=encode(told) + b"\n",
        timeout_s=limits.MIXIN_PROGRAM_S,
        output_bytes_max=limits.MIND_OUTPUT_BYTES_MAX,
        sandbox=around_functions(world, seen) if step.verb == "python" else sandbox(world, seen),
    )
    op = world.ids.mint()
    ended = await world.processes.run(op, command)
    world.processes.forget([op])
    if ended.ending is not Ending.EXITED:
        raise _Fault(ended.ending.value)
    if ended.code != 0:
        raise _Fault(f"exit {ended.code}: {last_line(ended.output)}")
    return ended.output


def _argv(world: World, step: Step) -> tuple[str, ...]:
    given = step.given
    if step.verb == "python":
        return python_command(world, str(given))
    return tuple(str(part) for part in given) if isinstance(given, list) else ("sh", "-c", str(given))


def _understood(output: bytes) -> Said:
    """The last line that is a JSON map; no such line says nothing."""
    lines = [line for line in output.decode(errors="replace").splitlines() if line.lstrip().startswith("{")]
    if not lines:
        return Said()
    try:
        answer = decode_foreign(lines[-1])
    except ValueError as error:
        raise _Fault(f"its answer is no JSON: {error}") from error
    if not isinstance(answer, dict) or not ANSWERS.issuperset(answer):
        raise _Fault(f"its answer has more than {', '.join(sorted(ANSWERS))}: {lines[-1][:200]}")
    arguments = answer.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        raise _Fault("`arguments` is a map")
    return Said(
        _text(answer, "deny"), arguments, _text(answer, "comment") or _text(answer, "say"), _text(answer, "withhold")
    )


def _text(answer: JsonObject, name: str) -> str:
    value = answer.get(name)
    if value is True:
        return "no reason given"
    return str(value)[: limits.MIXIN_WORDS_CHARS_MAX] if value else ""


def commented(ending: Settlement, step: Step, said: Said) -> Settlement:
    """The ending with what an `after` step says to it. The log keeps the original of what is withheld."""
    result, data = ending.result, ending.data
    if said.withhold:
        data = {**data, "withheld": result.to_json()}
        words = f"[withheld by {step.words}: {said.withhold}]"
        result = CallResult(result.state, words, result.error, result.exit_code)
    if said.comment:
        result = replace(result, text=f"{result.text}\n\n[{step.mixin}] {said.comment}".lstrip("\n"))
    if said.note:
        data = {**data, "notes": [*data.get("notes", ()), said.note]}
    return replace(ending, result=result, data=data)
