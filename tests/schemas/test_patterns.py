"""Patterns of calls and paths: what they match, held against matching by trying everything, and how long that takes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planloop.schemas import patterns


def matches(pattern: str, text: str) -> bool:
    """A pattern whose star is any run of characters, by trying every run."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(matches(pattern[1:], text[skip:]) for skip in range(len(text) + 1))
    return text[:1] == pattern[0] and matches(pattern[1:], text[1:])


def leads_to(glob: list[str], names: list[str]) -> bool:
    """A path glob by trying every number of folders for each `**`; a last `**` takes whatever is left."""
    if not glob:
        return not names
    if glob == ["**"]:
        return True
    if glob[0] == "**":
        return any(leads_to(glob[1:], names[skip:]) for skip in range(len(names) + 1))
    return bool(names) and matches(glob[0], names[0]) and leads_to(glob[1:], names[1:])


@given(st.text("ab*", min_size=1, max_size=8), st.text("ab", max_size=8))
def test_a_star_is_any_run_of_characters(pattern: str, text: str) -> None:
    assert patterns.name_matches([pattern], text) is matches(pattern, text)


NAMES = st.sampled_from(["a", "b", "ab"])
GLOBS = st.sampled_from(["a", "b", "*", "a*", "*b", "**"])


@given(st.lists(GLOBS, min_size=1, max_size=6), st.lists(NAMES, min_size=1, max_size=6))
@example(["**", "a", "**", "*"], ["a"])
def test_two_stars_are_any_number_of_folders(glob: list[str], names: list[str]) -> None:
    assert patterns.path_matches(["/".join(glob)], "/".join(names)) is leads_to(glob, names)


@pytest.mark.timeout(5)
def test_law_11_a_pattern_full_of_stars_is_matched_in_bounded_time() -> None:
    assert patterns.find_denial([f"shell({'*a' * 40}b)"], "shell", ["a" * 5_000]) == ""
    assert not patterns.path_matches(["**/a/" * 40 + "b"], "a/" * 2_000 + "c")
    assert not patterns.path_matches(["*a" * 40 + "b"], "a" * 5_000)
