"""Equal values have equal bytes; bytes decode to the value; values outside of JSON are rejected."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.schemas import canonical_json
from planloop.schemas.frozen import frozen
from tests import rows

texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=12)


@given(values)
def test_decoding_gives_back_the_value(value: Any) -> None:
    assert canonical_json.decode(canonical_json.encode(value)) == value
    assert canonical_json.decode(canonical_json.canonical_bytes(value)) == value
    assert canonical_json.encode_text(value).encode() == canonical_json.encode(value)


def _plain(value: Any, *, sort_keys: bool = False) -> bytes:
    """What the standard library prints."""
    encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=sort_keys)
    return encoder.encode(value).encode()


keys = texts | st.integers() | st.booleans() | st.none()
loose = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=12)


@given(values)
def test_decoded_value_is_encoded_to_the_same_bytes(value: Any) -> None:
    for encode in (canonical_json.encode, canonical_json.canonical_bytes):
        assert encode(canonical_json.decode(encode(value))) == encode(value)


@given(loose)
def test_non_string_key_is_printed_as_by_the_plain_encoder(value: Any) -> None:
    assert canonical_json.encode(value) == canonical_json.encode(json.loads(_plain(value)))


@given(values)
def test_the_bytes_are_those_of_the_plain_encoder_but_for_small_numbers(value: Any) -> None:
    for encode, is_sorted in ((canonical_json.encode, False), (canonical_json.canonical_bytes, True)):
        plain = _plain(value, sort_keys=is_sorted)
        assert encode(value) == plain or (b"e-" in plain and json.loads(encode(value)) == json.loads(plain))


@rows.each(
    "value",
    [
        *(2**64, -(2**63) - 1, 1e16, 1.5e300, 5e-324, 1e-4, -1.25e-17, float(0x7FF), 0xCB7FF0000000, 2.0**1023),
        *({1: "a"}, {None: 1}, {"a": (1, 2)}, [0.5, None, (2**70,)], "null", [[[]] * 3] * 3, "\x7f\u2028\x00/"),
        *([None, "\u02ff\u2fff\x7f"], [None, 0xCBFF], [None, 0xCB7F], {"a": None, "b": 2**64}),
    ],
)
def test_value_that_orjson_refuses_or_misreads_is_printed_as_by_the_plain_encoder(value: Any) -> None:
    assert canonical_json.encode(value) == _plain(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e-5, b"0.00001"), (-8.7e-5, b"-0.000087"), (1e-6, b"1e-6"), (1e-7, b"1e-7"), (2.5e-9, b"2.5e-9")],
)
def test_a_small_number_has_one_form_however_it_comes(value: float, text: bytes) -> None:
    assert canonical_json.encode(value) == text
    assert canonical_json.encode([value, None]) == b"[" + text + b",null]"
    assert canonical_json.canonical_bytes({1: value}) == b'{"1":' + text + b"}"


def test_value_nested_too_deeply_for_orjson_is_printed_too() -> None:
    value: Any = "x"
    for _ in range(600):
        value = [value]
    assert canonical_json.encode(value) == _plain(value)


def test_half_a_pair_of_characters_is_refused_as_no_unicode() -> None:
    with pytest.raises(UnicodeEncodeError):
        canonical_json.encode({"a": "\ud800"})


@given(st.dictionaries(texts, scalars, min_size=2))
def test_key_order_is_kept_by_encode_and_ignored_by_canonical(value: dict[str, Any]) -> None:
    turned = dict(reversed(value.items()))
    assert canonical_json.canonical_bytes(turned) == canonical_json.canonical_bytes(value)
    assert canonical_json.sha256_of_value(turned) == canonical_json.sha256_of_value(value)
    assert list(canonical_json.decode(canonical_json.encode(turned))) == list(turned)


@given(values)
def test_text_never_contains_a_line_break(value: Any) -> None:
    assert b"\n" not in canonical_json.encode(value)


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
def test_invalid_json_is_refused(value: Any) -> None:
    for encode in (canonical_json.encode, canonical_json.canonical_bytes, canonical_json.encode_text):
        with pytest.raises((ValueError, TypeError)):
            encode(value)


def test_a_digest_is_sha_256() -> None:
    assert canonical_json.sha256_hex(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
