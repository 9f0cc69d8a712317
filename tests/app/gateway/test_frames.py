"""Which frame a client that follows the log gets next."""

from __future__ import annotations

from planloop.server.gateway import frames
from planloop.server.gateway.frames import Frame, Kept


def test_the_next_frame_begins_with_the_next_record_or_is_read_from_the_log() -> None:
    kept = Kept()
    first, second = Frame(1, 2, b"1, 2"), Frame(3, 5, b"3, 4, 5")
    kept.add(first)
    kept.add(second)

    assert [kept.after(rev) for rev in range(6)] == [first, None, second, None, None, None]


def test_old_frames_are_dropped_by_their_number_and_by_their_size() -> None:
    many, large = Kept(), Kept()
    for rev in range(1, frames.KEPT_MAX + 3):
        many.add(Frame(rev, rev, b""))
    body = b"x" * (frames.KEPT_BYTES_MAX // 2)
    for rev in range(1, 4):
        large.add(Frame(rev, rev, body))

    assert [many.after(rev) is None for rev in range(4)] == [True, True, False, False]
    assert [large.after(rev) is None for rev in range(4)] == [True, False, False, True]


def test_frames_hold_each_record_once_and_end_when_they_are_full() -> None:
    text = '"' + "x" * frames.FRAME_BYTES_MAX + '"'
    rows = [(rev, 0.0, 1, "", "", text if rev == 2 else str(rev), b"") for rev in range(1, 5)]

    first, second = frames.framed(rows)

    assert (first.first, first.last, second.first, second.last) == (1, 2, 3, 4)
    assert second.body == b'{"rev":4,"records":[3,4]}'
