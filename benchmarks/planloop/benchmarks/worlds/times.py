"""Times and days as texts: parse, compare, shift, and write in canonical UTC form."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

from planloop.schemas.canonical_json import Json

_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def parse_instant(value: Json) -> datetime | None:
    """The instant that a text names: a time, in UTC unless it says otherwise, or the beginning of a day."""
    if not isinstance(value, str) or not _DAY.match(value):
        return None
    try:
        found = datetime.fromisoformat(value)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):  # In UTC it may lie before the year 1 or after 9999.
        return None


def canonical_time(value: str) -> str | None:
    """The same time as in `2030-01-02T15:00:00Z`; None for a text that is no time."""
    found = parse_instant(value)
    return None if found is None or _DAY.fullmatch(value) else write_time(found)


def canonical_day(value: str) -> str | None:
    """The same day as in `2030-01-02`; None for a text that is none."""
    try:
        return date.fromisoformat(value).isoformat()
    except ValueError:
        return None


def shift_time(time: datetime, by: timedelta) -> datetime | None:
    """The time that long after, or before; None when no year from 1 to 9999 has it."""
    try:
        return time + by
    except OverflowError:
        return None


def write_time(time: datetime) -> str:
    """A time in the form that worlds keep it in, with no more than it says."""
    return time.isoformat(timespec="microseconds" if time.microsecond else "seconds").replace("+00:00", "Z")
