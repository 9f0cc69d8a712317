"""Sizes: one rule for what is written, exact words for what is shown."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.schemas import quantities


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("512", 512),
        ("512b", 512),
        ("512m", 512 << 20),
        ("512M", 512 << 20),
        ("512Mi", 512 << 20),
        ("512MiB", 512 << 20),
        ("512MB", 512 * 10**6),
        ("512 mb", 512 * 10**6),
        ("1.5GiB", 1536 << 20),
        ("2g", 2 << 30),
        ("1kB", 1000),
    ],
)
def test_a_letter_alone_is_what_docker_takes_it_for(text: str, size_bytes: int) -> None:
    assert quantities.parse_size(text) == size_bytes
    assert re.fullmatch(quantities.SIZE_PATTERN, text)


@pytest.mark.parametrize("text", ["", "much", "5 i", "5iB", "-5MB", "1e3", "5PB"])
def test_invalid_size_is_rejected(text: str) -> None:
    assert quantities.parse_size(text) is None
    assert not re.fullmatch(quantities.SIZE_PATTERN, text)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(64 * 10**6, "64 MB"), (64 << 20, "64 MiB"), (1 << 30, "1 GiB"), (1536 << 20, "1536 MiB"), (4097, "4,097 bytes")],
)
def test_a_size_is_shown_in_the_unit_that_it_was_written_in(size_bytes: int, text: str) -> None:
    assert quantities.format_exact_size(size_bytes) == text


@given(st.integers(min_value=0, max_value=1 << 50))
def test_printed_size_is_exact(size_bytes: int) -> None:
    shown = quantities.format_exact_size(size_bytes).replace(",", "").removesuffix(" bytes")

    assert quantities.parse_size(shown) == size_bytes
