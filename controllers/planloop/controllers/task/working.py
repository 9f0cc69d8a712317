"""The task while its work is under way: a group, a command, or an agent that goes until it claims an end."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from planloop.controllers.sandboxes import Astray
from planloop.controllers.task import (
    claiming,
    containing,
    family,
    finishing,
    forking,
    jobs,
    keys,
    outcome,
    starting,
    verifying,
)
from planloop.controllers.task.observing import Observed
from planloop.controllers.task.step import Says, Step, after
from planloop.schemas.call import CallState, EffectClass
from planloop.schemas.encoding import JsonObject
from planloop.schemas.record import Drop
from planloop.schemas.task import ByAgent, Group, Run, TaskState


def advance(observed: Observed) -> Step:
    """One step further with the work of the current incarnation."""
    match observed.spec.work:
        case Group():
            return over(observed)
        case Run():
            return _command(observed)
        case ByAgent():
            return claiming.advance(observed)
        case _:
            assert_never(observed.spec.work)


def over(observed: Observed) -> Step:
    """The task's own work is done: its children, then its checks, then it."""
    says = family.not_done(observed)
    if says is not None:
        return Step(says, merge={"stage": "work", "round_for": None})
    if (step := containing.run(observed)) is not None:
        return step
    if observed.spec.acceptance:
        return verifying.begin_round(observed, "work")
    return forking.bring(observed) or finishing.done(observed)


def _command(observed: Observed) -> Step:
    progress = observed.progress
    if progress.result is not None:
        return _ended(observed, progress.result)
    call = observed.call
    state = CallState(call.state) if call is not None and call.state else CallState.AUTHORIZED
    match state:
        case CallState.STARTED:
            return _running(observed)
        case CallState.UNKNOWN:
            return Step(in_doubt(observed))
        case CallState.SUCCEEDED:
            return _ended(observed, outcome.result(ok=True, text="a person says that it happened"))
        case CallState.FAILED | CallState.CANCELLED | CallState.DENIED:
            words = "the call was settled as failed"
            return _ended(observed, outcome.result(ok=False, reason="CommandFailed", text=words))
        case _:
            # It never began, or may begin again: the same incarnation under a new operation.
            if isinstance(observed.ground, Astray):
                return _without_call(observed, finishing.led_out(observed, observed.ground))
            return jobs.start_run(observed, Step(starting.queued(observed)), progress.incarnation)


def _running(observed: Observed) -> Step:
    says = Says(TaskState.RUNNING, "Running", "its command runs")
    if any(keys.is_run(key) for key in observed.jobs):
        return Step(says)
    return Step(says, start=(jobs.run_job(observed, observed.progress.incarnation, is_adoption=True),))


def _ended(observed: Observed, result: JsonObject) -> Step:
    ended = after(observed, {"call": None, "result": result})
    step = over(ended) if result["ok"] else finishing.failed(ended, result["reason"], result["text"])
    return _without_call(observed, step.on_top_of({"result": result}))


def _without_call(observed: Observed, step: Step) -> Step:
    """`step` with the call of the incarnation that it ends gone."""
    dropped = (Drop(observed.call.address, observed.call.uid),) if observed.call is not None else ()
    return replace(step.on_top_of({"call": None}), changes=(*step.changes, *dropped))


def in_doubt(observed: Observed) -> Says:
    """Nobody saw how the command ended, and it may not be run twice."""
    call = observed.call.address if observed.call is not None else "the call"
    command = observed.spec.work
    shown = (command.shell or " ".join(command.argv)) if isinstance(command, Run) else ""
    says = f"nobody saw how `{shown}` ended, and with `effect: {EffectClass.ONCE}` it is not run again"
    return Says(
        TaskState.BLOCKED, "InDoubt", says, (f"plan approve {call} --happened", f"plan approve {call} --did-not")
    )
