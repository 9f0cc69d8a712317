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
        (amounts.count(950), "950"),
        (amounts.count(212_400), "212k"),
        (amounts.count(10**15), "1.00e+15"),
        (amounts.count(10**400), "1.00e+400"),
        (amounts.count(-(10**20)), "-1.00e+20"),
        (amounts.count(1e308), "1.00e+308"),
        (amounts.count(math.inf), "infinity"),
        (amounts.count(math.nan), "nan"),
        (amounts.money(Decimal("12.3")), "$12.30"),
        (amounts.money(Decimal("0.0042")), "$0.0042"),
        (amounts.money(Decimal("1e302")), "$1.00e+302"),
        (amounts.money(Decimal("1e-400")), "$1.00e-400"),
        (amounts.money(Decimal("NaN")), "$nan"),
        (amounts.money(Decimal(0)), "$0.00"),
        (amounts.duration(38), "38 s"),
        (amounts.duration(1e300), "1.00e+300 s"),
        (amounts.duration(math.nan), "nan s"),
        (amounts.duration(-math.inf), "0 s"),
        (amounts.stopwatch(134), "00:02:14"),
        (amounts.stopwatch(math.inf), "infinity s"),
        (amounts.size(12_700), "12.4 KiB"),
        (amounts.size(10**400), "1.00e+400 B"),
    ],
)
def test_amounts_are_short(shown: str, text: str) -> None:
    assert shown == text


@given(st.one_of(st.integers(), st.floats()))
def test_law_11_no_number_is_too_large_to_be_shown(number: float) -> None:
    shown = [amounts.count(number), amounts.duration(number), amounts.stopwatch(number)]
    shown += [amounts.money(Decimal(number))]

    assert all(one and len(one) <= CHARS_MAX for one in shown)
