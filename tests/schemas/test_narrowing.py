"""What covers is certain to match all that the covered pattern matches: of calls, of paths and of models."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.schemas.patterns import is_allowed_by, path_matches
from planloop.schemas.rights import covers_call, covers_model, covers_path, is_covered, meet_patterns

PIECES = ("a", "b", "ab", "*", "a*", "*b", "?", "**", "a?")
NAMES = ("a", "b", "ab", "aab", "c")
TOOLS = ("shell", "write", "files.read", "s*", "*", "files.*", "w*")
NAMED = ("shell", "write", "files.read")
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)
GLOBS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("/".join)
TEXTS = st.text("ab/ ;", max_size=6)
SUBJECTS = st.text("ab*/ ;", max_size=6)
CALLS = st.builds("{}({})".format, st.sampled_from(TOOLS), SUBJECTS) | st.sampled_from(TOOLS)


@given(GLOBS, GLOBS, PATHS)
def test_no_glob_covers_one_that_matches_more(wide: str, narrow: str, path: str) -> None:
    assert not (covers_path(wide, narrow) and path_matches((narrow,), path)) or path_matches((wide,), path)


@given(CALLS, CALLS, st.sampled_from(NAMED), TEXTS)
def test_no_call_pattern_covers_one_that_allows_more(wide: str, narrow: str, tool: str, text: str) -> None:
    is_allowed = covers_call(wide, narrow) and is_allowed_by((narrow,), tool, (text,))
    assert not is_allowed or is_allowed_by((wide,), tool, (text,))


def test_a_glob_that_covers_another_matches_what_it_matches() -> None:
    paths = [*NAMES, *("/".join(both) for both in product(NAMES, repeat=2)), "a/b/c"]
    globs = [*PIECES, *("/".join(both) for both in product(PIECES, repeat=2))]
    matched = {glob: frozenset(path for path in paths if path_matches((glob,), path)) for glob in globs}
    covered = [(wide, narrow) for wide, narrow in product(globs, repeat=2) if covers_path(wide, narrow)]
    assert len(covered) > 2 * len(globs), "each covers itself, and there are others"
    assert [(wide, narrow) for wide, narrow in covered if not matched[narrow] <= matched[wide]] == []


def test_a_call_pattern_that_covers_another_allows_what_it_allows() -> None:
    texts = ["".join(letters) for count in range(3) for letters in product("ab/ ;", repeat=count)]
    asked = list(product(NAMED, texts))
    subjects = ("", "*", "a", "a*", "*b", "a*b", "ab", "a/*", "a ;*")
    calls = [*TOOLS, *(f"{tool}({subject})" for tool, subject in product(TOOLS, subjects))]
    allowed = {call: frozenset(one for one in asked if is_allowed_by((call,), one[0], (one[1],))) for call in calls}
    covered = [(wide, narrow) for wide, narrow in product(calls, repeat=2) if covers_call(wide, narrow)]
    assert len(covered) > 2 * len(calls), "each covers itself, and there are others"
    assert [(wide, narrow) for wide, narrow in covered if not allowed[narrow] <= allowed[wide]] == []


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
def test_glob_does_not_cover_a_path_that_resolves_elsewhere(wide: str, narrow: str) -> None:
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
    assert meet_patterns(("src/*",), ("src/a/b", "src/c"), covers_path) == ("src/c",)
    assert is_covered(("shell(git *)",), "shell(git push *)", covers_call)
    assert meet_patterns(("shell(git *)", "write(src/*)"), ("shell", "write(src/a/b)"), covers_call) == (
        "shell(git *)",
    )


@pytest.mark.timeout(5)
def test_law_11_covering_takes_bounded_time() -> None:
    assert not covers_path("**/a/" * 60 + "b", "a/" * 2_000 + "c")
    assert not covers_call(f"shell({'*a' * 60}b)", f"shell({'a' * 5_000})")
