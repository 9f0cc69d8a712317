"""Records as events of a chat with an agent."""

from __future__ import annotations

from typing import Any

import pytest

from planloop.client.chat_events import (
    AgentActive,
    AgentAnswered,
    AgentIdle,
    AgentRemoved,
    AgentSpoke,
    ApprovalRequested,
    ContainerEnded,
    PlanEnded,
    chat_events,
)
from planloop.client.chat_target import agent_for_container, agent_name, choose_agent
from planloop.schemas.objects.approval import ApprovalSpec
from planloop.schemas.resource import Condition
from tests.product import Change, CommandError, Drop, Put, Record, RecordDraft, Resource, SetStatus, Uid
from tests.product import CommandExit as Exit

ME = "agent/writer"


def _record(type_: str, subject: str, *changes: Change, **data: Any) -> Record:
    return Record(1, 0.0, 1, RecordDraft(type_, "controller:agent", subject, changes, data))


def _heard(record: Record) -> list[object]:
    return list(chat_events(record, ME))


def test_reply_is_shown_with_its_text_and_actions() -> None:
    calls = [{"call": "call/1", "tool": "write", "arguments": {"path": "x"}}, {"tool": "done", "arguments": {}}]
    found = _heard(_record("model.replied", ME, text=" I begin. ", calls=calls))
    assert found == [AgentSpoke(ME, "I begin."), AgentActive(ME, "write('x')")]
    assert _heard(_record("model.replied", "agent/other", text="not mine", calls=calls)) == []
    assert _heard(_record("model.replied", ME, text="final", calls=[])) == [], "it comes again as the answer"


def test_answer_is_shown_for_every_author() -> None:
    found = _heard(_record("turn.ended", ME, answered={"q1": "half"}, error=""))
    assert found == [AgentAnswered("q1", ME, "half")]
    found = _heard(_record("object.updated", ME, answered={"q1": "out of money"}, error="Parked"))
    assert found == [AgentAnswered("q1", ME, "out of money", "Parked")]


def test_rest_end_and_departure_are_shown() -> None:
    uid = Uid("u")
    rests = SetStatus(ME, uid, {"state": "blocked", "why": "waits for a yes"})
    assert _heard(_record("object.updated", ME, rests)) == [AgentIdle(ME, "blocked", "waits for a yes")]
    over = SetStatus("task/.", uid, {"state": "done"})
    assert _heard(_record("task.changed", "task/.", over)) == [PlanEnded("done")]
    assert _heard(_record("object.deleted", ME, Drop(ME, uid))) == [AgentRemoved(ME)]


@pytest.mark.parametrize(
    ("address", "state", "is_told"),
    [("container/sut", "failed", True), ("container/sut", "restarting", False), ("container/db", "failed", False)],
)
def test_end_of_the_chats_container_is_shown(address: str, state: str, is_told: bool) -> None:
    ready = Condition("Ready", "False", "Exited", "exit code 3", 0.0, 1).to_json()
    says = SetStatus(address, Uid("u"), {"state": state, "conditions": {"Ready": ready}})
    found = list(chat_events(_record("container.observed", address, says), ME, "container/sut"))
    assert found == ([ContainerEnded("container/sut", "failed", "exit code 3")] if is_told else [])


def test_question_that_only_an_operator_can_answer_is_asked() -> None:
    def asked(**what: Any) -> list[object]:
        spec = ApprovalSpec("request", "agent:writer", "it is slow", {"kind": "model", "what": "big", **what})
        return _heard(_record("call.settled", ME, Put("approval/5b1e", Uid("5b1e"), spec.to_json())))

    assert asked(of="person") == [ApprovalRequested("approval/5b1e", "agent:writer", "model: big: it is slow")]
    assert asked(of="agent/.") == []


def _agents(*paths: str) -> list[Resource]:
    return [Resource(f"agent/{path}", Uid(path), 1, {}, {}) for path in paths]


def test_the_agent_nearest_to_the_root_is_talked_with_unless_one_is_named() -> None:
    assert choose_agent(_agents("a/b", ".", "a"), None) == "agent/."
    assert choose_agent(_agents("a/b", "a/c/d"), None) == "agent/a/b"
    assert choose_agent(_agents("a/b", "a"), "b") == "agent/a/b"
    assert choose_agent(_agents("a/b", "b"), "agent/b") == "agent/b"
    assert agent_name("agent/.") == ""


def test_with_a_container_one_talks_through_the_agent_that_works_with_it() -> None:
    def container(task: str) -> Resource:
        return Resource("container/sut", Uid("c"), 1, {"task": task}, {})

    tasks = [
        Resource("task/a", Uid("a"), 1, {"containers": []}, {}),
        Resource("task/a/b", Uid("b"), 1, {"containers": ["container/sut"]}, {}),
    ]
    assert agent_for_container(container("a"), tasks, _agents("a", "a/b")) == "agent/a"
    assert agent_for_container(container(""), tasks, _agents("a", "a/b")) == "agent/a/b"
    with pytest.raises(CommandError) as raised:
        agent_for_container(container(""), tasks, _agents("a"))
    assert "containers: [sut]" in raised.value.hint


@pytest.mark.parametrize(
    ("paths", "wanted", "cure", "exit_"),
    [
        ((), None, "give a task an agent", Exit.NOT_FOUND),
        (("a", "b"), None, "plan chat a", Exit.USAGE),
        (("writer",), "wirter", "writer", Exit.NOT_FOUND),
        (("a/x", "b/x"), "x", "a/x, b/x", Exit.NOT_FOUND),
    ],
)
def test_ambiguous_agents_are_named(paths: tuple[str, ...], wanted: str | None, cure: str, exit_: Exit) -> None:
    with pytest.raises(CommandError) as raised:
        choose_agent(_agents(*paths), wanted)
    assert (raised.value.exit, cure in raised.value.hint) == (exit_, True)
