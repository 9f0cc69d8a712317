"""`events.jsonl` is read whole, as it grows, or not at all."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.benchmarks.events.reader import BadEvents, BenchEvent, EventReader, TornEvent, read_events
from tests.benchmarks.runs import Told, file_of, outcomes, told
from tests.golden_text import said

EVENTS = told(outcomes(4, ("oracle", "nop")), Told(lost=3))
FILE = file_of(EVENTS)
LINES = FILE.splitlines(keepends=True)


def test_written_events_are_read() -> None:
    found = read_events(FILE)

    assert list(found.events) == EVENTS
    assert found.torn is None
    assert read_events(b"").events == ()


@given(st.integers(1, len(LINES) - 1), st.data())
def test_a_torn_line_is_set_aside_wherever_it_tears(whole: int, data: st.DataObject) -> None:
    before, line = b"".join(LINES[:whole]), LINES[whole]
    piece = line[: data.draw(st.integers(1, len(line) - 1))]

    found = read_events(before + piece)

    assert list(found.events) == EVENTS[:whole]
    assert found.torn == TornEvent(whole + 1, len(before), piece)


def test_a_last_line_of_zeros_is_torn_too() -> None:
    # What a power failure leaves: the length was durable, the content was not.
    found = read_events(FILE + b"\0" * 40 + b"\n")

    assert list(found.events) == EVENTS
    assert found.torn == TornEvent(len(LINES) + 1, len(FILE), b"\0" * 40 + b"\n")


@pytest.mark.parametrize(
    ("lines", "place", "what"),
    [
        ([*LINES[:3], *LINES[4:]], 4, "seq 5 follows 3: 4 missing"),
        ([*LINES[:3], *LINES[6:]], 4, "seq 7 follows 3: 4 to 6 missing"),
        ([*LINES[:3], *LINES[2:]], 4, "seq 3 follows 3: events are duplicated or out of order"),
        (LINES[1:], 1, "seq 2 follows 0: 1 missing"),
        ([*LINES[:2], b"{}\n", *LINES[2:]], 3, "seq is missing, not a whole number"),
        ([*LINES[:2], b"\n", *LINES[2:]], 3, "not JSON"),
        ([*LINES[:2], b"[]\n", *LINES[2:]], 3, "an event must be an object"),
        ([*LINES[:2], LINES[2].replace(b'"type":"', b'"type":7,"x":"'), *LINES[3:]], 3, "type is 7, not a text"),
        ([*LINES[:2], LINES[2].replace(b'"seq":3', b'"seq":true'), *LINES[3:]], 3, "seq is true, not a whole number"),
        ([*LINES[:2], b"\xff\xfe\n", *LINES[2:]], 3, "not JSON"),
    ],
)
def test_a_gap_or_a_broken_line_is_an_error_with_its_place(lines: list[bytes], place: int, what: str) -> None:
    with pytest.raises(BadEvents) as caught:
        read_events(b"".join(lines))

    assert (caught.value.line, caught.value.what) == (place, what)


@given(st.lists(st.integers(0, len(FILE)), max_size=12))
def test_a_file_that_grows_gives_the_same_events(cuts: list[int]) -> None:
    reader, found = EventReader(), list[BenchEvent]()
    places = sorted({0, len(FILE), *cuts})
    for start, end in itertools.pairwise(places):
        found += reader.feed(FILE[start:end])

    assert found == EVENTS
    assert reader.torn is None


def test_reading_continues_after_the_known_events() -> None:
    assert list(EventReader(after=5).feed(b"".join(LINES[5:]))) == EVENTS[5:]
    with pytest.raises(BadEvents) as caught:
        EventReader(after=5).feed(LINES[6])
    said(str(caught.value))
