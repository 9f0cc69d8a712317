"""Rows about tasks and agents of an entry, projected from records of the log."""

from __future__ import annotations

from planloop.benchmarks.checks.log import fold_attempt
from planloop.benchmarks.events.evidence import evidence_rows
from tests.product import (
    AgentWork,
    Drop,
    JsonObject,
    Put,
    Record,
    RecordDraft,
    RunWork,
    SetStatus,
    SubRecord,
    TaskSpec,
    Uid,
)

ENTRY = "task/sums--oracle--1"
CHILD = f"{ENTRY}/north"
AGENT = "agent/sums--oracle--1"


def record(draft: RecordDraft) -> Record:
    return Record(1, 0.0, 1, draft)


def rows(*drafts: RecordDraft) -> list[tuple[str, JsonObject]]:
    return [row for draft in drafts for row in evidence_rows(record(draft))]


def put(address: str, **fields: object) -> Put:
    spec = TaskSpec(goal=f"goal of {address}", work=RunWork(shell="true"), **fields)  # type: ignore[arg-type]
    return Put(address, Uid(address), spec.to_json())


def test_added_task_is_reported_with_its_author_and_needs() -> None:
    added = put(CHILD, needs=(f"{ENTRY}/south",))

    ((top, row),) = rows(RecordDraft("plan.patched", AGENT.replace("/", ":"), "plan/run", (added,)))

    assert top == "sums--oracle--1"
    assert (row["what"], row["task"], row["by"], row["needs"]) == ("made", "north", "", ["south"])


def test_tasks_from_the_file_have_no_author() -> None:
    entry = Put(ENTRY, Uid("e"), TaskSpec(goal="g", work=AgentWork(AGENT)).to_json())

    assert [
        row["by"] for _, row in rows(RecordDraft("plan.patched", "human:file", "plan/run", (entry, put(CHILD))))
    ] == [
        None,
        None,
    ]


def test_a_call_is_followed_from_the_reply_to_its_end() -> None:
    calls = [
        {"call": "call/1", "tool": "write", "arguments": {"path": "a"}},
        {"call": "call/2", "tool": "shell", "arguments": {}},
        {"call": "call/3", "tool": "fetch", "arguments": {}},
    ]
    ruled = {"call/1": "allowed", "call/2": "Denied: not yours", "call/3": "asks for a yes: it costs"}
    replied = RecordDraft("turn.started", "controller:agent", AGENT, (), {}, also=(
        SubRecord("model.replied", AGENT, {"turn": 1, "calls": calls}),
        SubRecord("call.authorized", AGENT, ruled),
    ))  # fmt: skip
    settled = RecordDraft(
        "call.settled", AGENT.replace("/", ":"), "call/1", (), {"result": {"state": "Succeeded", "text": "ok"}}
    )

    found = fold_attempt(row for _, row in rows(replied, settled))

    assert [(call.tool, call.by, call.state, call.text) for call in found.calls] == [
        ("write", "", "Succeeded", "ok"),
        ("shell", "", "Denied", "not yours"),
        ("fetch", "", "", ""),
    ]


def test_states_messages_refusals_budgets_and_ends_have_a_row_each() -> None:
    message = {"sender": f"{AGENT}/client", "kind": "chat", "body": {"say": "CLOSED"}}
    found = fold_attempt(
        row
        for _, row in rows(
            RecordDraft("plan.patched", AGENT.replace("/", ":"), "plan/run", (put(CHILD),)),
            RecordDraft("task.changed", "controller:task", CHILD, (SetStatus(CHILD, Uid(CHILD), {"state": "failed"}),)),
            RecordDraft(
                "turn.started",
                "controller:agent",
                AGENT,
                (SetStatus(AGENT, Uid("a"), {"open": {"messages": [message]}}),),
            ),
            RecordDraft("plan.refused", AGENT.replace("/", ":"), "plan/run", (), {"faults": ["no"]}),
            RecordDraft("agent.parked", "controller:agent", f"{AGENT}/north", (), {}),
            RecordDraft("object.deleted", "controller:task", CHILD, (Drop(CHILD, Uid(CHILD)),)),
        )
    )

    (child,) = found.children()
    assert (child.state, child.first("failed") is not None) == ("removed", True)
    assert [(one.by, "CLOSED" in one.text) for one in found.heard] == [("", True)]
    assert [by for _, by, _ in found.refused] == [""] and [by for _, by in found.parked] == ["north"]


def test_events_of_the_plan_itself_belong_to_no_entry() -> None:
    root = Put("task/.", Uid("r"), TaskSpec(goal="all", work=RunWork(shell="true")).to_json())

    assert rows(RecordDraft("plan.patched", "human:file", "plan/run", (root,))) == []


def test_message_read_by_an_agent_is_reported_once_in_open_and_ended_turns() -> None:
    letter: JsonObject = {"body": "more of it"}
    opened = SetStatus(AGENT, Uid("a"), {"open": {"messages": [letter]}})
    over = SetStatus(AGENT, Uid("a"), {"open": None})

    def began(change: SetStatus, **data: object) -> RecordDraft:
        return RecordDraft("turn.started", "controller:agent", AGENT, (change,), dict(data))

    for draft in (began(opened), began(opened, told=[letter]), began(over, told=[letter])):
        assert rows(draft) == [("sums--oracle--1", {"what": "read", "text": "more of it", "by": ""})]
