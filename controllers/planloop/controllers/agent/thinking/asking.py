"""Asking a mind: the input made from an observation, and the minds themselves made from a spec.

Asking has no effect of its own but what it costs, so a request that an owner did not live to see answered is asked
again under a new operation id, after whatever it left running was stopped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, assert_never

from planloop.controllers.agent.behaviours.steps import for_turn
from planloop.controllers.agent.behaviours.thinking import Asking
from planloop.controllers.agent.calling import calls, holding, workspaces
from planloop.controllers.agent.calling.calls import Tools
from planloop.controllers.agent.calling.workspaces import RESERVED, environment, workspace_of
from planloop.controllers.agent.hooking import closing
from planloop.controllers.agent.mail.telling import rejected_verdict
from planloop.controllers.agent.minds.guest import GuestMind
from planloop.controllers.agent.minds.outside import RULES as OUTSIDE_RULES
from planloop.controllers.agent.minds.outside import Briefing, OutsideMind
from planloop.controllers.agent.minds.port import CallOutcome, Mind, MindFailed, ProposedCall, Reply, TurnInput
from planloop.controllers.agent.minds.program import ProgramMind
from planloop.controllers.agent.minds.python_function import python_mind
from planloop.controllers.agent.minds.script import ScriptMind
from planloop.controllers.agent.observing import Observed, instructions
from planloop.controllers.agent.ports import World
from planloop.controllers.agent.status import PastCall
from planloop.controllers.agent.thinking import prompting
from planloop.controllers.agent.tools.faults import ToolFault
from planloop.schemas import limits
from planloop.schemas.agent import Guest, Model, Outside, Program, PythonFunction, Script
from planloop.schemas.call import as_map

REFERENCE: Final = "env:"


def mind_of(world: World, seen: Observed, stale: str | None = None) -> Mind:
    """The mind that the spec names, ready to be asked; `stale` as for `ask`. Raises MindFailed."""
    match seen.spec.mind:
        case Script(steps=steps):
            return ScriptMind(steps)
        case Program(argv=argv):
            return ProgramMind(world.processes, argv, _setting(world, seen))
        case PythonFunction(target=target):
            return python_mind(world, target, _setting(world, seen))
        case Model():
            raise AssertionError("a model is asked through `World.models`")
        case Outside() as how:
            return _outside(world, seen, how, stale)
        case Guest():
            return GuestMind(None if seen.status.open is None else seen.status.open.said)
        case other:
            assert_never(other)


def _outside(world: World, seen: Observed, how: Outside, stale: str | None) -> OutsideMind:
    turn = seen.status.open
    assert turn is not None, "a mind is asked inside a turn"
    given = {name: _value(world, str(value)) for name, value in how.env.items() if not name.startswith(RESERVED)}
    setting = _setting(world, seen, how.timeout_s or limits.OUTSIDE_TURN_S)
    setting = replace(setting, env={**setting.env, **given})
    secrets = tuple(given[name] for name, value in how.env.items() if str(value).startswith(REFERENCE))
    news = prompting.outside_news(seen, holding.held_text(seen, world.store.view))
    briefing = Briefing(prompting.briefing(seen, OUTSIDE_RULES) + f"\n\n{news}", news)
    return OutsideMind(world.processes, how, setting, briefing, world.store.put_blob, secrets, stale)


def _value(world: World, written: str) -> str:
    """A variable's value, read from the owner's environment where it refers to that."""
    if not written.startswith(REFERENCE):
        return written
    name = written.removeprefix(REFERENCE)
    found = world.surrounding.get(name)
    if not found:
        raise MindFailed(f"the variable {name} is not set where the plan runs")
    return found


def _setting(world: World, seen: Observed, most_s: float = limits.CALL_TIMEOUT_S) -> ProgramMind.Setting:
    """Where and with what a program runs: its task's workspace, the clean environment, what is left of time."""
    try:
        workspace = workspace_of(world, seen)
        workspace.ensure()
    except ToolFault as fault:
        raise MindFailed(str(fault)) from fault
    time_s = min(most_s, seen.left.get("time_s", most_s))
    is_function = isinstance(seen.spec.mind, PythonFunction)
    box = workspaces.around_functions(world, seen) if is_function else workspaces.sandbox(world, seen)
    return ProgramMind.Setting(str(workspace.root), environment(world, seen), time_s, box)


async def ask(world: World, tools: Tools, stale: str | None, seen: Observed, op: str) -> Reply:
    """What the mind answers by itself, without any mixin. Raises MindFailed.

    `stale` is the request of an owner that did not live to see its answer, None when there was none.
    """
    if world.minds is not None and not seen.nature.is_instant:
        return await world.minds(seen)
    return await mind_of(world, seen, stale).respond(turn_input(world, tools, seen, op))


async def answered(asking: Asking) -> Reply:
    """What the mind answers through the agent's mixins; one that fails gives up by a claim, with the reason."""
    try:
        return await asking.answer(for_turn(asking.seen.spec))
    except MindFailed as fault:
        return Reply(text="", calls=(_given_up(str(fault)),), memory=asking.seen.status.memory)


def _given_up(reason: str) -> ProposedCall:
    return ProposedCall("fail", {"reason": reason})


def turn_input(world: World, tools: Tools, seen: Observed, op: str) -> TurnInput:
    """All that the mind is told for the open turn."""
    turn, task, spec = seen.status.open, seen.task_spec, seen.spec
    assert turn is not None, "a mind is asked inside a turn"
    return TurnInput(
        agent=seen.resource.address,
        incarnation=seen.status.incarnation,
        turn=turn.turn,
        op=op,
        now=seen.now,
        goal="" if task is None else task.goal,
        cwd=workspaces.cwd_of(world, seen),
        notes="" if task is None else task.notes,
        prompt=instructions(seen),
        checks=() if task is None else tuple(check.to_json() for check in task.acceptance),
        reasons=turn.reasons,
        messages=turn.messages,
        results=tuple(_outcome(call) for call in seen.status.past),
        children=tuple(child.view for child in seen.children),
        tools=() if isinstance(spec.mind, Script) else calls.granted(spec, tools),  # A script does not look at them.
        budget_left=seen.left,
        rejected=rejected_verdict(seen),
        memory=seen.status.memory,
        options=spec.mind.options if isinstance(spec.mind, PythonFunction) else {},
        comments=closing.opening_comments(turn) if turn.fired else (),
    )


def _outcome(call: PastCall) -> CallOutcome:
    return CallOutcome(call.address, call.tool, as_map(call.arguments), call.result, call.comments)
