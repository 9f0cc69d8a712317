"""Which globs have a file in common, and which cover which: against every path of a small tree."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.controllers.shared.leases.lock_paths import PathIndex, path_covers, paths_overlap
from planloop.schemas.patterns import path_matches

NAMES = ("a", "b", "ab", "a.py", "b.py")
PATHS = [
    *NAMES,
    *(f"{one}/{two}" for one in NAMES for two in NAMES),
    *(f"{one}/{two}/{three}" for one in NAMES for two in NAMES for three in NAMES),
]
PARTS = ("a", "b", "a.py", "*", "*.py", "a*", "?", "**")
GLOBS = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("/".join)


def means(glob: str, path: str) -> bool:
    """Whether a lock of `glob` is about the file `path`: it, or a folder it lies in, fits."""
    names = path.split("/")
    return any(path_matches((glob,), "/".join(names[:end])) for end in range(1, len(names) + 1))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a/**", "a/b/c", True),
        ("a/**", "a", True),
        ("a", "a/b", True),
        ("a", "ab", False),
        ("a/*.py", "a/*.js", False),
        ("a/*.py", "a/b*", True),
        ("a/x/**", "a/y/**", False),
        ("a/**/t.py", "a/b/c/t.py", True),
        ("src/[id].tsx", "src/i.tsx", False),
        ("**", "anything", True),
        (".", "anything", True),
    ],
)
def test_globs_overlap_when_both_match_some_file(one: str, other: str, expected: bool) -> None:
    assert paths_overlap(one, other) is expected and paths_overlap(other, one) is expected


@given(GLOBS, GLOBS)
def test_overlap_finds_every_common_file_and_is_symmetric(one: str, other: str) -> None:
    shared = [path for path in PATHS if means(one, path) and means(other, path)]
    assert paths_overlap(one, other) == paths_overlap(other, one)
    assert paths_overlap(one, other) or not shared


@given(GLOBS, st.sampled_from(PATHS))
def test_path_is_covered_exactly_when_the_glob_matches_it(glob: str, path: str) -> None:
    assert path_covers(glob, path) == means(glob, path)


def test_pattern_that_covers_a_glob_matches_every_file_of_the_glob() -> None:
    globs = [*PARTS, *("/".join(both) for both in product(PARTS, repeat=2)), "a/**/b", "*/**/a.py", "a/b/*"]
    files = {glob: frozenset(path for path in PATHS if means(glob, path)) for glob in globs}
    covered = [(lock, glob) for lock, glob in product(globs, repeat=2) if path_covers(lock, glob)]
    assert len(covered) > 2 * len(globs), "each covers itself, and there are others"
    assert [(lock, glob) for lock, glob in covered if not files[glob] <= files[lock]] == []


@given(st.lists(GLOBS, max_size=12), GLOBS)
def test_the_index_finds_what_looking_at_all_of_them_finds(globs: list[str], asked: str) -> None:
    places: PathIndex[int] = PathIndex()
    for number, glob in enumerate(globs):
        places.add(glob, number)
    found = sorted(number for _, number in places.near(asked))
    assert found == [number for number, glob in enumerate(globs) if paths_overlap(glob, asked)]
