"""Times as people write them, `90s`, `10m`, `1h 30m`: one reading for plan files and for the command line."""

from __future__ import annotations

import re
from decimal import Decimal, Overflow
from math import isfinite
from typing import Final

PATTERN: Final = r"\s*(\d+(\.\d+)?\s*(ms|s|m|h|d)\s*)+"
"""One or more numbers with a unit each, for `fullmatch`."""

_WHOLE: Final = re.compile(PATTERN)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_SECONDS: Final = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600), "d": Decimal(86400)}


def seconds(text: str) -> float | None:
    """The seconds in `text`, None when it is no time, or more than can be counted.

    A number alone is none: what it counts is its reader's to say.
    """
    if not _WHOLE.fullmatch(text):
        return None
    try:
        found = float(sum(Decimal(number) * _SECONDS[unit] for number, unit in _PART.findall(text)))
    except Overflow:
        return None
    return found if isfinite(found) else None
