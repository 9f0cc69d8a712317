"""Equal values give equal bytes; bytes give back the value; what is no JSON is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import encoding

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


@given(st.dictionaries(texts, scalars, min_size=2))
def test_key_order_is_kept_by_encode_and_ignored_by_canonical(value: dict[str, Any]) -> None:
    turned = dict(reversed(value.items()))
    assert encoding.canonical(turned) == encoding.canonical(value)
    assert encoding.digest_of(turned) == encoding.digest_of(value)
    assert list(encoding.decode(encoding.encode(turned))) == list(turned)


@given(values)
def test_a_line_break_never_stands_in_the_text(value: Any) -> None:
    assert b"\n" not in encoding.encode(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", object(), {"a": [float("nan")]}])
def test_what_is_no_json_is_refused(value: Any) -> None:
    for encode in (encoding.encode, encoding.canonical, encoding.encode_text):
        with pytest.raises((ValueError, TypeError)):
            encode(value)


def test_a_digest_is_sha_256() -> None:
    assert encoding.digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
