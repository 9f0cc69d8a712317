"""The steps of an agent's mixins as values, and the steps that run a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from planloop.controllers.agent.deciders.port import DeciderFailed
from planloop.controllers.agent.deciders.program import python_command
from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.run_environment import (
    agent_sandbox,
    command_environment,
    function_sandbox,
    resolve_agent_workspace,
)
from planloop.controllers.agent.services import AgentServices
from planloop.controllers.agent.tools.errors import ToolError
from planloop.controllers.agent.tools.tool import Settlement, ToolContext
from planloop.reconciler.effects.processes import ExitCause, ProcessCommand
from planloop.reconciler.effects.truncate import last_line
from planloop.schemas import limits, patterns
from planloop.schemas.canonical_json import Json, JsonObject, decode_foreign, encode
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.agent import AgentSpec
from planloop.schemas.objects.call import CallResult

StepScope: TypeAlias = Literal["call", "turn"]

PROGRAM_VERBS: Final = frozenset({"python", "run"})


@frozen
class MixinStep:
    """One layer. `verb` says what it does with `given`; `words` say which mixin it is from, `point` where it stands.

    `match` are the patterns of calls that it is for, None for all.
    """

    mixin: str
    words: str
    point: str
    verb: str
    given: Json
    on: StepScope
    match: tuple[str, ...] | None = None
    on_fault: str = ""

    @property
    def is_program(self) -> bool:
        return self.verb in PROGRAM_VERBS

    @property
    def table(self) -> JsonObject:
        """The parameter of the step, a map."""
        return self.given if isinstance(self.given, dict) else {}


def steps_of_agent(spec: AgentSpec, on: StepScope) -> tuple[MixinStep, ...]:
    """All steps of the agent for calls or for turns."""
    return tuple(_step(mixin, raw) for mixin in spec.mixins for raw in mixin.get("steps", ()) if raw["on"] == on)


def steps_for_call(spec: AgentSpec, tool: str, subjects: Sequence[str], *, is_free: bool) -> tuple[MixinStep, ...]:
    """The steps that a call of `tool` on `subjects` goes through.

    A program that does not name its calls has no say in free ones: an agent can always end, and always ask upward.
    """
    if not spec.mixins:
        return ()
    found = (step for step in steps_of_agent(spec, "call") if _matches(step, tool, subjects))
    return tuple(step for step in found if not (is_free and step.is_program and step.match is None))


def steps_for_turn(spec: AgentSpec) -> tuple[MixinStep, ...]:
    """The steps around a request to the decider."""
    return steps_of_agent(spec, "turn") if spec.mixins else ()


def _step(mixin: JsonObject, raw: JsonObject) -> MixinStep:
    match = raw.get("match")
    return MixinStep(
        mixin=mixin["name"],
        words=mixin["from"],
        point=raw["at"],
        verb=raw["do"],
        given=raw["with"],
        on=raw["on"],
        match=None if match is None else tuple(match),
        on_fault=raw.get("on-fault", ""),
    )


def _matches(step: MixinStep, tool: str, subjects: Sequence[str]) -> bool:
    return step.match is None or bool(patterns.find_denial(step.match, tool, subjects))


# Programs are `python: file.py:name` and `run:`, JSON in and out, each run in its own process. A step has no effects
# that the plan depends on, so after a crash it runs again. It may deny, narrow arguments, comment or withhold.
# Anything else (a crash, a timeout, invalid output) is a fault; an exit code alone is never a verdict.

STEP_VERSION: Final = 1
"""Of what such a program is told; it rises when a member changes its meaning."""

STEP_ANSWERS: Final = frozenset({"deny", "arguments", "comment", "withhold", "say"})


@frozen
class StepAnswer:
    """The answer of a step's program. `note` is a fault that its policy ignores."""

    deny: str = ""
    arguments: JsonObject | None = None
    comment: str = ""
    withhold: str = ""
    note: str = ""


