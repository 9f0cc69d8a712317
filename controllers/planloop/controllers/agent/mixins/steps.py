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
    """One layer around calls or turns: `verb` is the action, `given` its parameter, `point` its position.

    `words` names the mixin in messages. `match` are patterns of the calls that it applies to, None for all.
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
        """The parameter of the step as a map; empty if it is not a map."""
        return self.given if isinstance(self.given, dict) else {}


def steps_of_agent(spec: AgentSpec, on: StepScope) -> tuple[MixinStep, ...]:
    """Return all steps of the agent for calls or for turns."""
    return tuple(_step(mixin, raw) for mixin in spec.mixins for raw in mixin.get("steps", ()) if raw["on"] == on)


def steps_for_call(spec: AgentSpec, tool: str, subjects: Sequence[str], *, is_free: bool) -> tuple[MixinStep, ...]:
    """Return the steps that apply to a call of `tool` on `subjects`.

    A program without `match` does not apply to free tools: an agent can always end, and always ask upward.
    """
    if not spec.mixins:
        return ()
    found = (step for step in steps_of_agent(spec, "call") if _matches(step, tool, subjects))
    return tuple(step for step in found if not (is_free and step.is_program and step.match is None))


def steps_for_turn(spec: AgentSpec) -> tuple[MixinStep, ...]:
    """Return the steps around a request to the decider."""
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


# Programs are `python: file.py:name` and `run:`, with JSON input and output, each in its own process. A step has no
# effects that the plan depends on, so after a crash it runs again. It may deny, narrow arguments, comment or withhold.
# A crash, a timeout or invalid output is an error of the step; an exit code alone is never a verdict.

STEP_VERSION: Final = 1
"""Version of the input of such programs. It increases when the meaning of a member changes."""

STEP_ANSWERS: Final = frozenset({"deny", "arguments", "comment", "withhold", "say"})


@frozen
class StepAnswer:
    """The answer of a step's program. `note` is an error that its policy `on-fault: note` ignores."""

    deny: str = ""
    arguments: JsonObject | None = None
    comment: str = ""
    withhold: str = ""
    note: str = ""


class _StepFailed(Exception):
    """The program gave no valid answer."""


def call_question(context: ToolContext, step: MixinStep, result: CallResult | None = None) -> JsonObject:
    """Return the input of a step's program about a call."""
    spec = context.spec
    call: JsonObject = {"tool": spec.tool, "arguments": spec.arguments, "effect": str(spec.effect)}
    question: JsonObject = {
        "version": STEP_VERSION,
        "point": step.point,
        "on": step.on,
        "agent": context.agent,
        "call": call,
    }
    return question if result is None else question | {"result": result.to_json()}


async def ask_about_call(context: ToolContext, step: MixinStep, question: JsonObject) -> StepAnswer:
    """Run the program of `step` with `question` and return its answer. The step's policy handles errors."""
    return await ask_about_turn(context.services, context.seen, step, question)


async def ask_about_turn(
    services: AgentServices, agent: ObservedAgent, step: MixinStep, question: JsonObject
) -> StepAnswer:
    """The same for a turn of an agent."""
    try:
        return _parsed(await _output(services, agent, step, question))
    except _StepFailed as error:
        text = f"{step.words} failed: {error}"
        policy = step.on_fault or ("deny" if step.point == "before" else "note")
        if policy == "note":
            return StepAnswer(note=text)
        return StepAnswer(deny=text) if step.point == "before" else StepAnswer(withhold=text)


async def _output(services: AgentServices, agent: ObservedAgent, step: MixinStep, question: JsonObject) -> bytes:
    try:
        space = resolve_agent_workspace(services, agent)
        space.ensure()
        argv = _argv(services, step)
    except (ToolError, DeciderFailed) as error:
        raise _StepFailed(str(error)) from error
    command = ProcessCommand(
        cwd=str(space.root),
        argv=argv,
        env=command_environment(services, agent),
        stdin=encode(question) + b"\n",
        timeout_s=limits.MIXIN_PROGRAM_S,
        output_bytes_max=limits.MIND_OUTPUT_BYTES_MAX,
        sandbox=function_sandbox(services, agent) if step.verb == "python" else agent_sandbox(services, agent),
    )
    op = services.ids.mint()
    ended = await services.programs.processes.run(op, command)
    services.programs.processes.forget([op])
    if ended.ending is not ExitCause.EXITED:
        raise _StepFailed(ended.ending.value)
    if ended.code != 0:
        raise _StepFailed(f"exit {ended.code}: {last_line(ended.output)}")
    return ended.output


def _argv(services: AgentServices, step: MixinStep) -> tuple[str, ...]:
    given = step.given
    if step.verb == "python":
        return python_command(services, str(given))
    return tuple(str(part) for part in given) if isinstance(given, list) else ("sh", "-c", str(given))


def _parsed(output: bytes) -> StepAnswer:
    """Parse the last line that is a JSON map; without one, the answer is empty."""
    lines = [line for line in output.decode(errors="replace").splitlines() if line.lstrip().startswith("{")]
    if not lines:
        return StepAnswer()
    try:
        answer = decode_foreign(lines[-1])
    except ValueError as error:
        raise _StepFailed(f"its answer is not valid JSON: {error}") from error
    if not isinstance(answer, dict) or not STEP_ANSWERS.issuperset(answer):
        known = ", ".join(sorted(STEP_ANSWERS))
        raise _StepFailed(f"its answer has unknown members; known: {known}: {lines[-1][:200]}")
    arguments = answer.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        raise _StepFailed("`arguments` must be a map")
    return StepAnswer(
        _text(answer, "deny"), arguments, _text(answer, "comment") or _text(answer, "say"), _text(answer, "withhold")
    )


def _text(answer: JsonObject, name: str) -> str:
    value = answer.get(name)
    if value is True:
        return "no reason given"
    return str(value)[: limits.MIXIN_WORDS_CHARS_MAX] if value else ""


def add_step_comment(ending: Settlement, step: MixinStep, answer: StepAnswer) -> Settlement:
    """Return the settlement with the comment of an `after` step. The log keeps withheld results."""
    result, data = ending.result, ending.data
    if answer.withhold:
        data = {**data, "withheld": result.to_json()}
        words = f"[withheld by {step.words}: {answer.withhold}]"
        result = CallResult(result.state, words, result.error, result.exit_code)
    if answer.comment:
        result = replace(result, text=f"{result.text}\n\n[{step.mixin}] {answer.comment}".lstrip("\n"))
    if answer.note:
        data = {**data, "notes": [*data.get("notes", ()), answer.note]}
    return replace(ending, result=result, data=data)
