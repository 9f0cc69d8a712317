"""Frames come out whole, however they come in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.containers.engine.docker_frames import ChunkDecoder, FrameDecoder


@given(st.lists(st.tuples(st.sampled_from((1, 2)), st.binary(max_size=40))), st.lists(st.integers(1, 30)))
def test_framed_output_is_read_in_order_wherever_it_was_cut(written: list[tuple[int, bytes]], cuts: list[int]) -> None:
    stream = b"".join(bytes((kind, 0, 0, 0)) + len(text).to_bytes(4, "big") + text for kind, text in written)
    frames, out = FrameDecoder(), b""
    for cut in cuts:
        out += frames.feed(stream[:cut])
        stream = stream[cut:]

    assert out + frames.feed(stream) == b"".join(text for _, text in written)


@given(st.lists(st.binary(min_size=1, max_size=40)), st.lists(st.integers(1, 30)))
def test_chunked_response_is_read_whole_and_ends(written: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(b"%x;any=thing\r\n%b\r\n" % (len(text), text) for text in written) + b"0\r\n\r\n"
    chunks, out = ChunkDecoder(), b""
    for cut in cuts:
        out += chunks.feed(stream[:cut])
        stream = stream[cut:]
    was_over = chunks.is_over

    assert out + chunks.feed(stream) == b"".join(written)
    assert chunks.is_over
    assert len(stream) < len("0\r\n\r\n") or not was_over, "not before the last of them"


def test_invalid_chunk_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        ChunkDecoder().feed(b"3\r\nabc\r\nHTTP/1.1 500 no\r\n")
