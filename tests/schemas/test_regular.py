"""Expressions without backtracking find what Python's find, and no pattern makes a search long."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.schemas import limits
from planloop.schemas.linear_regex import UnsupportedRegex, compile_linear_regex

pieces = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", r"\s", r"\b", "^", "$", r"\.", "(a|b)", "(?:ab)", "(a*)", "x|"]
)
repeats = st.sampled_from(["", "*", "+", "?", "{2}", "{1,3}", "{0,}", "*?"])


@st.composite
def patterns(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.tuples(pieces, repeats), max_size=6))
    edges = ("^", "$", r"\b", "x|")
    return "".join(piece if piece in edges else piece + repeat for piece, repeat in parts)


@given(pattern=patterns(), text=st.text(alphabet="abx1. \n_é", max_size=20))
def test_linear_regex_finds_what_pythons_finds(pattern: str, text: str) -> None:
    assert compile_linear_regex(pattern).found_in(text) == (re.search(pattern, text, re.MULTILINE) is not None)


def test_case_is_ignored_where_the_pattern_says_so() -> None:
    assert compile_linear_regex("(?i)force").found_in("git push --FORCE")
    assert not compile_linear_regex("force").found_in("git push --FORCE")


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("(a", "not closed"),
        ("[a", "not closed"),
        ("a)", "closes nothing"),
        ("*a", "nothing to repeat"),
        ("^*", "nothing to repeat"),
        ("(?=a)", "not supported"),
        ("(?P<n>a)", "not supported"),
        (r"(a)\1", "not supported"),
        ("a{3,1}", "wrong way round"),
        ("[b-a]", "bad character range"),
        ("(a{90}){90}", "steps"),
        ("(){999}{999}", "repeating"),
        ("(" * 100 + ")" * 100, "nested"),
        ("a" * (limits.RULE_PATTERN_CHARS_MAX + 1), "longer"),
        ("\\", "not supported"),
    ],
)
def test_unsupported_expression_is_reported(pattern: str, fault: str) -> None:
    with pytest.raises(UnsupportedRegex, match=re.escape(fault)):
        compile_linear_regex(pattern)


GREEDY = ["(a+)+$", "(a|a)*x", "(.*)*x", "(a|b|ab)*c", "a*a*a*a*a*a*a*x", "(a|b)*a(a|b){9}x"]


@pytest.mark.parametrize("pattern", GREEDY)
def test_pattern_that_is_exponential_elsewhere_finishes_quickly(pattern: str) -> None:
    text = "ab" * (limits.RULE_TEXT_CHARS_MAX // 4) + "a" * (limits.RULE_TEXT_CHARS_MAX // 2)

    assert not compile_linear_regex(pattern).found_in(text + "!")
