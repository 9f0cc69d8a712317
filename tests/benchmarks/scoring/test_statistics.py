"""Figures of counts, held against counting everything out."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import comb, isclose, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planloop.benchmarks.scoring import statistics
from planloop.benchmarks.scoring.statistics import CaseTally, Interval
from tests import sets

COUNTS = st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
TALLIES = st.integers(0, 7).flatmap(lambda n: st.builds(CaseTally, st.integers(0, n), st.just(n)))


@pytest.mark.parametrize(
    ("passed", "n", "low", "high"),
    [
        # R 4.3, prop.test(x, n, correct = FALSE)$conf.int, and Newcombe (1998), table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (29, 29, 0.8830, 1.0),
    ],
)
def test_wilsons_interval_is_the_published_one(passed: int, n: int, low: float, high: float) -> None:
    found = statistics.wilson_interval(passed, n)

    assert found is not None
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)


@given(COUNTS)
def test_the_ends_of_wilsons_interval_are_where_the_score_test_just_accepts(counts: tuple[int, int]) -> None:
    passed, n = counts
    found = statistics.wilson_interval(passed, n)

    assert found is not None
    assert 0 <= found.low <= passed / n <= found.high <= 1
    for end in (found.low, found.high):
        if 0 < end < 1:
            assert isclose(
                abs(passed / n - end), statistics.Z95 * sqrt(end * (1 - end) / n), rel_tol=1e-6, abs_tol=1e-9
            )


@given(TALLIES, st.integers(1, 7))
def test_pass_at_k_and_pass_hat_k_are_shares_of_all_choices_of_k_trials(tally: CaseTally, k: int) -> None:
    trials = [True] * tally.passed + [False] * (tally.decided - tally.passed)
    choices = list(combinations(trials, k))

    at, hat = statistics.pass_at_k(k, tally), statistics.pass_hat_k(k, tally)

    if not choices:
        assert (at, hat) == (None, None)
        return
    assert at is not None and isclose(at, sum(map(any, choices)) / len(choices), abs_tol=1e-12)
    assert hat is not None and isclose(hat, sum(map(all, choices)) / len(choices), abs_tol=1e-12)


@given(st.integers(0, 6), st.integers(0, 6))
def test_mcnemars_test_is_the_share_of_all_signs_that_are_as_uneven(wins: int, losses: int) -> None:
    n = wins + losses
    as_uneven = [signs for signs in product((0, 1), repeat=n) if abs(2 * sum(signs) - n) >= abs(wins - losses)]

    assert isclose(statistics.mcnemar_p(wins, losses), len(as_uneven) / 2**n)


@given(st.integers(0, 400), st.integers(0, 400))
def test_mcnemars_test_is_exact_for_large_counts(wins: int, losses: int) -> None:
    n = wins + losses
    tail = sum(comb(n, i) for i in range(min(wins, losses) + 1))

    assert statistics.mcnemar_p(wins, losses) == float(min(Fraction(1), Fraction(2 * tail, 2**n)))


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_the_interval_of_a_difference_turns_with_the_sides(wins: int, losses: int, ties: int) -> None:
    there = statistics.paired_interval(wins, losses, wins + losses + ties)
    back = statistics.paired_interval(losses, wins, wins + losses + ties)

    if there is None or back is None:
        assert wins + losses + ties == 0
        return
    assert isclose(there.low, -back.high, abs_tol=1e-12) and isclose(there.high, -back.low, abs_tol=1e-12)
    assert -1 <= there.low <= there.high <= 1


def test_interval_of_a_difference_equals_the_one_computed_by_hand() -> None:
    # a = 12/52, b = 5/52: 0.134615 ± 1.959964 √((0.326923 - 0.018121) / 52).
    found = statistics.paired_interval(11, 4, 50)

    assert found is not None
    assert (round(found.low, 4), round(found.high, 4)) == (-0.0164, 0.2857)


@settings(max_examples=sets.examples(25, 12))
@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))
def test_the_interval_of_a_difference_holds_it_in_nearly_all_samples(a: int, b: int, rest: int) -> None:
    """Coverage over every sample of twelve cases, weighed by its chance: so few may fall a bit short of 95 %."""
    total = a + b + rest
    if not total:
        return
    win, loss, n = Fraction(a, total), Fraction(b, total), 12
    held = Fraction(0)
    for wins in range(n + 1):
        for losses in range(n + 1 - wins):
            chance = (
                comb(n, wins)
                * comb(n - wins, losses)
                * win**wins
                * loss**losses
                * (1 - win - loss) ** (n - wins - losses)
            )
            found = statistics.paired_interval(wins, losses, n)
            assert found is not None
            if found.low - 1e-9 <= float(win - loss) <= found.high + 1e-9:
                held += chance
    assert held >= Fraction(90, 100)


def test_a_case_is_one_unit_however_many_trials_it_has() -> None:
    one = [CaseTally(3, 3), CaseTally(2, 3), CaseTally(0, 3)]
    other = [CaseTally(0, 3), CaseTally(2, 3), CaseTally(1, 3)]

    found = statistics.count_paired_wins(one, other)

    assert (found.wins, found.losses, found.ties, found.difference) == (1, 1, 1, 0)


def test_models_are_distinguished_only_when_test_and_interval_agree() -> None:
    def verdicts(passed: int, n: int) -> list[CaseTally]:
        return [CaseTally(int(place < passed), 1) for place in range(n)]

    assert not statistics.count_paired_wins(verdicts(5, 10), verdicts(0, 10)).is_distinguishable
    assert statistics.count_paired_wins(verdicts(6, 10), verdicts(0, 10)).is_distinguishable
    assert statistics.count_paired_wins(verdicts(0, 10), verdicts(6, 10)).is_distinguishable
    assert not statistics.count_paired_wins([], []).is_distinguishable


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_bounds_hold_for_every_outcome_of_the_undecided(passed: int, failed: int, undecided: int) -> None:
    found = statistics.pass_bounds(passed, passed + failed, undecided)

    total = passed + failed + undecided
    if found is None:
        assert total == 0
        return
    assert [found.low, found.high] == [passed / total, (passed + undecided) / total]


@settings(max_examples=sets.examples(25, 12))
@given(st.lists(TALLIES, min_size=1, max_size=30))
def test_resampling_depends_on_its_seed_alone_and_holds_the_share(tallies: list[CaseTally]) -> None:
    found = statistics.bootstrap_interval(tallies, "seed")

    assert found == statistics.bootstrap_interval(tallies, "seed")
    decided = sum(one.decided for one in tallies)
    if not decided:
        assert found is None
        return
    assert found is not None
    assert 0 <= found.low <= found.high <= 1
    assert found.low - 0.02 <= sum(one.passed for one in tallies) / decided <= found.high + 0.02


def test_resampling_is_wider_where_trials_of_a_case_are_equal() -> None:
    tallies = [CaseTally(5 * (place % 2), 5) for place in range(20)]

    by_case, by_trial = statistics.bootstrap_interval(tallies, "x"), statistics.wilson_interval(50, 100)

    assert by_case is not None and by_trial is not None
    # The true spread of a mean of 20 cases: ± 1.96 √(0.25 / 20) = 0.22.
    assert by_case.high - by_case.low == pytest.approx(0.44, abs=0.06)
    assert by_trial.high - by_trial.low < 0.2


def test_resampling_is_the_same_on_every_machine() -> None:
    tallies = [CaseTally(place % 4, 3) for place in range(9)]

    assert statistics.bootstrap_interval(tallies, "tool-calling") == Interval(5 / 27, 19 / 27)


def test_cases_with_equal_trials_have_wilsons_interval_over_cases() -> None:
    assert statistics.bootstrap_interval([CaseTally(3, 3)] * 4, "x") == statistics.wilson_interval(4, 4)


@given(st.lists(st.floats(-1e9, 1e9), max_size=9))
def test_mean_and_median_do_not_depend_on_order(values: list[float]) -> None:
    assert statistics.mean_of(values) == statistics.mean_of(values[::-1])
    assert statistics.median_of(values) == statistics.median_of(sorted(values, reverse=True))


def test_the_median_is_in_the_middle() -> None:
    assert [statistics.median_of(values) for values in ([], [3], [9, 1], [5, 1, 3])] == [None, 3, 5, 3]


def test_undefined_statistics_are_none() -> None:
    assert (
        statistics.wilson_interval(0, 0),
        statistics.pass_rate(0, 0),
        statistics.pass_bounds(0, 0, 0),
        statistics.mean_of([]),
    ) == (None,) * 4
