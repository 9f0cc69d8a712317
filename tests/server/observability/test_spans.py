"""Spans of a plan: what begins ends, and what is kept is bounded."""

from __future__ import annotations

from planloop.server.observability.spans import FORGOTTEN, OPEN_MAX, SpanEnd, SpanReader, SpanStart
from tests.product import Record, RecordDraft


def test_oldest_of_too_many_spans_ends_so_that_listeners_stay_bounded() -> None:
    spans = SpanReader("demo", lambda address: None)
    begun: list[str] = []
    ended: list[SpanEnd] = []
    for number in range(OPEN_MAX + 3):
        draft = RecordDraft("turn.started", "controller:agent", f"agent/a{number}", (), {"turn": 1})
        for told in spans.note(Record(number + 1, float(number), 1, draft)):
            if isinstance(told, SpanStart):
                begun.append(told.key)
            else:
                ended.append(told)

    assert [one.key for one in ended] == begun[:3]
    assert {one.error for one in ended} == {FORGOTTEN}
