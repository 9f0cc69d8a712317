"""Events report the usage of an attempt: tokens as the provider reported them, dollars as billed."""

from __future__ import annotations

import pytest

from planloop.benchmarks.events.projection import RunProjection
from planloop.benchmarks.events.reader import parse_event
from planloop.benchmarks.reporting import report, report_text
from planloop.benchmarks.runs.run_compiler import CompiledRun, RunEntry, RunSettings
from planloop.benchmarks.scoring.fold import RunFold
from planloop.benchmarks.scoring.summary import summarise_run
from tests.product import JsonObject, Put, Record, RecordDraft, SetStatus, Uid

ENTRY = RunEntry("a--m--1", "a", "m", 1, 0, "k", "ck", {})
COMPILED = CompiledRun(
    suite="s",
    about="",
    settings=RunSettings(0, 1, deterministic=False),
    report={},
    models={"m": {}},
    images={},
    cases={"a": {"language": "", "tags": {}, "image": ""}},
    entries={ENTRY.name: ENTRY},
    worlds={},
)
CASE: JsonObject = {"task": f"task/{ENTRY.name}", "entry": ENTRY.name, "key": "k", "attempt": 1}


def told(*drafts: RecordDraft) -> list[JsonObject]:
    """The events of a run in which these records were made."""
    projection = RunProjection(COMPILED, "first")
    return [
        event for rev, draft in enumerate(drafts, 1) for event in projection.note(Record(rev, float(rev), 1, draft))
    ]


def began() -> tuple[RecordDraft, RecordDraft]:
    put = Put(f"case/{ENTRY.name}", Uid("u0"), CASE)
    planned = RecordDraft("plan.patched", "human:file", "plan/run", (put,))
    return planned, RecordDraft("task.changed", "controller:task", f"task/{ENTRY.name}", data={"state": "running"})


def asked(type_: str, usage: JsonObject, usd: str | None, agent: str = ENTRY.name) -> RecordDraft:
    """A record of a request; `usd` is what the agent has been billed for in all."""
    address = f"agent/{agent}"
    uid = Uid(f"uid-{agent}")
    billed = () if usd is None else (SetStatus(address, uid, {"used": {"tokens": 0, "usd": usd}}),)
    return RecordDraft(type_, "controller:agent", address, billed, {"turn": 1, "usage": usage})


def ended(verdict: str = "pass", **soft: float) -> RecordDraft:
    data: JsonObject = {"state": "ended", "verdict": verdict, "why": "", "results": [], "soft": soft}
    return RecordDraft("case.ended", "controller:case", f"case/{ENTRY.name}", data=data)


def test_tokens_and_dollars_of_a_reply_stand_in_its_event_and_all_of_them_at_the_end() -> None:
    events = told(
        *began(),
        asked("model.replied", {"in": 900, "out": 40, "cached": 100, "raw": {"x": 1}}, "0.0021"),
        asked("model.replied", {"in": 950, "out": 10}, "0.005"),
        ended(),
    )

    calls = [event["data"] for event in events if event["type"] == "llm/call"]
    assert calls == [
        {"turn": 1, "tokens_in": 900, "tokens_out": 40, "usd": 0.0021},
        {"turn": 1, "tokens_in": 950, "tokens_out": 10, "usd": 0.0029},
    ]
    (end,) = (event["data"] for event in events if event["type"] == "case/end")
    assert end["usage"] == {"tokens_in": 1850, "tokens_out": 50, "usd": 0.005, "calls": 0, "turns": 2}


def test_requests_that_failed_summaries_and_helpers_below_are_paid_for_too() -> None:
    events = told(
        *began(),
        asked("model.failed", {"in": 100, "out": 1}, "0.1"),
        asked("context.compacted", {"in": 200, "out": 2}, "0.3"),
        asked("model.replied", {"in": 300, "out": 3}, "0.05", agent=f"{ENTRY.name}/helper"),
        asked("model.replied", {}, None),
        ended(),
    )

    (end,) = (event["data"] for event in events if event["type"] == "case/end")
    assert end["usage"] == {"tokens_in": 600, "tokens_out": 6, "usd": 0.35, "calls": 0, "turns": 2}


def test_a_call_that_waits_for_a_yes_has_no_result_and_one_that_is_turned_down_has() -> None:
    agent = f"agent/{ENTRY.name}"
    calls = [{"call": f"call/{number}", "tool": "shell", "arguments": {}} for number in (1, 2)]
    replied = RecordDraft("model.replied", "controller:agent", agent, data={"turn": 1, "calls": calls})
    ruled = RecordDraft(
        "call.authorized",
        "controller:agent",
        agent,
        data={"call/1": "asks for a person's yes: it costs", "call/2": "Denied: not yours"},
    )

    events = told(*began(), replied, ruled)

    results = [event["data"] for event in events if event["type"] == "tool/result"]
    assert results == [{"call": 2, "state": "Denied", "text": "not yours"}]


def test_soft_figures_that_are_times_are_under_timing() -> None:
    events = told(*began(), ended(lint=3, runtime=0.25))

    assert [event["data"] for event in events if event["type"] == "metric"] == [
        {"name": "lint", "value": 3},
        {"name": "runtime", "timing": {"value": 0.25}},
    ]
    (end,) = (event["data"] for event in events if event["type"] == "case/end")
    assert (end["soft"], end["timing"]["soft"]) == ({"lint": 3}, {"runtime": 0.25})


@pytest.mark.parametrize(
    ("verdict", "is_complete"), [("pass", True), ("fail", True), ("invalid", True), ("error", False)]
)
def test_the_last_event_and_the_summary_agree_on_whether_a_run_is_complete(verdict: str, *, is_complete: bool) -> None:
    events = told(*began(), ended(verdict))

    summary = summarise_run(
        RunFold().add_all(parse_event({"seq": seq, **event}, seq) for seq, event in enumerate(events, 1))
    )

    assert events[-1]["data"] == {"complete": is_complete, "errors": int(not is_complete)}
    assert summary.is_complete is is_complete


def test_usage_of_a_stronger_model_counts_from_escalation_and_is_in_the_summary() -> None:
    why = {"to": "strong", "why": "its agent gave the same answer 3 times", "turn": 1}
    events = told(
        *began(),
        asked("model.replied", {"in": 900, "out": 40}, "0.002"),
        RecordDraft("agent.escalated", "controller:agent", f"agent/{ENTRY.name}", data=why),
        asked("model.replied", {"in": 1000, "out": 60}, "0.05"),
        # It is tried again, with its own model.
        RecordDraft("agent.woken", "controller:agent", f"agent/{ENTRY.name}", data={"incarnation": 2}),
        asked("model.replied", {"in": 700, "out": 7}, "0.06"),
        ended(),
    )
    (end,) = (event["data"] for event in events if event["type"] == "case/end")
    assert end["usage"]["escalated"] == {"tokens_in": 1000, "tokens_out": 60, "usd": 0.048}
    assert [event["data"] for event in events if event["type"] == "llm/escalated"] == [why]

    numbered = (parse_event({"seq": seq, **event}, seq) for seq, event in enumerate(events, 1))
    summary = summarise_run(RunFold().add_all(numbered))
    (standing,) = summary.standings
    (sheet,) = (report_text.costs_table(section) for section in report.combine_summaries([summary]).sections)
    assert sheet.rows[0][-3:] == ("1", "$0.05", "1.06k")
    assert standing.to_json()["usage"]["escalated"] == {"count": 1, "tokens": 1060, "usd": 0.048}
