"""A record of several steps is printed step by step, each with its own state."""

from __future__ import annotations

import pytest

from planloop.client.render import records
from tests.product import Change, Put, Record, RecordDraft, SetStatus, SubRecord, Uid

ME, CALL = "agent/.", "call/c1"


def record(steps: list[SubRecord], *changes: Change) -> Record:
    first, rest = steps[0], tuple(steps[1:])
    return Record(7, 0.0, 1, RecordDraft(first.type, "agent:.", first.subject, changes, first.data, also=rest))


def told(found: Record) -> list[tuple[str, str]]:
    return [(step.draft.type, records.record_words(step.draft)) for step in records.expand_record(found)]


def test_turn_that_ends_in_sleep_is_shown_from_its_start() -> None:
    steps = [
        SubRecord("turn.started", ME, {"turn": 2, "reasons": ["results"]}),
        SubRecord("model.replied", ME, {"turn": 2, "text": "", "usage": {}, "calls": []}),
        SubRecord("turn.ended", ME, {"turn": 2, "calls": 0, "active_s": 0.1}),
        SubRecord("agent.slept", ME, {"why": "waits for task/kid"}),
    ]
    status = SetStatus(ME, Uid("u"), {"state": "asleep", "why": "waits for task/kid", "turn": 2})
    assert told(record(steps, status)) == [
        ("turn.started", "turn 2: results"),
        ("model.replied", ""),
        ("turn.ended", "turn 2: 0 calls, 0.1 s"),
        ("agent.slept", "asleep: waits for task/kid"),
    ]


def test_parked_turn_is_shown_as_parked_and_calls_are_named_where_they_start() -> None:
    parked = [
        SubRecord("call.settled", CALL, {"tool": "list", "result": {"state": "Succeeded"}}),
        SubRecord("turn.ended", ME, {"turn": 1, "calls": 1, "active_s": 2.0}),
        SubRecord("agent.parked", ME, {"why": "its budget of turns is used up"}),
    ]
    status = SetStatus(ME, Uid("u"), {"state": "parked", "why": "its budget of turns is used up"})
    assert told(record(parked, status)) == [
        ("call.settled", "list ok"),
        ("turn.ended", "turn 1: 1 call, 2.0 s"),
        ("agent.parked", "parked: its budget of turns is used up"),
    ]
    begun = [
        SubRecord("turn.started", ME, {"turn": 1, "reasons": ["start"]}),
        SubRecord("call.started", ME, {"calls": [CALL]}),
    ]
    call = Put(CALL, Uid("c1"), {"tool": "list", "arguments": {}})
    assert told(record(begun, SetStatus(ME, Uid("u"), {"state": "running"}), call)) == [
        ("turn.started", "turn 1: start"),
        ("call.started", "list()"),
    ]


@pytest.mark.parametrize(("fate", "words"), [("again", "it runs again"), ("doubt", "its outcome is unknown")])
def test_a_recovered_call_is_printed_with_its_fate_in_words(fate: str, words: str) -> None:
    ((_, said),) = told(record([SubRecord("call.reconciled", CALL, {"fate": fate})]))

    assert said == f"interrupted: {words}"


def test_broken_locks_are_described_in_words() -> None:
    said = {"tool": "shell", "result": {"state": "Succeeded"}, "violated": {"a": "agent/x", "b": "task/y"}}
    ring = {"cycle": ["agent/b", "agent/a", "task/c"], "owner": "agent/b"}
    assert told(record([SubRecord("call.settled", CALL, said), SubRecord("lock.deadlock", "lock/a", ring)])) == [
        ("call.settled", "shell ok; it changed a, which agent/x holds, and b, which task/y holds"),
        (
            "lock.deadlock",
            "cycle: agent/b waits for agent/a, which waits for task/c, which waits for agent/b; "
            "agent/b releases its locks",
        ),
    ]


def test_ruling_is_shown_with_its_meaning_and_its_author() -> None:
    ruling = {"how": "sequence", "for_agent": "agent/guide", "by": "agent:.", "plan": "the guide comes first"}
    means = "`guide` goes first, and the other one when the task of `guide` has ended"
    assert told(record([SubRecord("conflict.ruled", "conflict/1", ruling)])) == [
        ("conflict.ruled", f'sequence by agent/.: {means}; "the guide comes first"')
    ]


def test_record_of_one_step_is_shown_unchanged() -> None:
    one = record([SubRecord("task.changed", "task/.", {"state": "done"})])
    assert records.expand_record(one) == [one]


def test_cancelled_turn_shows_the_reason_and_its_number_of_calls() -> None:
    """Its record lists the calls themselves, where that of a turn that ended counts them."""
    off: list[SubRecord] = [SubRecord("turn.ended", ME, {"called_off": "its task was cancelled", "calls": [CALL]})]
    assert told(record(off)) == [("turn.ended", "cancelled: its task was cancelled, with 1 call")]
    early: list[SubRecord] = [SubRecord("turn.ended", ME, {"called_off": "it was paused", "calls": []})]
    assert told(record(early)) == [("turn.ended", "cancelled: it was paused")]
