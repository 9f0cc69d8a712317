"""The next step of an agent, decided from plain values."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest

from planloop.controllers.agent import status as statuses
from planloop.controllers.agent.decide import (
    AgentRest,
    AgentStep,
    AskDecider,
    AuthorizeCalls,
    BeginIncarnation,
    CancelJobs,
    CloseTurn,
    CollectResults,
    EndTurn,
    ReleaseAgent,
    RunCalls,
    StartTurn,
    decide,
)
from planloop.controllers.agent.mail.wake_reasons import fact_digest
from planloop.controllers.agent.observe import ObservedAgent, ObservedChild, observed_child
from planloop.controllers.agent.status import TurnCall
from planloop.controllers.agent.turn.call_run import is_current_call
from planloop.schemas.objects.agent import AgentSpec, AgentState, ScriptSpec
from planloop.schemas.rights import Rights
from tests.product import AgentWork, JsonObject, Resource, TaskSpec, Uid

NOW = 1_000.0
GOAL = fact_digest("goal")
NOTES = fact_digest("")
WORKED: JsonObject = {"incarnation": 1, "turn": 1, "told": {"goal": GOAL, "notes": NOTES}, "ended_at": NOW - 5}


def seen(
    status: JsonObject | None = None,
    *,
    task: JsonObject | None = None,
    spec: AgentSpec | None = None,
    task_spec: TaskSpec | None = None,
    **fields: Any,
) -> ObservedAgent:
    wanted = spec or AgentSpec("task/.", ScriptSpec(({"say": "hi"},)), Rights())
    own_task = task_spec or TaskSpec("goal", AgentWork("agent/."))
    resource = Resource("agent/.", Uid("u"), 1, wanted.to_json(), status or {}, finalizers=("agent",))
    about = Resource("task/.", Uid("t"), 1, own_task.to_json(), {"state": "running", "go": 1} if task is None else task)
    base = ObservedAgent(resource, wanted, statuses.read_agent_status(status or {}), about, own_task, NOW, 7)
    return with_parts(base, **fields)


def with_parts(base: ObservedAgent, **fields: Any) -> ObservedAgent:
    """`base` with other fields; fields of its parts are given by their own names."""
    for part in ("budget", "objects", "hooks", "context"):
        value = getattr(base, part)
        own = {name: fields.pop(name) for name in [each.name for each in dataclasses.fields(value)] if name in fields}
        base = replace(base, **{part: replace(value, **own)})
    return replace(base, **fields)


def step(observed: ObservedAgent) -> AgentStep:
    return decide(observed, lambda call: call.tool == "read")


def reasons(observed: ObservedAgent) -> tuple[str, ...]:
    taken = step(observed)
    return taken.news.reasons if isinstance(taken, StartTurn) else ()


def opened(calls: tuple[str, ...] = (), *, replied: bool = True, tool: str = "shell", **more: Any) -> JsonObject:
    answer = {"text": "", "then": "sleep", "calls": [TurnCall(call, tool, {}).to_json() for call in calls]}
    turn: JsonObject = {"turn": 2, "started_at": NOW, "base_rev": 1, "op": "op", "reasons": ["start"], "messages": []}
    return {**WORKED, "turn": 2, "open": turn | ({"reply": [answer]} if replied else {}) | more}


def call(address: str, state: str, **more: Any) -> Resource:
    spec = {"tool": "shell", "arguments": {}, "op": "x"}
    return Resource(address, Uid(address), 1, spec, {"state": state, **more}, owner="agent/.")


def objects(**states: str) -> dict[str, Resource]:
    return {f"call/{name}": call(f"call/{name}", state) for name, state in states.items()}


def child(state: str, name: str = "a", **more: Any) -> ObservedChild:
    about = Resource(f"task/{name}", Uid("c"), 1, {"goal": ""}, {"state": state, "incarnation": 1, **more})
    return observed_child(about)


# Reasons to be awake.


@pytest.mark.parametrize(("state", "why"), [("waiting", "has not started"), ("stopping", "is stopping")])
def test_agent_without_a_start_order_idles_with_a_reason(state: str, why: str) -> None:
    assert step(seen(task={"state": state})) == AgentRest(AgentState.IDLE, f"its task {why}")


def test_start_order_starts_an_incarnation_and_then_the_first_turn() -> None:
    assert step(seen()) == BeginIncarnation(1)
    assert reasons(seen({"incarnation": 1, "turn": 0})) == ("start",)


def test_agent_without_a_reason_sleeps() -> None:
    rest = step(seen(WORKED))
    assert isinstance(rest, AgentRest) and rest.state is AgentState.ASLEEP and rest.after_s is None


def test_an_unread_message_is_a_reason() -> None:
    message = {"id": "m", "kind": "chat", "sender": "human:cli", "receiver": "agent/.", "body": "hi", "sent_at": NOW}
    taken = step(seen({**WORKED, "inbox": {"m": message}}))
    assert isinstance(taken, StartTurn) and taken.news.reasons == ("message",) and taken.news.read == ("m",)


@pytest.mark.parametrize("state", ["done", "failed", "cancelled"])
def test_ended_child_is_a_reason_until_it_is_reported(state: str) -> None:
    assert reasons(seen(WORKED, children=(child(state),))) == (f"child {state}",)
    told = {**WORKED, "told": {**WORKED["told"], "children": {"task/a": f"c:1:{state}"}}}
    assert reasons(seen(told, children=(child(state),))) == ()


def test_a_child_that_ends_again_is_news_again() -> None:
    told = {**WORKED, "told": {**WORKED["told"], "children": {"task/a": "c:1:failed"}}}
    again = child("failed", incarnation=2)
    assert reasons(seen(told, children=(again,))) == ("child failed",)


def test_live_children_alone_are_no_reason_but_the_watchdog_is() -> None:
    watched = AgentSpec("task/.", ScriptSpec(()), Rights(), wake_every_s=5.0)
    assert reasons(seen(WORKED, children=(child("running"),))) == ()
    assert reasons(seen(WORKED, spec=watched, children=(child("running"),))) == ("watchdog",)
    rest = step(seen({**WORKED, "ended_at": NOW - 2}, spec=watched, children=(child("running"),)))
    assert isinstance(rest, AgentRest) and rest.after_s == 3.0
    assert reasons(seen(WORKED, spec=watched)) == ()


def test_results_not_yet_shown_are_a_reason() -> None:
    past = {"address": "call/a", "tool": "read", "arguments": {}, "result": {"state": "Succeeded"}}
    assert reasons(seen({**WORKED, "past": [past], "again": True})) == ("results",)


def test_a_timer_that_is_due_is_a_reason_and_before_it_sleeps_as_long() -> None:
    assert reasons(seen({**WORKED, "wake_at": NOW})) == ("timer",)
    rest = step(seen({**WORKED, "wake_at": NOW + 4}))
    assert isinstance(rest, AgentRest) and rest.after_s == 4.0


@pytest.mark.parametrize("field", ["goal", "notes"])
def test_unreported_edit_is_a_reason(field: str) -> None:
    plain = TaskSpec("goal", AgentWork("agent/."))
    edited = replace(plain, goal="new") if field == "goal" else replace(plain, notes="new")
    taken = step(seen(WORKED, task_spec=edited))
    assert isinstance(taken, StartTurn) and taken.news.reasons == (field,)
    assert taken.news.told == {field: fact_digest("new")} and taken.news.messages[0].body == {field: "new"}


def test_an_answered_approval_is_a_reason_and_a_waiting_one_is_not() -> None:
    spec = {"kind": "request", "what": {}, "by": "agent:.", "why": "", "differences": []}
    for state, expected in (("waiting", ()), ("approved", ("answer",)), ("rejected", ("answer",))):
        approval = Resource("approval/a", Uid("a"), 1, spec, {"state": state}, owner="agent/.")
        assert reasons(seen(WORKED, approvals={"approval/a": approval})) == expected


def test_resolved_unknown_outcome_is_a_reason() -> None:
    assert reasons(seen(WORKED, calls=objects(a="Unknown"))) == ()
    assert reasons(seen(WORKED, calls=objects(a="Succeeded"))) == ("answer",)


# Claims and verdicts.

CLAIMED: JsonObject = {**WORKED, "claims": 1, "claim": {"seq": 1, "kind": "done", "result": [None], "incarnation": 1}}


def test_claim_waits_for_its_task_whatever_else_arrives() -> None:
    rest = step(seen(CLAIMED, children=(child("done"),)))
    assert isinstance(rest, AgentRest) and rest.state is AgentState.CLAIMED


def test_rejected_claim_is_reported_once() -> None:
    verdict = {"claim": 1, "incarnation": 1, "accepted": False, "message": "no"}
    task = {"state": "running", "go": 1, "verdict": verdict}
    assert reasons(seen(CLAIMED, task=task)) == ("verdict",)
    told = {**CLAIMED, "told": {**WORKED["told"], "verdict": 1}}
    rest = step(seen(told, task=task))
    assert isinstance(rest, AgentRest) and rest.state is AgentState.ASLEEP


@pytest.mark.parametrize("change", [{"claim": 2}, {"incarnation": 2}, {"accepted": True}])
def test_unrelated_verdict_does_not_wake(change: JsonObject) -> None:
    verdict = {"claim": 1, "incarnation": 1, "accepted": False, **change}
    rest = step(seen(CLAIMED, task={"state": "running", "go": 1, "verdict": verdict}))
    assert isinstance(rest, AgentRest) and rest.state is AgentState.CLAIMED


def test_a_new_goal_withdraws_an_open_claim() -> None:
    taken = step(seen(CLAIMED, task_spec=TaskSpec("other", AgentWork("agent/."))))
    assert isinstance(taken, StartTurn) and taken.news.withdraws


# Within a turn.


def test_an_open_turn_is_asked_once_at_a_time() -> None:
    assert step(seen(opened(replied=False))) == AskDecider()
    rest = step(seen(opened(replied=False), jobs=frozenset({"mind:u"})))
    assert isinstance(rest, AgentRest) and rest.state is AgentState.RUNNING


def test_proposed_calls_are_ruled_on_and_then_run_in_order() -> None:
    assert step(seen(opened(("call/a",)), calls=objects(a="Proposed"))) == AuthorizeCalls()
    taken = step(seen(opened(("call/a", "call/b")), calls=objects(a="Authorized", b="Authorized")))
    assert isinstance(taken, RunCalls) and [each.address for each in taken.calls] == ["call/a"]


def test_reads_start_together() -> None:
    taken = step(seen(opened(("call/a", "call/b"), tool="read"), calls=objects(a="Authorized", b="Authorized")))
    assert isinstance(taken, RunCalls) and len(taken.calls) == 2


def test_call_that_must_run_alone_waits_for_those_before_it() -> None:
    calls = [TurnCall("call/a", "read", {}).to_json(), TurnCall("call/b", "shell", {}).to_json()]
    turn = opened(reply=[{"text": "", "then": "sleep", "calls": calls}])
    taken = step(seen(turn, calls=objects(a="Authorized", b="Authorized")))
    assert isinstance(taken, RunCalls) and [each.address for each in taken.calls] == ["call/a"]
    rest = step(seen(turn, calls=objects(a="Started", b="Authorized"), jobs=frozenset({"call/a"})))
    assert isinstance(rest, AgentRest) and rest.state is AgentState.RUNNING


def test_a_started_call_without_a_job_is_taken_up_again() -> None:
    status = opened(("call/a",))
    assert isinstance(step(seen(status, calls=objects(a="Started"))), RunCalls)
    rest = step(seen(status, calls=objects(a="Started"), jobs=frozenset({"call/a"})))
    assert isinstance(rest, AgentRest) and rest.state is AgentState.RUNNING


def test_law_7_result_counts_only_for_the_call_and_operation_of_the_open_turn() -> None:
    mine = call("call/a", "Started")
    waiting = seen(opened(("call/a",)), calls={"call/a": mine})
    assert is_current_call(waiting, mine)
    assert not is_current_call(waiting, replace(mine, uid=Uid("older")))
    assert not is_current_call(waiting, replace(mine, spec=mine.spec | {"op": "older"}))
    assert not is_current_call(seen(opened(("call/b",)), calls={"call/a": mine}), mine), "of an earlier turn"
    assert not is_current_call(seen(WORKED, calls={"call/a": mine}), mine), "its turn was closed"


def test_the_turn_ends_when_every_call_has_its_result() -> None:
    assert step(seen(opened(("call/a",), results={"call/a": [{"state": "Succeeded"}]}))) == EndTurn()
    assert step(seen(opened())) == EndTurn()


def test_script_waits_for_an_operator_on_an_unknown_outcome_and_others_are_told() -> None:
    rest = step(seen(opened(("call/a",)), calls=objects(a="Unknown")))
    assert isinstance(rest, AgentRest) and (rest.state, rest.condition) == (AgentState.BLOCKED, "InDoubt")
    other = AgentSpec("task/.", statuses_mind(), Rights())
    assert isinstance(step(seen(opened(("call/a",)), calls=objects(a="Unknown"), spec=other)), CollectResults)


def statuses_mind() -> Any:
    from planloop.schemas.objects.agent import ProgramSpec

    return ProgramSpec(("prog",))


# Budget, pause and the ladder.


def test_a_spent_budget_parks_only_an_agent_that_has_a_reason() -> None:
    rest = step(seen({"incarnation": 1, "turn": 0}, left={"turns": 0.0}))
    assert isinstance(rest, AgentRest) and (rest.state, rest.condition) == (AgentState.PARKED, "BudgetSpent")
    rest = step(seen(WORKED, left={"turns": 0.0}))
    assert isinstance(rest, AgentRest) and rest.state is AgentState.ASLEEP


def test_a_paused_agent_lets_what_runs_end_and_starts_nothing() -> None:
    paused = {"state": "paused"}
    for status, calls in ((WORKED, {}), (opened(replied=False), {}), (opened(("call/a",)), objects(a="Authorized"))):
        rest = step(seen(status, task=paused, calls=calls))
        assert isinstance(rest, AgentRest) and rest.condition == "Paused"
    rest = step(seen(opened(replied=False), task=paused, jobs=frozenset({"mind:u"})))
    assert isinstance(rest, AgentRest) and rest.state is AgentState.RUNNING


@pytest.mark.parametrize("task", [{"state": "stopping", "go": None}, {"state": "running", "go": 2}])
def test_stopping_goes_by_the_ladder(task: JsonObject) -> None:
    status = opened(("call/a",))
    live = seen(status, task=task, calls=objects(a="Started"), jobs=frozenset({"call/a"}))
    assert step(live) == CancelJobs(("call/a",))
    assert isinstance(step(with_parts(live, jobs=frozenset())), CloseTurn)


def test_a_removed_agent_lets_go_when_nothing_of_it_runs() -> None:
    gone = seen(WORKED)
    gone = replace(gone, resource=replace(gone.resource, deleting=True))
    assert step(gone) == ReleaseAgent()
    assert isinstance(step(with_parts(gone, jobs=frozenset({"call/a"}))), CancelJobs)


def test_an_ended_task_ends_its_agent_and_keeps_its_inbox() -> None:
    rest = step(seen(WORKED, task={"state": "done", "go": 1}))
    assert isinstance(rest, AgentRest) and rest.state is AgentState.ENDED
