"""Statistics of pass counts: intervals, pass@k, pass^k, and whether two models differ.

Pure functions of counts. Every formula names its source. What cannot be said is None, never a zero.
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
"""The normal quantile of a two-sided interval of 95 %."""

SIGNIFICANT: Final = 0.05
DRAWS_MAX: Final = 400_000
"""Draws of a resampling in all: 0.02 s. 1,000 cases are resampled 400 times."""
RESAMPLES_MIN, RESAMPLES_MAX = 200, 2_000
INDISTINGUISHABLE: Final = "not distinguishable at this size"


@frozen
class Interval:
    """From `low` to `high`, both within it, at 95 %."""

    low: float
    high: float

    def to_json(self) -> list[float]:
        return [round_figure(self.low), round_figure(self.high)]


@frozen
class CaseTally:
    """What became of one case with one model: `passed` of `decided` trials."""

    passed: int
    decided: int


Estimate = Callable[[int, CaseTally], float | None]
"""`pass_at` or `pass_hat`."""


@frozen
class PairedWins:
    """Two models on the same cases: how many the first alone won, the second alone, and neither.

    `p` is of the exact McNemar test. `difference` is (wins - losses) / cases; None without cases, as is `interval`.
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
        """Whether both the test and the interval say so."""
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
    # The ends are exactly 0 and 1 where none and all passed, which rounding would miss.
    return Interval(0.0 if passed == 0 else max(0.0, centre - half), 1.0 if passed == n else min(1.0, centre + half))


def pass_rate(passed: int, n: int) -> float | None:
    """The share that passed; None for n = 0."""
    return passed / n if n else None


def pass_at_k(k: int, tally: CaseTally) -> float | None:
    """The chance that at least one of `k` trials passes: 1 - C(n-c,k) / C(n,k); None where fewer than k are decided.

    Unbiased for trials without order. Source: M. Chen et al., arXiv 2107.03374 (2021), eq. 1.
    """
    if tally.decided < k:
        return None
    return 1 - comb(tally.decided - tally.passed, k) / comb(tally.decided, k)


def pass_hat_k(k: int, tally: CaseTally) -> float | None:
    """The chance that all of `k` trials pass: C(c,k) / C(n,k); None where fewer than k are decided.

    Source: S. Yao et al., arXiv 2406.12045 (2024), section 3.
    """
    if tally.decided < k:
        return None
    return comb(tally.passed, k) / comb(tally.decided, k)


def mean_of(values: Sequence[float]) -> float | None:
    """The arithmetic mean, the same for any order of `values`; None for none."""
    return fsum(values) / len(values) if values else None


def median_of(values: Iterable[float]) -> float | None:
    """The middle value, or the mean of the two in the middle; None for none."""
    ordered = sorted(values)
    if not ordered:
        return None
    half = len(ordered) // 2
    return float(ordered[half]) if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def pass_bounds(passed: int, decided: int, undecided: int) -> Interval | None:
    """The pass rate if all undecided had failed, and if all had passed; None without entries.

    No sampling is involved: these are the ends of what the truth can be (C. F. Manski, AER 80 (1990) 319).
    """
    total = decided + undecided
    return Interval(passed / total, (passed + undecided) / total) if total else None


def mcnemar_p(wins: int, losses: int) -> float:
    """The two-sided p of McNemar's exact test: min(1, 2 P(X ≤ min(wins, losses))), X ~ Binomial(wins + losses, 1/2).

    Ties say nothing of which is better and do not count. Source: Q. McNemar, Psychometrika 12 (1947) 153; exact form
    by F. Mosteller, Psychometrika 17 (1952) 220.
    """
    n = wins + losses
    tail = term = 1  # C(n, 0); each next one is made of the last.
    for i in range(min(wins, losses)):
        term = term * (n - i) // (i + 1)
        tail += term
    return min(1.0, 2 * tail / (1 << n))


def paired_interval(wins: int, losses: int, cases: int) -> Interval | None:
    """Of the difference of two paired proportions, (wins - losses) / cases, by Bonett and Price; None for no cases.

    With a = (wins+1)/(n+2), b = (losses+1)/(n+2): a - b ± z √((a + b - (a-b)²) / (n+2)), cut to [-1, 1]. It needs no
    count of the ties of each kind. Source: D. G. Bonett and R. M. Price, J. Educ. Behav. Stat. 37 (2012) 479.
    """
    if cases == 0:
        return None
    a, b = (wins + 1) / (cases + 2), (losses + 1) / (cases + 2)
    half = Z95 * sqrt((a + b - (a - b) ** 2) / (cases + 2))
    return Interval(max(-1.0, a - b - half), min(1.0, a - b + half))


def count_paired_wins(one: Sequence[CaseTally], other: Sequence[CaseTally]) -> PairedWins:
    """`one` and `other` on the same cases in the same order: the winner of a case passed more of its trials.

    A case is one unit however many trials it has, as its trials are not independent evidence; with one trial this is
    McNemar's table. Each pair of tallies is over the same trials.
    """
    signs = [(a.passed > b.passed) - (a.passed < b.passed) for a, b in zip(one, other, strict=True)]
    wins, losses = signs.count(1), signs.count(-1)
    difference = (wins - losses) / len(signs) if signs else None
    interval = paired_interval(wins, losses, len(signs))
    return PairedWins(wins, losses, len(signs) - wins - losses, mcnemar_p(wins, losses), difference, interval)


def bootstrap_interval(tallies: Sequence[CaseTally], seed: str) -> Interval | None:
    """Of the share of trials that passed, where trials of one case are alike: percentiles over resampled cases.

    Draws len(tallies) cases with replacement, 200 to 2,000 times, and takes 2.5 and 97.5 % of the shares (B. Efron,
    Ann. Stat. 7 (1979) 1; whole clusters as in Davison and Hinkley, Bootstrap Methods (1997), 3.8). Where all cases
    went alike there is no spread to draw from: Wilson's interval with cases for trials, the most cautious. None for no
    decided trial, or more than 65,536 cases. The draws follow from `seed` alone.
    """
    cases = [tally for tally in tallies if tally.decided]
    n = len(cases)
    if not 0 < n <= _STEPS:
        return None
    shares = {tally.passed / tally.decided for tally in cases}
    if len(shares) == 1:
        return wilson_interval(shares.pop() * n, n)
    # One sum a resample instead of two: trials that passed in the low half, decided ones in the high half.
    packed = [(tally.decided << _HALF) + tally.passed for tally in cases]
    # A draw is 16 bits; which case it stands for is looked up. Cases differ in chance by n/65,536 at most.
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
    """`count` numbers of 16 bits: SHAKE-256 of the seed, the same on every machine and version of Python."""
    found = array("H", hashlib.shake_256(seed.encode()).digest(count * 2))
    if sys.byteorder == "big":
        found.byteswap()
    return found


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Between the two nearest: type 7 of R. J. Hyndman and Y. Fan, Am. Stat. 50 (1996) 361."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def round_figure(number: float) -> float:
    """Six digits after the point: what a summary keeps, so that the last bits of a sum never differ."""
    return round(number, 6)
