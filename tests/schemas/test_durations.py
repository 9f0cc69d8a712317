"""Times as people write them."""

from __future__ import annotations

import pytest

from planloop.schemas import quantities


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90s", 90), ("1h30m", 5400), (" 1h 30m ", 5400), ("250ms", 0.25), ("0.5d", 43200), ("0s", 0)],
)
def test_a_time_is_the_sum_of_its_parts(text: str, expected: float) -> None:
    assert quantities.parse_duration(text) == expected


@pytest.mark.parametrize(
    "text", ["", "90", "s", "soon", "1h30", "1w", "-5s", "1h,5m", "9" * 400 + "d", "9" * 1_000_100 + "d"], ids=len
)
def test_invalid_duration_has_no_seconds(text: str) -> None:
    assert quantities.parse_duration(text) is None


@pytest.mark.parametrize("digits", [400, 1_000_100])
def test_infinite_duration_is_invalid(digits: int) -> None:
    assert quantities.parse_duration("9" * digits + "d") is None
