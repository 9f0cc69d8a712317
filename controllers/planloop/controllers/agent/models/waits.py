"""How long a provider asks to wait, from the headers or the body of a refusal, in each form that is in use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Final

from planloop.schemas import limits

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_UNIT: Final = r"(?:ms|millis\w*|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])"
_SPAN: Final = re.compile(rf"(?<![\d.])(\d+(?:\.\d+)?)\s?({_UNIT})")
_SPANS: Final = rf"(?:\d+(?:\.\d+)?\s?{_UNIT}\s?)+"
_SAID: Final = re.compile(
    rf"(?:try|retry|wait)(?: again)?(?: in| after)?(?: for)?(?: about)?\W{{1,3}}({_SPANS})"
    rf'|retry_?delay[\\"]*\s*:\s*[\\"]*({_SPANS})'
)
_FIELD: Final = re.compile(
    r'(?:retry_?after(_?ms)?(?:_?s(?:ec(?:ond)?s?)?)?|estimated_time)[\\"]*\s*:\s*[\\"]*(-?\d+(?:\.\d+)?)(?![\w.])'
)
_CHINESE: Final = re.compile(r"(?<!\d)(\d{1,9}(?:\.\d{1,9})?)\s?(秒|分钟|小时)\s?(?:后|再)")  # "After 30 seconds."
_CHINESE_UNITS: Final = {"秒": 1.0, "分钟": 60.0, "小时": 3_600.0}
_SEVERAL: Final = re.compile(r"([-+.\deE]{1,20})\s*,[\s,.\d]*")  # A header that came more than once.
EPOCH_FROM: Final = 1e9
"""From this many seconds on, a number is a Unix time: no provider asks to wait for thirty years."""


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds that a provider asks to wait, from its headers by lower-case name; None: it does not say.

    `retry-after-ms` is what OpenAI and Azure send besides. `retry-after` holds seconds or a date (RFC 9110, 10.2.3),
    at some gateways an ISO date or a time since 1970. OpenRouter has only a time at which its limit is reset. Anything
    else says nothing.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    for name in ("retry-after", "x-ratelimit-reset-after", "x-ratelimit-reset"):
        found = _read(headers.get(name, "")[: limits.VALUE_SHOWN_CHARS].strip().strip('"'), now)
        if found is not None:
            return found
    return None


def said_in(said: str) -> float | None:
    """The seconds that a refusal, in lower case, asks to wait: `Please try again in 6.2s`, `"retryDelay": "34s"`."""
    said = said[: limits.OUTPUT_SHOWN_BYTES]
    if found := _SAID.search(said):
        return _sum_of(found[1] or found[2])
    if found := _FIELD.search(said):
        return max(0.0, float(found[2]) / (1000 if found[1] else 1))
    found = _CHINESE.search(said)
    return float(found[1]) * _CHINESE_UNITS[found[2]] if found else None


def _read(stated: str, now: float) -> float | None:
    several = _SEVERAL.fullmatch(stated)
    stated = several[1] if several else stated
    seconds = _number(stated)
    if seconds is not None:
        return _since_1970(seconds, now)
    return _until(stated, now)


def _sum_of(spans: str) -> float:
    found = _SPAN.findall(spans.lower())
    return sum(float(count) * _UNITS["ms" if unit.startswith(("ms", "mil")) else unit[0]] for count, unit in found)


def _number(stated: str) -> float | None:
    try:
        number = float(stated)
    except ValueError:
        return None
    is_plain = "_" not in stated and (isfinite(number) or number > 0)
    return number if is_plain else None


def _since_1970(stated: float, now: float) -> float:
    if not isfinite(stated) or stated < EPOCH_FROM:
        return max(0.0, stated)
    return max(0.0, (stated / 1000 if stated > EPOCH_FROM * 1000 else stated) - now)


def _until(stated: str, now: float) -> float | None:
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            at = read(stated)
            return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now)
        except (ValueError, OverflowError, IndexError, TypeError):
            continue
    return None
