"""Table-driven tests: one test tries every row of a table and reports all rows that fail.

`pytest.mark.parametrize` makes an item of each row, which costs more than a small check does. Use it where a row
takes long or needs its own fixtures; the rows of `each` share the fixtures of the test.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, cast

import pytest

from tests.suite.first_failures import is_timeout

Test: TypeAlias = Callable[..., Any]
Ids: TypeAlias = Iterable[object] | Callable[[Any], object] | None


def each(names: str | Sequence[str], table: Iterable[Any], ids: Ids = None) -> Callable[[Test], Test]:
    """Call the decorated test with every row of `table`, as `parametrize` does, but within one item.

    `names` are the parameters that a row fills; with one name, a row is its value. `ids` name the rows in a failure.
    A row that skips counts as failed. The test's timeout ends the whole table.
    Raises: BaseExceptionGroup with one error for each row that fails.
    """
    names = (names,) if isinstance(names, str) else tuple(names)
    rows = [(row,) if len(names) == 1 else tuple(row) for row in table]
    labels = _labels(rows, ids)
    assert rows, "the table has no rows"

    def decorated(test: Test) -> Test:
        @functools.wraps(test)
        def tried(**fixtures: object) -> None:
            with _failures(len(rows)) as failures:
                for row, label in zip(rows, labels, strict=True):
                    with failures.of(label):
                        test(**fixtures, **dict(zip(names, row, strict=True)))

        @functools.wraps(test)
        async def awaited(**fixtures: object) -> None:
            with _failures(len(rows)) as failures:
                for row, label in zip(rows, labels, strict=True):
                    with failures.of(label):
                        await cast("Awaitable[None]", test(**fixtures, **dict(zip(names, row, strict=True))))

        made: Test = awaited if inspect.iscoroutinefunction(test) else tried
        signature = inspect.signature(test)
        others = [one for name, one in signature.parameters.items() if name not in names]
        made.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return made

    return decorated


def _labels(rows: list[tuple[Any, ...]], ids: Ids) -> list[str]:
    if ids is None:
        return [", ".join(map(repr, row)) for row in rows]
    if callable(ids):
        return ["-".join(str(ids(part)) for part in row) for row in rows]
    return [str(one) for one in ids]


class _Failures:
    def __init__(self) -> None:
        self.found: list[BaseException] = []

    @contextmanager
    def of(self, label: str) -> Iterator[None]:
        """Keep what the block raises, with the name of its row."""
        try:
            yield
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
            error.add_note(f"row: {label}")
            if is_timeout(error):  # It comes only once: a later row that hangs would hang forever.
                raise
            self.found.append(error)


@contextmanager
def _failures(count: int) -> Iterator[_Failures]:
    failures = _Failures()
    yield failures
    if failures.found:
        raise BaseExceptionGroup(f"{len(failures.found)} of {count} rows failed", failures.found)
