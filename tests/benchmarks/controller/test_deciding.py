"""What becomes of a case, from what is seen of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planloop.benchmarks.case_controller import (
    LEAVING_S,
    PATIENCE_S,
    CaseRest,
    CaseStep,
    CloseTask,
    GiveUpCase,
    GradeCase,
    ObservedCase,
    StopGrading,
    decide_case,
    internal_error_of,
)
from planloop.schemas.objects.case import CaseSpec, CaseStopReason
from planloop.schemas.resource import Condition
from tests import rows
from tests.product import JsonObject, Resource, Uid

NOW = 1000.0
SPEC = CaseSpec("task/a", "a", "key", within_s=60.0)


def resource(address: str, **status: object) -> Resource:
    return Resource(address, Uid("u"), 1, {}, dict(status))


def blocked(reason: str, since: float) -> Condition:
    return Condition("Ready", "False", reason, "it is so", since, 1)


def seen(
    task: JsonObject | None = None, case: JsonObject | None = None, ready: Condition | None = None, **more: object
) -> ObservedCase:
    item = None if task is None else resource("task/a", **task)
    observed = ObservedCase(resource("case/a", **(case or {})), SPEC, item, ready, False, False, NOW)
    return replace(observed, **more)  # type: ignore[arg-type]


WORKING: JsonObject = {"state": "running", "started_at": NOW - 20}
STUCK: JsonObject = {"state": "blocked", "started_at": NOW - 20}
DONE: JsonObject = {"state": "done", "ended_at": NOW - 1}
LONG_DONE: JsonObject = {"state": "done", "ended_at": NOW - PATIENCE_S - 1}

STEPS: dict[str, tuple[ObservedCase, CaseStep]] = {
    "its task runs": (seen(WORKING), CaseRest(40.0)),
    "its task waits": (seen({"state": "waiting"}), CaseRest()),
    "its time is up": (
        seen({"state": "running", "started_at": NOW - 61}),
        CloseTask(CaseStopReason.LIMIT, "it did not finish within 60 s"),
    ),
    "the machine was suspended when its time was up": (
        seen({"state": "running", "started_at": NOW - 61 - PATIENCE_S}),
        CloseTask(CaseStopReason.WORLD, "the machine was suspended: 21 s passed after the limit of 60 s"),
    ),
    "its budget is spent": (
        seen(STUCK, ready=blocked("BudgetSpent", NOW)),
        CloseTask(CaseStopReason.LIMIT, "it is so"),
    ),
    "it waits for a person": (
        seen(STUCK, ready=blocked("AwaitingApproval", NOW)),
        CloseTask(CaseStopReason.LIMIT, "it is so"),
    ),
    "its model is refused": (
        seen(STUCK, ready=blocked("NoModel", NOW)),
        CloseTask(CaseStopReason.WORLD, "NoModel: it is so"),
    ),
    "its model returns an empty answer": (
        seen(STUCK, ready=blocked("NoModel", NOW), failures=frozenset({"Empty"})),
        CloseTask(CaseStopReason.LIMIT, "it is so"),
    ),
    "its context is too long": (
        seen(STUCK, ready=blocked("NoModel", NOW), failures=frozenset({"ContextTooLong"})),
        CloseTask(CaseStopReason.LIMIT, "it is so"),
    ),
    "one model returns an empty answer and another has no key": (
        seen(STUCK, ready=blocked("NoModel", NOW), failures=frozenset({"Empty", "NoKey"})),
        CloseTask(CaseStopReason.WORLD, "NoModel: it is so"),
    ),
    "it waits for a tool server": (seen(STUCK, ready=blocked("AwaitingServer", NOW - 5)), CaseRest(PATIENCE_S - 5)),
    "it has waited too long for a tool server": (
        seen(STUCK, ready=blocked("AwaitingServer", NOW - PATIENCE_S)),
        CloseTask(CaseStopReason.WORLD, "AwaitingServer: it is so"),
    ),
    "an internal error stopped its agent": (
        seen(WORKING, bug="agent/a: KeyError: 'x'"),
        CloseTask(CaseStopReason.WORLD, "internal error of planloop: agent/a: KeyError: 'x'"),
    ),
    "it waits for a lock": (seen(STUCK, ready=blocked("AwaitingLock", NOW - 50)), CaseRest(40.0)),
    "it is being cancelled": (seen(STUCK, {"cut": "limit"}, blocked("BudgetSpent", NOW)), CaseRest()),
    "its container fails to start": (
        seen({"state": "waiting"}, ready=blocked("AwaitingContainers", NOW - PATIENCE_S), trouble="no engine"),
        CloseTask(CaseStopReason.WORLD, "no engine"),
    ),
    "its container is still starting": (
        seen({"state": "waiting"}, ready=blocked("AwaitingContainers", NOW - PATIENCE_S)),
        CaseRest(),
    ),
    "an agent still writes to its workspace": (seen(DONE), CaseRest(PATIENCE_S - 1)),
    "no agent writes to its workspace any more": (seen(DONE, is_closed=True), GradeCase()),
    "it failed and is graded": (seen(DONE | {"state": "failed"}, is_closed=True), GradeCase()),
    "the engine does not respond": (seen(LONG_DONE, trouble="no engine"), GiveUpCase("no engine")),
    "the engine responds, but a container still runs": (seen(LONG_DONE), CaseRest(LEAVING_S - 1)),
    "an agent never stops writing to its workspace": (
        seen({"state": "done", "ended_at": NOW - PATIENCE_S - LEAVING_S}),
        GiveUpCase("the task has ended, but an agent or container still writes to its workspace"),
    ),
    "it is being graded": (seen(DONE, is_closed=True, is_graded_now=True), CaseRest()),
    "it has a verdict": (seen(DONE, {"state": "ended", "verdict": "pass"}, is_closed=True), CaseRest()),
    "its task was removed": (seen(None), CaseRest()),
    "its task went while it was graded": (seen(None, is_graded_now=True), StopGrading()),
}


@rows.each("name", STEPS)
def test_each_step_follows_from_the_observed_state(name: str) -> None:
    observed, step = STEPS[name]

    assert decide_case(observed) == step


@pytest.mark.parametrize(("reason", "bug"), [("InternalError", "agent/a: it is so"), ("NoSuchTool", "")])
def test_an_agent_that_the_engine_gave_up_on_has_met_a_bug(reason: str, bug: str) -> None:
    stalled = Condition("Stalled", "True", reason, "it is so", NOW, 1)

    assert internal_error_of(resource("agent/a", conditions={"Stalled": stalled.to_json()})) == bug
    assert internal_error_of(resource("agent/a")) == ""
