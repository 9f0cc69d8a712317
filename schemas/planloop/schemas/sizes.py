"""Sizes as people write and read them, in bytes.

`MB` counts by 1,000 and `MiB` by 1,024, as on a disk and in Kubernetes. A letter alone is what Docker takes it for: the
`512m` of a Compose file is 512 MiB.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

PATTERN: Final = r"\d+(\.\d+)?\s*([kKmMgGtT]i?)?[bB]?"
_PARTS: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kKmMgGtT])(i?))?([bB]?)", re.ASCII)
_LETTERS: Final = "kmgt"
_UNITS: Final = tuple((base**power, f"{letter}{i}B") for base, i, names in ((1024, "i", "KMGT"), (1000, "", "kMGT"))
                      for power, letter in enumerate(names, 1))  # fmt: skip


def parse(text: str) -> Decimal | None:
    """Bytes, which may be no whole number; None for what is no size."""
    found = _PARTS.fullmatch(text.strip())
    if found is None:
        return None
    number, letter, binary, byte = found.groups()
    power = _LETTERS.index(letter.lower()) + 1 if letter else 0
    base = Decimal(1024 if binary or not byte else 1000)
    return Decimal(number) * base**power


def words(size_bytes: int) -> str:
    """`64 MB`, `512 MiB`: exact, in the unit that makes the smallest number; to the byte where none fits."""
    exact = [(size_bytes // unit, name) for unit, name in _UNITS if size_bytes and size_bytes % unit == 0]
    if not exact:
        return f"{size_bytes:,} bytes"
    number, name = min(exact)
    return f"{number} {name}"
