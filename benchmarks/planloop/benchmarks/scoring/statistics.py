"""Statistics of pass counts: intervals, pass@k, pass^k, and whether two models differ.

Pure functions of counts. Every formula names its source. An undefined result is None, never 0.
Which entries are counted is decided in `planloop.benchmarks.scoring.summary` and
`planloop.benchmarks.reporting.report`.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from math import comb, fsum, sqrt
from typing import Final

from planloop.schemas.frozen import frozen

Z95: Final = 1.959963984540054
"""The normal quantile of a two-sided 95 % interval."""

SIGNIFICANT: Final = 0.05
DRAWS_MAX: Final = 400_000
"""Total number of draws of a resampling, which takes 0.02 s. 1,000 cases are resampled 400 times."""
RESAMPLES_MIN, RESAMPLES_MAX = 200, 2_000
INDISTINGUISHABLE: Final = "not distinguishable at this size"


@frozen
class Interval:
    """A closed 95 % interval from `low` to `high`."""

    low: float
    high: float

    def to_json(self) -> list[float]:
        return [round_figure(self.low), round_figure(self.high)]


@frozen
class CaseTally:
    """Result of one case with one model: `passed` of `decided` trials."""

    passed: int
    decided: int


Estimate = Callable[[int, CaseTally], float | None]
"""`pass_at` or `pass_hat`."""


@frozen
class PairedWins:
    """Comparison of two models on the same cases: how many the first won, the second won, and ties.

    `p` is the p-value of the exact McNemar test. `difference` is (wins - losses) / cases. `difference` and `interval`
    are None without cases.
    """

    wins: int
    losses: int
    ties: int
    p: float
    difference: float | None
    interval: Interval | None

    @property
    def cases(self) -> int:
        return self.wins + self.losses + self.ties

    @property
    def is_distinguishable(self) -> bool:
        """Whether both the test and the interval show a difference."""
        if self.interval is None or self.p >= SIGNIFICANT:
            return False
        return self.interval.low > 0 or self.interval.high < 0


def wilson_interval(passed: float, n: float) -> Interval | None:
    """Wilson's score interval of `passed` of `n`; None for n = 0.

    (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n). Source: E. B. Wilson, JASA 22 (1927) 209, eq. 4 solved for p.
    """
    if n <= 0:
        return None
    p, zz = passed / n, Z95 * Z95 / n
    centre = (p + zz / 2) / (1 + zz)
    half = Z95 * sqrt(p * (1 - p) / n + zz / (4 * n)) / (1 + zz)
    # If none or all passed, the ends are exactly 0 or 1; rounding would miss that.
    return Interval(0.0 if passed == 0 else max(0.0, centre - half), 1.0 if passed == n else min(1.0, centre + half))


def pass_rate(passed: int, n: int) -> float | None:
    """The share that passed; None for n = 0."""
    return passed / n if n else None


def pass_at_k(k: int, tally: CaseTally) -> float | None:
    """The chance that at least one of `k` trials passes: 1 - C(n-c,k) / C(n,k); None if fewer than k are decided.

    Unbiased for unordered trials. Source: M. Chen et al., arXiv 2107.03374 (2021), eq. 1.
    """
    if tally.decided < k:
        return None
    return 1 - comb(tally.decided - tally.passed, k) / comb(tally.decided, k)


def pass_hat_k(k: int, tally: CaseTally) -> float | None:
    """The chance that all of `k` trials pass: C(c,k) / C(n,k); None if fewer than k are decided.

    Source: S. Yao et al., arXiv 2406.12045 (2024), section 3.
    """
    if tally.decided < k:
        return None
    return comb(tally.passed, k) / comb(tally.decided, k)


def mean_of(values: Sequence[float]) -> float | None:
    """The arithmetic mean, independent of the order of `values`; None without values."""
    return fsum(values) / len(values) if values else None


def median_of(values: Iterable[float]) -> float | None:
    """The middle value, or the mean of the two in the middle; None without values."""
    ordered = sorted(values)
    if not ordered:
        return None
    half = len(ordered) // 2
    return float(ordered[half]) if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def pass_bounds(passed: int, decided: int, undecided: int) -> Interval | None:
    """The pass rate if all undecided had failed, and if all had passed; None without entries.

    No sampling is involved: the true rate is between these bounds (C. F. Manski, AER 80 (1990) 319).
    """
    total = decided + undecided
    return Interval(passed / total, (passed + undecided) / total) if total else None


def mcnemar_p(wins: int, losses: int) -> float:
    """The two-sided p of McNemar's exact test: min(1, 2 P(X ≤ min(wins, losses))), X ~ Binomial(wins + losses, 1/2).

    Ties say nothing about which model is better and do not count. Source: Q. McNemar, Psychometrika 12 (1947) 153;
    exact form by F. Mosteller, Psychometrika 17 (1952) 220.
    """
    n = wins + losses
    tail = term = 1  # C(n, 0); each term is computed from the previous one.
    for i in range(min(wins, losses)):
        term = term * (n - i) // (i + 1)
        tail += term
    return min(1.0, 2 * tail / (1 << n))


def paired_interval(wins: int, losses: int, cases: int) -> Interval | None:
    """Interval of the difference of two paired proportions, (wins - losses) / cases; None without cases.

    With a = (wins+1)/(n+2), b = (losses+1)/(n+2): a - b ± z √((a + b - (a-b)²) / (n+2)), clipped to [-1, 1]. The number
    of ties of each kind is not needed. Source: D. G. Bonett and R. M. Price, J. Educ. Behav. Stat. 37 (2012) 479.
    """
    if cases == 0:
        return None
    a, b = (wins + 1) / (cases + 2), (losses + 1) / (cases + 2)
    half = Z95 * sqrt((a + b - (a - b) ** 2) / (cases + 2))
    return Interval(max(-1.0, a - b - half), min(1.0, a - b + half))


def count_paired_wins(one: Sequence[CaseTally], other: Sequence[CaseTally]) -> PairedWins:
    """Compare `one` and `other` on the same cases in the same order. The winner of a case passed more of its trials.

    A case is one unit whatever its number of trials, because its trials are not independent. With one trial this is
    McNemar's table. Each pair of tallies is over the same trials.
    """
    signs = [(a.passed > b.passed) - (a.passed < b.passed) for a, b in zip(one, other, strict=True)]
    wins, losses = signs.count(1), signs.count(-1)
    difference = (wins - losses) / len(signs) if signs else None
    interval = paired_interval(wins, losses, len(signs))
    return PairedWins(wins, losses, len(signs) - wins - losses, mcnemar_p(wins, losses), difference, interval)


def bootstrap_interval(tallies: Sequence[CaseTally], seed: str) -> Interval | None:
    """Interval of the share of passed trials by resampling cases, because trials of one case are correlated.

    Draws len(tallies) cases with replacement, 200 to 2,000 times, and takes 2.5 and 97.5 % of the shares (B. Efron,
    Ann. Stat. 7 (1979) 1; whole clusters as in Davison and Hinkley, Bootstrap Methods (1997), 3.8). If all cases have
    the same result, there is no spread: returns the most cautious interval, Wilson's over cases. None without decided
    trials, or for more than 65,536 cases. The draws depend only on `seed`.
    """
    cases = [tally for tally in tallies if tally.decided]
    n = len(cases)
    if not 0 < n <= _STEPS:
        return None
    shares = {tally.passed / tally.decided for tally in cases}
    if len(shares) == 1:
        return wilson_interval(shares.pop() * n, n)
    # One sum for each resample instead of two: passed trials in the low half, decided ones in the high half.
    packed = [(tally.decided << _HALF) + tally.passed for tally in cases]
    # A draw has 16 bits, and a table maps it to a case. The chances of cases differ by at most n/65,536.
    case_of = [packed[step * n // _STEPS] for step in range(_STEPS)]
    times = max(RESAMPLES_MIN, min(RESAMPLES_MAX, DRAWS_MAX // n))
    draws = _draws(seed, n * times)
    found = sorted(_share(sum(map(case_of.__getitem__, draws[at : at + n]))) for at in range(0, n * times, n))
    return Interval(_quantile(found, 0.025), _quantile(found, 0.975))


_HALF: Final = 32
_STEPS: Final = 1 << 16


def _share(packed: int) -> float:
    return (packed & ((1 << _HALF) - 1)) / (packed >> _HALF)


def _draws(seed: str, count: int) -> array[int]:
    """`count` numbers of 16 bits from SHAKE-256 of the seed: the same on every machine and Python version."""
    found = array("H", hashlib.shake_256(seed.encode()).digest(count * 2))
    if sys.byteorder == "big":
        found.byteswap()
    return found


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The quantile, interpolated between the two nearest values: type 7 of R. J. Hyndman and Y. Fan, Am.

    Stat. 50 (1996) 361.
    """
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def round_figure(number: float) -> float:
    """Round to six decimals, as in a summary, so that the last bits of a sum never differ."""
    return round(number, 6)
