"""What becomes of a case, from what is seen of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planloop.benchmarks.controller.deciding import (
    LEAVING_S,
    PATIENCE_S,
    Close,
    GiveUp,
    Grade,
    Rest,
    Step,
    Stop,
    decide,
)
from planloop.benchmarks.controller.observing import Observed, bug_at
from planloop.schemas.case import CaseSpec, Cut
from planloop.schemas.condition import Condition
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
) -> Observed:
    item = None if task is None else resource("task/a", **task)
    observed = Observed(resource("case/a", **(case or {})), SPEC, item, ready, False, False, NOW)
    return replace(observed, **more)  # type: ignore[arg-type]


WORKING: JsonObject = {"state": "running", "started_at": NOW - 20}
STUCK: JsonObject = {"state": "blocked", "started_at": NOW - 20}
DONE: JsonObject = {"state": "done", "ended_at": NOW - 1}
LONG_DONE: JsonObject = {"state": "done", "ended_at": NOW - PATIENCE_S - 1}

STEPS: dict[str, tuple[Observed, Step]] = {
    "its task works": (seen(WORKING), Rest(40.0)),
    "its task waits for its turn": (seen({"state": "waiting"}), Rest()),
    "its time is up": (
        seen({"state": "running", "started_at": NOW - 61}),
        Close(Cut.LIMIT, "it was not done within 60 s"),
    ),
    "nobody looked for long after its time was up": (
        seen({"state": "running", "started_at": NOW - 61 - PATIENCE_S}),
        Close(Cut.WORLD, "this machine stood still, 21 s beyond the 60 s of it"),
    ),
    "its budget is spent": (seen(STUCK, ready=blocked("BudgetSpent", NOW)), Close(Cut.LIMIT, "it is so")),
    "it asks for a person": (seen(STUCK, ready=blocked("AwaitingApproval", NOW)), Close(Cut.LIMIT, "it is so")),
    "its model is refused": (seen(STUCK, ready=blocked("NoModel", NOW)), Close(Cut.WORLD, "NoModel: it is so")),
    "its model answers with nothing": (
        seen(STUCK, ready=blocked("NoModel", NOW), failures=frozenset({"Empty"})),
        Close(Cut.LIMIT, "it is so"),
    ),
    "its context cannot be made shorter": (
        seen(STUCK, ready=blocked("NoModel", NOW), failures=frozenset({"ContextTooLong"})),
        Close(Cut.LIMIT, "it is so"),
    ),
    "one model answers with nothing and another has no key": (
        seen(STUCK, ready=blocked("NoModel", NOW), failures=frozenset({"Empty", "NoKey"})),
        Close(Cut.WORLD, "NoModel: it is so"),
    ),
    "a tool server is awaited": (seen(STUCK, ready=blocked("AwaitingServer", NOW - 5)), Rest(PATIENCE_S - 5)),
    "a tool server was awaited": (
        seen(STUCK, ready=blocked("AwaitingServer", NOW - PATIENCE_S)),
        Close(Cut.WORLD, "AwaitingServer: it is so"),
    ),
    "an agent stands still for a bug of ours": (
        seen(WORKING, bug="agent/a: KeyError: 'x'"),
        Close(Cut.WORLD, "a bug of planloop: agent/a: KeyError: 'x'"),
    ),
    "a lock is awaited": (seen(STUCK, ready=blocked("AwaitingLock", NOW - 50)), Rest(40.0)),
    "it is being cancelled": (seen(STUCK, {"cut": "limit"}, blocked("BudgetSpent", NOW)), Rest()),
    "its container does not come": (
        seen({"state": "waiting"}, ready=blocked("AwaitingContainers", NOW - PATIENCE_S), trouble="no engine"),
        Close(Cut.WORLD, "no engine"),
    ),
    "its container takes its time": (
        seen({"state": "waiting"}, ready=blocked("AwaitingContainers", NOW - PATIENCE_S)),
        Rest(),
    ),
    "somebody is in its workspace yet": (seen(DONE), Rest(PATIENCE_S - 1)),
    "nobody is any more": (seen(DONE, is_closed=True), Grade()),
    "it failed and is judged all the same": (seen(DONE | {"state": "failed"}, is_closed=True), Grade()),
    "the engine will not say": (seen(LONG_DONE, trouble="no engine"), GiveUp("no engine")),
    "the engine takes its time": (seen(LONG_DONE), Rest(LEAVING_S - 1)),
    "nobody ever leaves": (
        seen({"state": "done", "ended_at": NOW - PATIENCE_S - LEAVING_S}),
        GiveUp("somebody is still at work in its workspace though it is over"),
    ),
    "it is being graded": (seen(DONE, is_closed=True, is_graded_now=True), Rest()),
    "it has a verdict": (seen(DONE, {"state": "ended", "verdict": "pass"}, is_closed=True), Rest()),
    "its task is gone": (seen(None), Rest()),
    "its task went while it was graded": (seen(None, is_graded_now=True), Stop()),
}


@rows.each("name", STEPS)
def test_one_step_follows_from_what_is_seen(name: str) -> None:
    observed, step = STEPS[name]

    assert decide(observed) == step


@pytest.mark.parametrize(("reason", "bug"), [("InternalError", "agent/a: it is so"), ("NoSuchTool", "")])
def test_an_agent_that_the_engine_gave_up_on_has_met_a_bug(reason: str, bug: str) -> None:
    stalled = Condition("Stalled", "True", reason, "it is so", NOW, 1)

    assert bug_at(resource("agent/a", conditions={"Stalled": stalled.to_json()})) == bug
    assert bug_at(resource("agent/a")) == ""
