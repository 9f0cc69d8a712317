"""Numbers for people: any number that a log may hold is shown, in a few characters."""

from __future__ import annotations

import math
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from planloop.schemas import quantities
from tests import rows

CHARS_MAX = 24


@rows.each(
    ("shown", "text"),
    [
        (quantities.format_count(950), "950"),
        (quantities.format_count(212_400), "212k"),
        (quantities.format_count(10**15), "1.00e+15"),
        (quantities.format_count(10**400), "1.00e+400"),
        (quantities.format_count(-(10**20)), "-1.00e+20"),
        (quantities.format_count(1e308), "1.00e+308"),
        (quantities.format_count(math.inf), "infinity"),
        (quantities.format_count(math.nan), "nan"),
        (quantities.format_money(Decimal("12.3")), "$12.30"),
        (quantities.format_money(Decimal("0.0042")), "$0.0042"),
        (quantities.format_money(Decimal("1e302")), "$1.00e+302"),
        (quantities.format_money(Decimal("1e-400")), "$1.00e-400"),
        (quantities.format_money(Decimal("NaN")), "$nan"),
        (quantities.format_money(Decimal(0)), "$0.00"),
        (quantities.format_duration(38), "38 s"),
        (quantities.format_duration(1e300), "1.00e+300 s"),
        (quantities.format_duration(math.nan), "nan s"),
        (quantities.format_duration(-math.inf), "0 s"),
        (quantities.format_stopwatch(134), "00:02:14"),
        (quantities.format_stopwatch(math.inf), "infinity s"),
        (quantities.format_size(12_700), "12.4 KiB"),
        (quantities.format_size(10**400), "1.00e+400 B"),
    ],
)
def test_amounts_are_short(shown: str, text: str) -> None:
    assert shown == text


@given(st.one_of(st.integers(), st.floats()))
def test_law_11_no_number_is_too_large_to_be_shown(number: float) -> None:
    shown = [quantities.format_count(number), quantities.format_duration(number), quantities.format_stopwatch(number)]
    shown += [quantities.format_money(Decimal(number))]

    assert all(one and len(one) <= CHARS_MAX for one in shown)
