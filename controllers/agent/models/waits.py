"""How long a provider asks to wait, from the headers or the body of a refusal, in each form that is in use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Final

from schemas import limits

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SAID: Final = re.compile(
    r"(?:(?:try|retry)(?: again)?|wait)(?: in| after)?(?: for)?\W{1,3}((?:\d+(?:\.\d+)?\s?(?:ms|[smhd])(?![a-z])\s?)+)"
    r"|(?:(?:try|retry)(?: again)?|wait)(?: in| after)?(?: for)? (\d+(?:\.\d+)?) (second|minute|hour)"
    r'|"retrydelay"\s*:\s*"(\d+(?:\.\d+)?s)"'
)
_WORDS: Final = {"second": 1.0, "minute": 60.0, "hour": 3_600.0}
EPOCH_FROM: Final = 1e9
"""From this many seconds on, a number is a Unix time: no provider asks to wait for thirty years."""


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds that a provider asks to wait, from its headers by lower-case name; None: it does not say.

    `retry-after-ms` is what OpenAI and Azure send besides. `retry-after` holds seconds or a date (RFC 9110, 10.2.3),
    at some gateways an ISO date or a time since 1970. Anything else says nothing.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    stated = headers.get("retry-after", "").strip()
    seconds = _number(stated)
    return _until(stated, now) if seconds is None else _since_1970(seconds, now)


def said_in(body: bytes) -> float | None:
    """The seconds that a refusal asks to wait in words: `Please try again in 6.2s`, `"retryDelay": "34s"`."""
    found = _SAID.search(body[: limits.OUTPUT_SHOWN_BYTES].decode(errors="replace").lower())
    if found is None:
        return None
    spans, count, unit, delay = found.groups()
    return float(count) * _WORDS[unit] if count else _sum_of((spans or delay).replace(" ", ""))


def _sum_of(spans: str) -> float:
    return sum(float(count) * _UNITS[unit] for count, unit in _SPAN.findall(spans))


def _number(stated: str) -> float | None:
    try:
        number = float(stated)
    except ValueError:
        return None
    return number if isfinite(number) or number > 0 else None


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
