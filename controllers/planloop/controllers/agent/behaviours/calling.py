"""One call inside the layers of its agent's mixins: the first stated is the outermost, the tool is in the middle.

Every layer keeps two promises: the tool runs only under an intent that is durable (a try again has its own, law 5), and
the call has exactly one ending. What layers note goes into the record that settles the call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

import anyio

from planloop.controllers.agent.behaviours import healing, programs
from planloop.controllers.agent.behaviours.caching import Cache
from planloop.controllers.agent.behaviours.steps import Step, for_call
from planloop.controllers.agent.tools.tool import Context, Ending, Settlement, Tool
from planloop.schemas import limits
from planloop.schemas.call import CallResult, CallState
from planloop.schemas.encoding import JsonObject

Inner: TypeAlias = Callable[[], Awaitable[Ending]]


class Attempts(Protocol):
    """The start of a call as its layers see it: `running.CallRun`."""

    context: Context
    tool: Tool
    tries: int

    @property
    def cache(self) -> Cache: ...

    async def perform(self) -> Ending:
        """Runs the tool under the present intent."""
        ...

    async def again(self, failed: CallResult, pause_s: float) -> Settlement | None:
        """Writes down that it failed, pauses, and makes a new intent; a settlement says why there is none."""
        ...

    def narrowed(self, arguments: JsonObject) -> Settlement | None:
        """Takes other arguments, which pass every denial first; a settlement says which one holds."""
        ...


def steps_for(context: Context, tool: Tool) -> tuple[Step, ...]:
    """The steps that the call in `context` goes through."""
    subjects = tool.subjects(context.spec.arguments)
    return for_call(context.seen.spec, tool.name, subjects, is_free=tool.is_free)


async def performed(call: Attempts, steps: Sequence[Step]) -> Ending:
    """The ending of the call after all its layers."""
    inner: Inner = call.perform
    for step in reversed(steps):
        inner = _layer(call, step, inner)
    return await inner()


def _layer(call: Attempts, step: Step, inner: Inner) -> Inner:
    async def layer() -> Ending:
        match step.verb:
            case "trace":
                return await _traced(call, inner)
            case "retry":
                return await _retried(call, step, inner)
            case "timeout":
                return await _timed(call, step, inner)
            case "cache":
                return await call.cache.answered(call.context, step, inner)
            case "python" | "run" if step.point == "before":
                return await _guarded(call, step, inner)
            case "python" | "run":
                return await _looked_at(call, step, inner)
            case _:
                return await inner()  # Permits were taken before the call began.

    return layer


def traced(ending: Ending, seconds: float, tries: int) -> Ending:
    """The ending with what `trace` writes down of it."""
    if not isinstance(ending, Settlement):
        return ending
    outcome = ending.result.error or str(ending.result.state)
    found: JsonObject = {"seconds": round(max(0.0, seconds), 6), "outcome": outcome}
    return noted(ending, {"trace": found | ({"tries": tries} if tries > 1 else {})})


def noted(ending: Settlement, note: JsonObject) -> Settlement:
    """The settlement with more in the data of its record."""
    return replace(ending, data={**ending.data, **note})


async def _traced(call: Attempts, inner: Inner) -> Ending:
    clock = call.context.world.clock
    began = clock.now()
    ending = await inner()
    return traced(ending, clock.now() - began, call.tries)


async def _retried(call: Attempts, step: Step, inner: Inner) -> Ending:
    while True:
        ending = await inner()
        if not isinstance(ending, Settlement) or call.tries > healing.tries_max(step):
            return ending
        if not healing.may_try_again(step, ending.result, call.context.spec.effect):
            return ending
        refused = await call.again(ending.result, healing.pause_s(step, call.tries))
        if refused is not None:
            return refused


async def _timed(call: Attempts, step: Step, inner: Inner) -> Ending:
    bound_s = float(step.given) if isinstance(step.given, int | float) else limits.CALL_TIMEOUT_S
    is_process = call.context.spec.is_process
    if is_process:
        # The process is stopped by its own bound, so that what it printed is kept; the scope below is for the rest.
        before = call.context.time_s
        call.context = replace(call.context, time_s=bound_s if before is None else min(before, bound_s))
    slack_s = 2 * limits.TERM_GRACE_S if is_process else 0.0
    with anyio.move_on_after(bound_s + slack_s):
        return await inner()
    text = f"it took longer than {bound_s:g} s and was stopped ({step.words})"
    if is_process or call.context.spec.effect.may_run_again:
        return Settlement(CallResult(CallState.FAILED, text, "TimedOut"))
    return Settlement(CallResult(CallState.UNKNOWN, f"{text}: it may have happened", "Unknown"))


async def _guarded(call: Attempts, step: Step, inner: Inner) -> Ending:
    said = await programs.asked(call.context, step, programs.of_call(call.context, step))
    if said.deny:
        return Settlement(CallResult(CallState.DENIED, f"denied by {step.words}: {said.deny}", "Denied"))
    if said.arguments is not None and said.arguments != call.context.spec.arguments:
        refused = call.narrowed(said.arguments)
        if refused is not None:
            return refused
    ending = await inner()
    return noted(ending, {"notes": [said.note]}) if said.note and isinstance(ending, Settlement) else ending


async def _looked_at(call: Attempts, step: Step, inner: Inner) -> Ending:
    ending = await inner()
    if not isinstance(ending, Settlement):
        return ending
    said = await programs.asked(call.context, step, programs.of_call(call.context, step, ending.result))
    return programs.commented(ending, step, said)
