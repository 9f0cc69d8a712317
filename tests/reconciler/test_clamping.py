"""Outputs cut for readers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planloop.reconciler.effects.truncate import last_line, truncate_output
from tests.golden_text import said_in


def test_a_short_output_is_shown_whole() -> None:
    assert truncate_output(b"one\ntwo\n", 100) == "one\ntwo\n"


def test_long_output_shows_head_and_tail_at_line_ends_and_the_omitted_amount() -> None:
    output = b"\n".join(b"line %d" % n for n in range(1000))
    shown = truncate_output(output, 200)

    assert shown.startswith("line 0\n")
    assert shown.endswith("\nline 999")
    said_in(shown, f"{len(output)}")


@given(st.binary(max_size=5000), st.integers(min_value=2, max_value=300))
def test_shown_output_is_bounded_by_the_requested_size(output: bytes, shown_bytes: int) -> None:
    assert len(truncate_output(output, shown_bytes)) <= shown_bytes + 80


def test_last_line_is_the_last_that_is_not_blank() -> None:
    assert last_line(b"first\n  2 of 9 failed \n\n\n") == "2 of 9 failed"
    assert last_line(b"\n \n") == ""
    assert len(last_line(b"x" * 10_000)) == 200
