"""Figures and spans of records, and the text that Prometheus reads."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from planloop.server.observability import metrics
from planloop.server.observability.metrics import MetricCounters, MetricFamily, MetricSample, current_metrics
from planloop.server.observability.spans import SpanEnd, SpanReader, SpanStart
from tests.product import JsonObject, Put, Record, RecordDraft, Resource, SetStatus, Uid

HOLDER = {
    "owner": "agent/a",
    "uid": "u",
    "incarnation": 1,
    "mode": "write",
    "since": 0.0,
    "renewed_at": 0.0,
    "progress": 0,
    "fence": 1,
}


def record(rev: int, type_: str, subject: str, **data: object) -> Record:
    return Record(rev, float(rev), 1, RecordDraft(type_, "controller:agent", subject, data=dict(data)))


TURN = [
    record(1, "turn.started", "agent/a", turn=1, reasons=[]),
    record(2, "model.requested", "agent/a", op="o1", attempt=1, model="openai/gpt-4o"),
    record(
        4, "model.replied", "agent/a", usage={"in": 7, "out": 3}, calls=[{"call": "call/1", "tool": "shell"}], turn=1
    ),
    record(5, "call.started", "agent/a", calls=["call/1"]),
    record(8, "call.settled", "call/1", tool="shell", result={"state": "Failed", "error": "CommandFailed"}),
    record(9, "turn.ended", "agent/a"),
]


def told(records: list[Record]) -> list[SpanStart | SpanEnd]:
    spans = SpanReader("p", lambda _: None)
    return [one for each in records for one in spans.note(each)]


def test_a_turn_holds_its_request_and_its_call_each_with_its_end() -> None:
    found = told(TURN)

    begun = [(one.name, one.parent) for one in found if isinstance(one, SpanStart)]
    assert begun == [
        ("invoke_agent a", None),
        ("chat gpt-4o", "turn:agent/a"),
        ("execute_tool shell", "turn:agent/a"),
    ]
    ended = [(one.key, one.at, one.error) for one in found if isinstance(one, SpanEnd)]
    assert ended == [
        ("model:o1", 4.0, ""),
        ("call:call/1", 8.0, "CommandFailed"),
        ("turn:agent/a", 9.0, ""),
    ]


def test_span_begun_before_listening_has_no_end_and_a_cut_off_turn_has_one() -> None:
    assert told(TURN[2:]) == [one for one in told(TURN[2:]) if one.key == "call:call/1"]
    again = told([TURN[0], record(3, "turn.started", "agent/a", turn=1)])
    assert [one.error for one in again if isinstance(one, SpanEnd)] == ["Superseded"]


def test_a_lock_is_held_from_its_grant_until_it_has_another_holder() -> None:
    statuses: dict[str, JsonObject] = {"lock/x": {"holders": {"agent/a": HOLDER}}}
    spans = SpanReader("p", lambda address: Resource(address, Uid("l"), 1, {}, statuses[address]))
    put = Put("lock/x", Uid("l"), {})

    first = spans.note(Record(1, 1.0, 1, RecordDraft("lock.granted", "controller:lock", "lock/x", (put,))))
    statuses["lock/x"] = {"holders": {"agent/b": HOLDER}}
    change = SetStatus("lock/x", Uid("l"), {})
    data: JsonObject = {"owner": "agent/b", "waited_s": 2.5}
    then = spans.note(Record(4, 4.0, 1, RecordDraft("lock.granted", "controller:lock", "lock/x", (change,), data)))

    assert [one.key for one in first] == ["held:lock/x:agent/a"]
    assert [(type(one).__name__, one.key, one.at) for one in then] == [
        ("SpanStart", "wait:lock/x:agent/b", 1.5),
        ("SpanEnd", "wait:lock/x:agent/b", 4.0),
        ("SpanEnd", "held:lock/x:agent/a", 4.0),
        ("SpanStart", "held:lock/x:agent/b", 4.0),
    ]


def test_prometheus_reads_back_what_was_counted() -> None:
    tally = MetricCounters("p", lambda _: None)
    for one in TURN:
        tally.note(one)

    read = {one.name: one for one in text_string_to_metric_families(metrics.prometheus_text(tally.families()))}

    calls = {
        sample.name: sample for sample in read["planloop_call_duration_seconds"].samples if "le" not in sample.labels
    }
    assert calls["planloop_call_duration_seconds_sum"].value == 3.0
    assert calls["planloop_call_duration_seconds_count"].labels == {"tool": "shell", "error": "CommandFailed"}
    under = {
        sample.labels["le"]: sample.value
        for sample in read["planloop_call_duration_seconds"].samples
        if "le" in sample.labels
    }
    assert (under["2.5"], under["5"], under["+Inf"]) == (0, 1, 1)
    assert {s.labels["type"]: s.value for s in read["gen_ai_client_token_usage"].samples} == {"input": 7, "output": 3}
    assert sum(sample.value for sample in read["planloop_records"].samples) == len(TURN)


def test_names_with_quotes_and_newlines_are_read_back_unchanged() -> None:
    name = 'a "b"\\\nc'
    text = metrics.prometheus_text(
        [MetricFamily("x", "gauge", "one\ntwo", [MetricSample("x", (("name", name),), 0.25)])]
    )

    (family,) = text_string_to_metric_families(text)
    (sample,) = family.samples
    assert (family.documentation, sample.labels, sample.value) == ("one\ntwo", {"name": name}, 0.25)


def test_gauges_of_a_plan_count_objects_by_kind_and_state() -> None:
    tasks = [
        Resource(f"task/{n}", Uid(f"{n}"), 1, {}, {"state": state}) for n, state in enumerate(["done", "done", ""])
    ]

    found = {one.name: one for one in current_metrics(lambda kind: tasks if kind == "task" else [], 9, 2)}

    counts = {sample.labels[1][1]: sample.value for sample in found["planloop_objects"].samples}
    assert counts == {"done": 2, "": 1}
    assert found["planloop_revision"].samples[0].value == 9
