"""The meaning of error responses; `test_openai_chat.py` tests the statuses over HTTP."""

from __future__ import annotations

import math
from email.utils import formatdate

import pytest

from planloop.controllers.agent.models import errors
from planloop.schemas import limits
from tests import golden_text, rows
from tests.product import ModelFailed

NOW = 1_700_000_000.0


@rows.each(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": formatdate(NOW + 90, usegmt=True)}, 90.0),
        ({"retry-after": formatdate(NOW - 90, usegmt=True)}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "2m30.5s"}, None),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
        ({"retry-after": "2023-11-14T22:14:20Z"}, 60.0),
        ({"retry-after": "2023-11-14T22:14:20"}, 60.0),
        ({"retry-after": str(int(NOW) + 60)}, 60.0),
        ({"retry-after": str((int(NOW) + 60) * 1000)}, 60.0),
        ({"retry-after": "20, 20"}, 20.0),
        ({"retry-after": '"20"'}, 20.0),
        ({"retry-after": "1_0"}, None),
        ({"x-ratelimit-reset-after": "12.5"}, 12.5),
        ({"x-ratelimit-reset": str((int(NOW) + 60) * 1000)}, 60.0),
        ({"retry-after": "Fri, 31 Dec 99999999999 23:59:59 GMT"}, None),
    ],
)
def test_retry_after_is_read_in_each_of_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert errors.retry_after_s(headers, NOW) == seconds


@rows.each(
    ("said", "seconds"),
    [
        ("Rate limit reached. Please try again in 6.2s.", 6.2),
        ("Please try again in 1m30s", 90.0),
        ("Please retry in 250ms.", 0.25),
        ("Rate limit is exceeded. Try again in 26 seconds.", 26.0),
        ('{"details": [{"retryDelay": "34s"}]}', 34.0),
        ("Please wait for 2 minutes", 120.0),
        ("Please try again in about 5 minutes", 300.0),
        ("Please try again in 2h15m30.5s", 8130.5),
        ("Please wait 26 seconds before retrying", 26.0),
        ("retry in 12 secs", 12.0),
        ('{"error": {"retry_after": 20}}', 20.0),
        ('{"error": {"metadata": {"retry_after_seconds": 7.5}}}', 7.5),
        ('{"error": "{\\"retryAfter\\": \\"5\\"}"}', 5.0),
        ('{"retry_after_ms": 1500}', 1.5),
        ('{"retry_after": -3}', 0.0),
        ('{"error": "Model is loading", "estimated_time": 20.0}', 20.0),
        ("请在 30 秒后重试", 30.0),
        ("1" * 8_000, None),
        ("Please try again later", None),
        ("retry 3 of 5", None),
    ],
)
def test_wait_stated_in_a_refusals_text_is_read(said: str, seconds: float | None) -> None:
    failed = errors.failure_of_status(429, said.encode(), retry_after_s=None, key_hint="")

    assert failed.retry_after_s == (None if seconds is None else pytest.approx(seconds))
    assert errors.failure_of_status(429, said.encode(), retry_after_s=7.0, key_hint="").retry_after_s == 7.0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": {"message": "no such model", "type": "x"}}', "no such model"),
        (b'{"error": "model not found"}', "model not found"),
        (b'{"detail": "not here"}', "not here"),
        (b'{"error": {"message": "x", "metadata": {"raw": "{\\"error\\": \\"too long\\"}"}}}', "x: too long"),
        (b'{"error": {"message": "{\\"error\\": {\\"message\\": \\"too long\\"}}"}}', "too long"),
        (b"<html>502</html>", "<html>502</html>"),
        (b"\xff\xfe", "��"),
        (b"", ""),
    ],
)
def test_message_of_an_error_is_found_in_every_vendors_format(body: bytes, said: str) -> None:
    assert errors.error_message(body) == said


REFUSALS: dict[str, tuple[int, str, str, bool]] = {
    "no money at Zhipu": (429, '{"error": {"code": "1113", "message": "余额不足"}}', "Refused", False),
    "no money at Zhipu, escaped": (429, r'{"error": {"message": "\u8d26\u6237\u5df2\u6b20\u8d39"}}', "Refused", False),
    "no money at Moonshot": (429, '{"error": {"type": "exceeded_current_quota_error"}}', "Refused", False),
    "no money at Anthropic": (400, '{"error": {"message": "Your credit balance is too low"}}', "Refused", False),
    "a rate that Gemini calls a quota": (429, '{"error": {"message": "You exceeded your quota"}}', "RateLimited", True),
    "moderation": (403, '{"error": {"message": "Your input was flagged", "metadata": {}}}', "Filtered", False),
    "a filter of DeepSeek": (400, '{"error": {"message": "Content Exists Risk"}}', "Filtered", False),
    "a filter of Zhipu": (400, '{"error": {"message": "可能包含不安全或敏感内容"}}', "Filtered", False),
    "a model that loads": (400, '{"error": "Model is currently loading"}', "Overloaded", True),
    "a conflict": (409, "", "Overloaded", True),
    "too early": (425, "", "Overloaded", True),
    "cancelled": (499, '{"error": {"status": "CANCELLED"}}', "Overloaded", True),
    "a model that is not there": (404, '{"error": "model not found"}', "BadRequest", False),
}


@rows.each(("status", "body", "reason", "is_transient"), REFUSALS.values(), ids=list(REFUSALS))
def test_refusal_is_classified(status: int, body: str, reason: str, is_transient: bool) -> None:
    failed = errors.failure_of_status(status, body.encode(), retry_after_s=None, key_hint="")

    assert (failed.reason, failed.is_transient) == (reason, is_transient)


def test_missing_key_is_reported() -> None:
    failed = errors.failure_of_status(
        400, b'{"error": "bad key sk-1"}', retry_after_s=None, key_hint="", secrets=("", "sk-1")
    )

    golden_text.said(str(failed))


def test_no_part_of_a_key_remains_where_a_message_is_cut() -> None:
    for before in range(limits.MODEL_ERROR_CHARS - 20, limits.MODEL_ERROR_CHARS):
        body = b"x" * before + b" key-that-is-secret " + b"y" * 100
        failed = errors.failure_of_status(400, body, retry_after_s=None, key_hint="", secrets=("key-that-is-secret",))
        assert "key-" not in str(failed)


def test_a_long_page_is_cut() -> None:
    failed = errors.failure_of_status(502, b"<p>" * 10_000, retry_after_s=None, key_hint="")

    assert len(str(failed)) < 600


@pytest.mark.parametrize(
    ("wish_s", "kept_s"),
    [(math.inf, 86_400.0), (1e15, 86_400.0), (math.nan, None), (-math.inf, 0.0), (30.0, 30.0), (None, None)],
)
def test_retry_after_is_bounded_to_a_day_and_must_be_a_number(wish_s: float | None, kept_s: float | None) -> None:
    assert ModelFailed("RateLimited", "", is_transient=True, retry_after_s=wish_s).retry_after_s == kept_s
