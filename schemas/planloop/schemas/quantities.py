"""Parse durations (`1h 30m`) and sizes (`512 MiB`) as people write them, and print sizes."""

from __future__ import annotations

import re
from decimal import Decimal, Overflow
from math import isfinite
from typing import Final

# Times as people write them, `90s`, `10m`, `1h 30m`: one reading for plan files and for the command line.

DURATION_PATTERN: Final = r"\s*(\d+(\.\d+)?\s*(ms|s|m|h|d)\s*)+"
"""One or more numbers with a unit each, for `fullmatch`."""

_WHOLE_DURATION: Final = re.compile(DURATION_PATTERN)
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_SECONDS: Final = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600), "d": Decimal(86400)}


def parse_duration(text: str) -> float | None:
    """The seconds in `text`, None when it is no time, or more than can be counted.

    A number alone is none: what it counts is its reader's to say.
    """
    if not _WHOLE_DURATION.fullmatch(text):
        return None
    try:
        found = float(sum(Decimal(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(text)))
    except Overflow:
        return None
    return found if isfinite(found) else None


# Sizes as people write and read them, in bytes.
#
# `MB` counts by 1,000 and `MiB` by 1,024, as on a disk and in Kubernetes. A letter alone is what Docker takes it for:
# the `512m` of a Compose file is 512 MiB.

SIZE_PATTERN: Final = r"\d+(\.\d+)?\s*([kKmMgGtT]i?)?[bB]?"
_SIZE_PARTS: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kKmMgGtT])(i?))?([bB]?)", re.ASCII)
_SIZE_LETTERS: Final = "kmgt"
_SIZE_UNITS: Final = tuple(
    (base**power, f"{letter}{i}B")
    for base, i, names in ((1024, "i", "KMGT"), (1000, "", "kMGT"))
                      for power, letter in enumerate(names, 1))  # fmt: skip


def parse_size(text: str) -> Decimal | None:
    """Bytes, which may be no whole number; None for what is no size."""
    found = _SIZE_PARTS.fullmatch(text.strip())
    if found is None:
        return None
    number, letter, binary, byte = found.groups()
    power = _SIZE_LETTERS.index(letter.lower()) + 1 if letter else 0
    base = Decimal(1024 if binary or not byte else 1000)
    return Decimal(number) * base**power


def format_exact_size(size_bytes: int) -> str:
    """`64 MB`, `512 MiB`: exact, in the unit that makes the smallest number; to the byte where none fits."""
    exact = [(size_bytes // unit, name) for unit, name in _SIZE_UNITS if size_bytes and size_bytes % unit == 0]
    if not exact:
        return f"{size_bytes:,} bytes"
    number, name = min(exact)
    return f"{number} {name}"
