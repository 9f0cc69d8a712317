"""Which call serves which need, against the way that tries everything."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.benchmarks.checks import call_rules

CALLS = 5
FITS = st.lists(st.lists(st.integers(0, CALLS - 1), unique=True).map(sorted), max_size=4)


def possible(fits: list[list[int]], after: list[frozenset[int]]) -> bool:
    """Whether some choice of calls serves all needs in order, by trying each."""
    return any(
        all(
            call in fits[need] and all(chosen[other] < call for other in after[need])
            for need, call in enumerate(chosen)
        )
        for chosen in permutations(range(CALLS), len(fits))
    )


@given(FITS, st.data())
def test_an_order_is_found_exactly_where_there_is_one(fits: list[list[int]], data: st.DataObject) -> None:
    after = [
        frozenset(data.draw(st.sets(st.integers(0, need - 1)) if need else st.just(set()))) for need in range(len(fits))
    ]
    found = call_rules.assign_in_order(fits, after)

    assert (found is not None) == possible(fits, after)
    if found is not None:
        assert len(set(found)) == len(found)
        assert all(call in fits[need] for need, call in enumerate(found))
        assert all(found[other] < found[need] for need in range(len(fits)) for other in after[need])


@given(FITS)
def test_assignment_serves_as_many_needs_as_possible(fits: list[list[int]]) -> None:
    found = call_rules.assign_calls(fits)
    served = [call for call in found if call is not None]
    best = max(
        sum(call in fits[need] for need, call in enumerate(chosen)) for chosen in permutations(range(CALLS), len(fits))
    )

    assert len(set(served)) == len(served) == best
    assert all(call is None or call in fits[need] for need, call in enumerate(found))


@pytest.mark.parametrize("count", [8, 16, 40])
def test_two_rows_that_need_the_first_half_are_refused_without_trying_all_orders(count: int) -> None:
    half = count // 2
    fits = [list(range(half)) if need in (half - 1, count - 1) else list(range(count + 1)) for need in range(count)]
    after = [frozenset({need - 1} if need % half else ()) for need in range(count)]

    assert call_rules.assign_in_order(fits, after) is None
    assert call_rules.assign_in_order([list(range(count)) for _ in range(count)], after) is not None


@pytest.mark.parametrize(("count", "order"), [(0, []), (1, [frozenset()]), (3, [frozenset(), {0}, {1}])])
def test_a_row_is_each_after_the_one_before(count: int, order: list[frozenset[int]]) -> None:
    assert call_rules.chain_order(count) == order
