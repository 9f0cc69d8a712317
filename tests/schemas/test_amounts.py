"""Numbers for people: any number that a log may hold is shown, in a few characters."""

from __future__ import annotations

import math
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from planloop.schemas import amounts
from tests import rows

CHARS_MAX = 24


@rows.each(
    ("shown", "text"),
    [
        (amounts.format_count(950), "950"),
        (amounts.format_count(212_400), "212k"),
        (amounts.format_count(10**15), "1.00e+15"),
        (amounts.format_count(10**400), "1.00e+400"),
        (amounts.format_count(-(10**20)), "-1.00e+20"),
        (amounts.format_count(1e308), "1.00e+308"),
        (amounts.format_count(math.inf), "infinity"),
        (amounts.format_count(math.nan), "nan"),
        (amounts.format_money(Decimal("12.3")), "$12.30"),
        (amounts.format_money(Decimal("0.0042")), "$0.0042"),
        (amounts.format_money(Decimal("1e302")), "$1.00e+302"),
        (amounts.format_money(Decimal("1e-400")), "$1.00e-400"),
        (amounts.format_money(Decimal("NaN")), "$nan"),
        (amounts.format_money(Decimal(0)), "$0.00"),
        (amounts.format_duration(38), "38 s"),
        (amounts.format_duration(1e300), "1.00e+300 s"),
        (amounts.format_duration(math.nan), "nan s"),
        (amounts.format_duration(-math.inf), "0 s"),
        (amounts.format_stopwatch(134), "00:02:14"),
        (amounts.format_stopwatch(math.inf), "infinity s"),
        (amounts.format_size(12_700), "12.4 KiB"),
        (amounts.format_size(10**400), "1.00e+400 B"),
    ],
)
def test_amounts_are_short(shown: str, text: str) -> None:
    assert shown == text


@given(st.one_of(st.integers(), st.floats()))
def test_law_11_no_number_is_too_large_to_be_shown(number: float) -> None:
    shown = [amounts.format_count(number), amounts.format_duration(number), amounts.format_stopwatch(number)]
    shown += [amounts.format_money(Decimal(number))]

    assert all(one and len(one) <= CHARS_MAX for one in shown)
