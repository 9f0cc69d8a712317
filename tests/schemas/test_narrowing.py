"""What covers is certain to match all that the covered pattern matches: of calls, of paths and of models."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.narrowing import covers_call, covers_model, covers_path, is_covered, meet
from schemas.patterns import allowed_by, any_path

PIECES = st.sampled_from(["a", "b", "ab", "*", "a*", "*b", "?", "**", "a?"])
PATHS = st.lists(st.sampled_from(["a", "b", "ab", "aab", "c"]), min_size=1, max_size=4).map("/".join)
GLOBS = st.lists(PIECES, min_size=1, max_size=4).map("/".join)
TEXTS = st.text("ab/ ;", max_size=6)
SUBJECTS = st.text("ab*/ ;", max_size=6)
TOOLS = st.sampled_from(["shell", "write", "files.read", "s*", "*", "files.*", "w*"])
CALLS = st.builds("{}({})".format, TOOLS, SUBJECTS) | TOOLS


@given(GLOBS, GLOBS, PATHS)
def test_a_glob_that_covers_another_matches_what_it_matches(wide: str, narrow: str, path: str) -> None:
    if covers_path(wide, narrow) and any_path((narrow,), path):
        assert any_path((wide,), path)


@given(CALLS, CALLS, st.sampled_from(["shell", "write", "files.read"]), TEXTS)
def test_a_call_pattern_that_covers_another_allows_what_it_allows(wide: str, narrow: str, tool: str, text: str) -> None:
    if covers_call(wide, narrow) and allowed_by((narrow,), tool, (text,)):
        assert allowed_by((wide,), tool, (text,))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("src/*", "src/a/b"),
        ("src/*", "src/**"),
        ("src/**", "src/../**"),
        ("src", "src/a"),
        ("a/**", "**"),
        ("a/**", ""),
        ("a/**", "./"),
        ("a/?", "a/*"),
        ("a/b", "A/b"),
        ("a", "/a"),
    ],
)
def test_a_glob_does_not_cover_what_leads_elsewhere(wide: str, narrow: str) -> None:
    assert not covers_path(wide, narrow)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [("src/**", "src/a/b"), ("src/**", "src"), ("**", "a/*/b"), ("**/b", "a/**/b"), ("./a/", "a"), ("a/**", "a/**/c")],
)
def test_a_glob_covers_what_is_below_it(wide: str, narrow: str) -> None:
    assert covers_path(wide, narrow)


@pytest.mark.parametrize(
    ("pattern", "model"),
    [
        ("ollama/*", "ollama/x@http://elsewhere/v1"),
        ("ollama/*", "*"),
        ("*@http://here/*", "a@http://elsewhere/?@http://here/v1"),
        ("*@http://here/*", "a@http://here@elsewhere/v1"),
        ("*@http://here/*", "ollama/x"),
        ("ollama/a", "ollama/*"),
        ("ollama/a", "Ollama/a"),
    ],
)
def test_a_pattern_of_models_does_not_reach_other_places(pattern: str, model: str) -> None:
    assert not covers_model(pattern, model)


def test_a_meet_of_path_globs_stays_within_one_folder_where_one_side_does() -> None:
    assert meet(("src/*",), ("src/a/b", "src/c"), covers_path) == ("src/c",)
    assert is_covered(("shell(git *)",), "shell(git push *)", covers_call)
    assert meet(("shell(git *)", "write(src/*)"), ("shell", "write(src/a/b)"), covers_call) == ("shell(git *)",)


@pytest.mark.timeout(5)
def test_law_11_covering_takes_bounded_time() -> None:
    assert not covers_path("**/a/" * 60 + "b", "a/" * 2_000 + "c")
    assert not covers_call(f"shell({'*a' * 60}b)", f"shell({'a' * 5_000})")