class _Fault(Exception):
    """The program gave no usable answer."""


def call_question(context: ToolContext, step: MixinStep, result: CallResult | None = None) -> JsonObject:
    """The question to a step about a call."""
    spec = context.spec
    call: JsonObject = {"tool": spec.tool, "arguments": spec.arguments, "effect": str(spec.effect)}
    told: JsonObject = {
        "version": STEP_VERSION,
        "point": step.point,
        "on": step.on,
        "agent": context.agent,
        "call": call,
    }
    return told if result is None else told | {"result": result.to_json()}


async def ask_about_call(context: ToolContext, step: MixinStep, told: JsonObject) -> StepAnswer:
    """The answer of the program of `step` to `told`; a fault is handled by the step's policy."""
    return await ask_about_turn(context.services, context.seen, step, told)


async def ask_about_turn(world: AgentServices, agent: ObservedAgent, step: MixinStep, told: JsonObject) -> StepAnswer:
    """The same for an agent rather than for one of its calls."""
    try:
        return _understood(await _output(world, agent, step, told))
    except _Fault as fault:
        text = f"{step.words} broke: {fault}"
        policy = step.on_fault or ("deny" if step.point == "before" else "note")
        if policy == "note":
            return StepAnswer(note=text)
        return StepAnswer(deny=text) if step.point == "before" else StepAnswer(withhold=text)


async def _output(world: AgentServices, agent: ObservedAgent, step: MixinStep, told: JsonObject) -> bytes:
    try:
        space = resolve_agent_workspace(world, agent)
        space.ensure()
        argv = _argv(world, step)
    except (ToolError, DeciderFailed) as fault:
        raise _Fault(str(fault)) from fault
    command = ProcessCommand(
        cwd=str(space.root),
        argv=argv,
        env=command_environment(world, agent),
        stdin=encode(told) + b"\n",
        timeout_s=limits.MIXIN_PROGRAM_S,
        output_bytes_max=limits.MIND_OUTPUT_BYTES_MAX,
        sandbox=function_sandbox(world, agent) if step.verb == "python" else agent_sandbox(world, agent),
    )
    op = world.ids.mint()
    ended = await world.programs.processes.run(op, command)
    world.programs.processes.forget([op])
    if ended.ending is not ExitCause.EXITED:
        raise _Fault(ended.ending.value)
    if ended.code != 0:
        raise _Fault(f"exit {ended.code}: {last_line(ended.output)}")
    return ended.output


def _argv(world: AgentServices, step: MixinStep) -> tuple[str, ...]:
    given = step.given
    if step.verb == "python":
        return python_command(world, str(given))
    return tuple(str(part) for part in given) if isinstance(given, list) else ("sh", "-c", str(given))


def _understood(output: bytes) -> StepAnswer:
    """The last line that is a JSON map; no such line says nothing."""
    lines = [line for line in output.decode(errors="replace").splitlines() if line.lstrip().startswith("{")]
    if not lines:
        return StepAnswer()
    try:
        answer = decode_foreign(lines[-1])
    except ValueError as error:
        raise _Fault(f"its answer is no JSON: {error}") from error
    if not isinstance(answer, dict) or not STEP_ANSWERS.issuperset(answer):
        raise _Fault(f"its answer has more than {', '.join(sorted(STEP_ANSWERS))}: {lines[-1][:200]}")
    arguments = answer.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        raise _Fault("`arguments` is a map")
    return StepAnswer(
        _text(answer, "deny"), arguments, _text(answer, "comment") or _text(answer, "say"), _text(answer, "withhold")
    )


def _text(answer: JsonObject, name: str) -> str:
    value = answer.get(name)
    if value is True:
        return "no reason given"
    return str(value)[: limits.MIXIN_WORDS_CHARS_MAX] if value else ""


def add_step_comment(ending: Settlement, step: MixinStep, said: StepAnswer) -> Settlement:
    """The ending with the comment of an `after` step. The log keeps withheld results."""
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
