"""A table-driven test tries every row, and names each that fails."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from pytest_timeout import PYTEST_FAILURE_MESSAGE  # type: ignore[import-untyped]

from tests import rows

SEEN: list[tuple[int, int]] = []


@rows.each(("one", "other"), [(1, 1), (2, 4), (3, 9)])
def test_every_row_is_tried_with_its_fixtures(one: int, other: int, tmp_path: Path) -> None:
    SEEN.append((one, other))
    assert one * one == other and tmp_path.is_dir()


def test_the_rows_above_were_tried_in_their_order() -> None:
    SEEN.clear()
    test_every_row_is_tried_with_its_fixtures(tmp_path=Path("/"))
    assert SEEN == [(1, 1), (2, 4), (3, 9)]


def test_every_failing_row_is_reported_with_its_name() -> None:
    @rows.each("number", [1, 2, 3], ids=["first", "second", "third"])
    def is_two(number: int) -> None:
        assert number == 2

    with pytest.raises(BaseExceptionGroup, match="2 of 3 rows failed") as raised:
        is_two()

    assert [error.__notes__ for error in raised.value.exceptions] == [["row: first"], ["row: third"]]


@pytest.mark.anyio
async def test_every_failing_row_of_an_async_test_is_reported() -> None:
    @rows.each("number", [1, 2])
    async def is_raised(number: int) -> None:
        with pytest.raises(ZeroDivisionError):
            _ = 1 // (number - 1)

    with pytest.raises(BaseExceptionGroup, match="1 of 2 rows failed"):
        await is_raised()


def test_a_row_that_skips_fails_and_hides_no_other_row() -> None:
    @rows.each("number", [1, 2, 3])
    def is_one(number: int) -> None:
        if number == 2:
            pytest.skip("not today")
        assert number == 1

    with pytest.raises(BaseExceptionGroup, match="2 of 3 rows failed"):
        is_one()


def test_a_timeout_ends_the_table() -> None:
    tried = []

    @rows.each("number", [1, 2])
    def hangs(number: int) -> None:
        tried.append(number)
        pytest.fail(PYTEST_FAILURE_MESSAGE % 60)

    with pytest.raises(pytest.fail.Exception, match="Timeout"):
        hangs()
    assert tried == [1]


def test_only_fixtures_are_left_in_the_signature() -> None:
    assert list(inspect.signature(test_every_row_is_tried_with_its_fixtures).parameters) == ["tmp_path"]


def test_a_table_without_rows_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no rows"):
        rows.each("number", [])
