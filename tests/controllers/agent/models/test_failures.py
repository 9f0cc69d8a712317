"""What a provider's refusal means; the statuses themselves are tried over HTTP in `test_openai_chat.py`."""

from __future__ import annotations

import math
from email.utils import formatdate

import pytest

from controllers.agent.models import error_body, failures, waits
from schemas import limits
from tests import golden_text, rows
from tests.product import ModelFailed

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
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
        ({"retry-after": "Fri, 31 Dec 99999999999 23:59:59 GMT"}, None),
    ],
)
def test_retry_after_is_read_in_each_of_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert waits.retry_after_s(headers, NOW) == seconds


@rows.each(
    ("said", "seconds"),
    [
        ("Rate limit reached. Please try again in 6.2s.", 6.2),
        ("Please try again in 1m30s", 90.0),
        ("Please retry in 250ms.", 0.25),
        ("Rate limit is exceeded. Try again in 26 seconds.", 26.0),
        ('{"details": [{"retryDelay": "34s"}]}', 34.0),
        ("Please wait for 2 minutes", 120.0),
        ("Please try again later", None),
        ("retry 3 of 5", None),
    ],
)
def test_a_wait_that_a_refusal_states_in_words_is_read(said: str, seconds: float | None) -> None:
    failed = failures.of_status(429, said.encode(), retry_after_s=None, cure="")

    assert failed.retry_after_s == (None if seconds is None else pytest.approx(seconds))
    assert failures.of_status(429, said.encode(), retry_after_s=7.0, cure="").retry_after_s == 7.0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": {"message": "no such model", "type": "x"}}', "no such model"),
        (b'{"error": "model not found"}', "model not found"),
        (b'{"detail": "not here"}', "not here"),
        (b"<html>502</html>", "<html>502</html>"),
        (b"\xff\xfe", "��"),
        (b"", ""),
    ],
)
def test_the_message_of_an_error_is_found_in_every_vendors_words(body: bytes, said: str) -> None:
    assert error_body.said_in(body) == said


def test_no_key_is_told() -> None:
    failed = failures.of_status(400, b'{"error": "bad key sk-1"}', retry_after_s=None, cure="", secrets=("", "sk-1"))

    golden_text.said(str(failed))


def test_no_part_of_a_key_is_left_where_a_message_is_cut() -> None:
    for before in range(limits.MODEL_ERROR_CHARS - 20, limits.MODEL_ERROR_CHARS):
        body = b"x" * before + b" key-that-is-secret " + b"y" * 100
        failed = failures.of_status(400, body, retry_after_s=None, cure="", secrets=("key-that-is-secret",))
        assert "key-" not in str(failed)


def test_a_long_page_is_cut() -> None:
    failed = failures.of_status(502, b"<p>" * 10_000, retry_after_s=None, cure="")

    assert len(str(failed)) < 600


@pytest.mark.parametrize(
    ("wish_s", "kept_s"),
    [(math.inf, 86_400.0), (1e15, 86_400.0), (math.nan, None), (-math.inf, 0.0), (30.0, 30.0), (None, None)],
)
def test_no_wish_of_a_provider_holds_an_agent_for_more_than_a_day_or_is_no_number(
    wish_s: float | None, kept_s: float | None
) -> None:
    assert ModelFailed("RateLimited", "", is_transient=True, retry_after_s=wish_s).retry_after_s == kept_s
