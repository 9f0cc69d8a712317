"""Numbers for people: durations, money, tokens and sizes, each with its unit, each in a few characters."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


LARGE = 10**15
"""A number from which all are shown by their order of magnitude: what a log holds may be anything."""


def duration(seconds: float) -> str:
    """`0.4 s`, `38 s`, `1m40s`, `2h05m`, `3d04h`: two units at most."""
    if seconds != seconds or seconds >= LARGE:  # noqa: PLR0124 - a NaN equals nothing
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


def stopwatch(seconds: float) -> str:
    """`00:02:14`."""
    if not -LARGE < seconds < LARGE:
        return f"{_magnitude(seconds)} s"
    whole = max(0, int(seconds))
    return f"{whole // HOUR_S:02}:{whole % HOUR_S // MINUTE_S:02}:{whole % MINUTE_S:02}"


def money(usd: Decimal) -> str:
    """`$12.30`; under a cent two digits that say something: `$0.0042`."""
    if not usd.is_finite() or abs(usd) >= LARGE or 0 < abs(usd) < Decimal("1e-12"):
        return f"${_magnitude(usd)}"
    if usd == 0 or abs(usd) >= Decimal("0.01"):
        return f"${usd.quantize(Decimal('0.01'), ROUND_HALF_UP)}"
    digits = -usd.adjusted() + 1
    return f"${usd:.{digits}f}"


def count(number: float) -> str:
    """`950`, `212k`, `2M`, `1.5M`: three digits that matter."""
    if not -LARGE < number < LARGE:
        return _magnitude(number)
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:g}"


def size(bytes_: int) -> str:
    """`812 B`, `12.4 KiB`, `3.1 MiB`."""
    if bytes_ >= LARGE:
        return f"{_magnitude(bytes_)} B"
    if bytes_ < 1024:
        return f"{bytes_} B"
    power = min((bytes_.bit_length() - 1) // 10, 3)
    return f"{bytes_ / 1024**power:.1f} {('KiB', 'MiB', 'GiB')[power - 1]}"


def plural(number: int, one: str, many: str = "") -> str:
    """`1 task`, `3 tasks`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def _magnitude(number: float | Decimal) -> str:
    """`1.00e+30`, of any number there is, and of those that are none."""
    value = Decimal(number)
    return f"{value:.2e}" if value.is_finite() else str(value).lower()
