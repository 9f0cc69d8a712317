"""Which frame a client that follows the log gets next."""

from __future__ import annotations

from planloop.server.gateway import replica
from planloop.server.gateway.replica import FrameCache, RecordFrame


def test_next_frame_starts_with_the_next_record_or_is_read_from_the_log() -> None:
    kept = FrameCache()
    first, second = RecordFrame(1, 2, b"1, 2"), RecordFrame(3, 5, b"3, 4, 5")
    kept.add(first)
    kept.add(second)

    assert [kept.after(rev) for rev in range(6)] == [first, None, second, None, None, None]


def test_old_frames_are_dropped_by_their_number_and_by_their_size() -> None:
    many, large = FrameCache(), FrameCache()
    for rev in range(1, replica.FRAMES_KEPT_MAX + 3):
        many.add(RecordFrame(rev, rev, b""))
    body = b"x" * (replica.FRAMES_KEPT_BYTES_MAX // 2)
    for rev in range(1, 4):
        large.add(RecordFrame(rev, rev, body))

    assert [many.after(rev) is None for rev in range(4)] == [True, True, False, False]
    assert [large.after(rev) is None for rev in range(4)] == [True, False, False, True]


def test_frames_hold_each_record_once_and_end_when_they_are_full() -> None:
    text = '"' + "x" * replica.FRAME_BYTES_MAX + '"'
    lines = [(rev, text if rev == 2 else str(rev)) for rev in range(1, 5)]

    first, second = replica.record_frames(lines)

    assert (first.first, first.last, second.first, second.last) == (1, 2, 3, 4)
    assert second.body == b'{"rev":4,"records":[3,4]}'
