"""Frames come out whole, however they come in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from containers.framing import Frames


@given(st.lists(st.tuples(st.sampled_from((1, 2)), st.binary(max_size=40))), st.lists(st.integers(1, 30)))
def test_what_was_framed_comes_out_in_its_order_wherever_it_was_cut(
    written: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(bytes((kind, 0, 0, 0)) + len(text).to_bytes(4, "big") + text for kind, text in written)
    frames, out = Frames(), b""
    for cut in cuts:
        out += frames.feed(stream[:cut])
        stream = stream[cut:]

    assert out + frames.feed(stream) == b"".join(text for _, text in written)
