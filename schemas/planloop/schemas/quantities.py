"""Parse durations and sizes as people write them, and format quantities, exit codes and terminal text for people."""

from __future__ import annotations

import re
import unicodedata
from decimal import ROUND_HALF_UP, Decimal, Overflow
from math import isfinite
from typing import Final

DURATION_PATTERN: Final = r"\s*(\d+(\.\d+)?\s*(ms|s|m|h|d)\s*)+"
"""One or more numbers with a unit each, for `fullmatch`."""

_WHOLE_DURATION: Final = re.compile(DURATION_PATTERN)
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_SECONDS: Final = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600), "d": Decimal(86400)}


def parse_duration(text: str) -> float | None:
    """Return the seconds in `text`, None if it is malformed or too large.

    A number without a unit is malformed.
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
    """Return the bytes in `text`, possibly fractional; None if it is malformed."""
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


# Numbers for people: durations, money, tokens and sizes, each with its unit, each in a few characters.

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


SIZE_SIGNS = 10**15
"""A number from which all are shown by their order of magnitude: what a log holds may be anything."""


def format_duration(seconds: float) -> str:
    """`0.4 s`, `38 s`, `1m40s`, `2h05m`, `3d04h`: two units at most."""
    if seconds != seconds or seconds >= SIZE_SIGNS:  # noqa: PLR0124 - a NaN equals nothing
        return f"{_magnitude(seconds)} s"
    if seconds < 0:
        return "0 s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < MINUTE_S:
        return f"{whole} s"
    if whole < HOUR_S:
        return f"{whole // MINUTE_S}m{whole % MINUTE_S:02}s"
    if whole < DAY_S:
        return f"{whole // HOUR_S}h{whole % HOUR_S // MINUTE_S:02}m"
    return f"{whole // DAY_S}d{whole % DAY_S // HOUR_S:02}h"


def format_stopwatch(seconds: float) -> str:
    """`00:02:14`."""
    if not -SIZE_SIGNS < seconds < SIZE_SIGNS:
        return f"{_magnitude(seconds)} s"
    whole = max(0, int(seconds))
    return f"{whole // HOUR_S:02}:{whole % HOUR_S // MINUTE_S:02}:{whole % MINUTE_S:02}"


def format_money(usd: Decimal) -> str:
    """`$12.30`; under a cent two digits that say something: `$0.0042`."""
    if not usd.is_finite() or abs(usd) >= SIZE_SIGNS or 0 < abs(usd) < Decimal("1e-12"):
        return f"${_magnitude(usd)}"
    if usd == 0 or abs(usd) >= Decimal("0.01"):
        return f"${usd.quantize(Decimal('0.01'), ROUND_HALF_UP)}"
    digits = -usd.adjusted() + 1
    return f"${usd:.{digits}f}"


def format_count(number: float) -> str:
    """`950`, `212k`, `2M`, `1.5M`: three digits that matter."""
    if not -SIZE_SIGNS < number < SIZE_SIGNS:
        return _magnitude(number)
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:g}"


def format_size(bytes_: int) -> str:
    """`812 B`, `12.4 KiB`, `3.1 MiB`."""
    if bytes_ >= SIZE_SIGNS:
        return f"{_magnitude(bytes_)} B"
    if bytes_ < 1024:
        return f"{bytes_} B"
    power = min((bytes_.bit_length() - 1) // 10, 3)
    return f"{bytes_ / 1024**power:.1f} {('KiB', 'MiB', 'GiB')[power - 1]}"


def pluralize(number: int, one: str, many: str = "") -> str:
    """`1 task`, `3 tasks`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def _magnitude(number: float | Decimal) -> str:
    """`1.00e+30`, of any number there is, and of those that are none."""
    value = Decimal(number)
    return f"{value:.2e}" if value.is_finite() else str(value).lower()


# How wide a text is on a terminal, in cells: padding and cutting go by them, not by characters.


def pad_cells(text: str, width: int) -> str:
    """`text` with spaces up to `width` terminal cells."""
    return text + " " * (width - cell_width(text))


def truncate_cells(text: str, width: int) -> str:
    """`text` in at most `width` cells, with `…` for what is missing."""
    if cell_width(text) <= width:
        return text
    out, used = [], 0
    for character in text:
        used += _char_cells(character)
        if used > width - 1:
            break
        out.append(character)
    return "".join(out).rstrip() + "…"


def cell_width(text: str) -> int:
    """Terminal cells that `text` takes: wide East Asian characters take two, combining marks none."""
    return len(text) if text.isascii() else sum(map(_char_cells, text))


def replace_control_chars(text: str) -> str:
    """`text` with a mark for all that could steer a terminal: it may come from anywhere."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


def _char_cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


# Explanations of exit codes, for readers who do not know signal numbers.

_SIGNALS: Final = {
    1: "its terminal or session was closed",
    2: "interrupted",
    4: "it crashed, its program is broken or for another processor",
    6: "it gave up by itself",
    7: "it crashed",
    8: "crashed by an arithmetic error",
    9: "killed, by a user or because memory ran out",
    11: "crashed by an invalid memory access",
    13: "its output pipe was closed",
    15: "terminated on request",
    24: "it used more processor time than it may",
    25: "it wrote a larger file than it may",
    31: "it called for what it may not",
}
_FIRST_OF_SIGNALS: Final = 128  # A shell, and whatever runs one, adds a signal to this.


def signal_meaning(code: int | None) -> str:
    """`signal 9: killed, …` for a `code` that means a signal, as one below 0 does too; empty for a plain number."""
    if code is None:
        return ""
    number = -code if code < 0 else code - _FIRST_OF_SIGNALS
    return f"signal {number}: {_SIGNALS[number]}" if number in _SIGNALS else ""


def describe_exit_code(code: int | None) -> str:
    """`exit code 3`, `exit code 137 (signal 9: killed, …)`."""
    said = signal_meaning(code)
    return f"exit code {code}" + (f" ({said})" if said else "")
