"""Equal values give equal bytes; bytes give back the value; what is no JSON is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import encoding
from schemas.frozen import frozen

texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=12)


@given(values)
def test_decoding_gives_back_the_value(value: Any) -> None:
    assert encoding.decode(encoding.encode(value)) == value
    assert encoding.decode(encoding.canonical(value)) == value
    assert encoding.encode_text(value).encode() == encoding.encode(value)


@given(values)
def test_the_bytes_are_those_of_the_plain_encoder(value: Any) -> None:
    plain = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    ordered = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True)
    assert encoding.encode(value) == plain.encode(value).encode()
    assert encoding.canonical(value) == ordered.encode(value).encode()


@pytest.mark.parametrize(
    "value",
    [
        *(2**64, -(2**63) - 1, 1e16, 1.5e300, 5e-324, 1e-4, 1e-5, 1e-6, -8.7e-5, 1.25e-17),
        *({1: "a"}, {None: 1}, {"a": (1, 2)}, [1e-5, None, (1e-5,)], "null", [[[]] * 3] * 3, "\x7f\u2028\x00/"),
    ],
)
def test_what_the_quick_encoder_refuses_or_takes_for_something_else_is_printed_as_by_the_plain_one(value: Any) -> None:
    plain = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    assert encoding.encode(value) == plain.encode(value).encode()


def test_half_a_pair_of_characters_is_refused_as_no_unicode() -> None:
    with pytest.raises(UnicodeEncodeError):
        encoding.encode({"a": "\ud800"})


@given(st.dictionaries(texts, scalars, min_size=2))
def test_key_order_is_kept_by_encode_and_ignored_by_canonical(value: dict[str, Any]) -> None:
    turned = dict(reversed(value.items()))
    assert encoding.canonical(turned) == encoding.canonical(value)
    assert encoding.digest_of(turned) == encoding.digest_of(value)
    assert list(encoding.decode(encoding.encode(turned))) == list(turned)


@given(values)
def test_a_line_break_never_stands_in_the_text(value: Any) -> None:
    assert b"\n" not in encoding.encode(value)


@frozen
class _Value:
    """No JSON, though orjson and msgspec could print it."""

    name: str = "x"


@pytest.mark.parametrize(
    "value",
    [
        *(float("nan"), float("inf"), {"a": [float("nan"), None]}, [None, float("-inf")]),
        *({1, 2}, b"x", object(), _Value(), datetime(2026, 1, 1, tzinfo=UTC), Decimal(1)),
    ],
)
def test_what_is_no_json_is_refused(value: Any) -> None:
    for encode in (encoding.encode, encoding.canonical, encoding.encode_text):
        with pytest.raises((ValueError, TypeError)):
            encode(value)


def test_a_digest_is_sha_256() -> None:
    assert encoding.digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
