"""Two models compared on what both were given: entries of the same case, trial and key, decided on both sides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable

from planloop.benchmarks.scoring import statistics
from planloop.benchmarks.scoring.folding import Entry, Run
from planloop.benchmarks.scoring.statistics import INDISTINGUISHABLE, Paired, Tally, rounded
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen


@frozen
class Side:
    """The entries of one model in one run. `label` is how a report calls it."""

    label: str
    run: Run
    entries: tuple[Entry, ...]


@frozen
class Pair:
    """`a` beside `b`. `keys` are on both sides and decided; `undecided` on both, not decided; `unpaired` on one."""

    a: str
    b: str
    keys: int
    undecided: int
    unpaired: int
    found: Paired

    @property
    def sentence(self) -> str:
        """What may be said of the two, in words."""
        if not self.found.cases:
            return "nothing to compare: no case with the same key is decided for both"
        if not self.found.is_distinguishable:
            return INDISTINGUISHABLE
        first, second = (self.a, self.b) if self.found.wins > self.found.losses else (self.b, self.a)
        return f"{first} passes more than {second}"

    def to_json(self) -> JsonObject:
        found = self.found
        return {
            "a": self.a,
            "b": self.b,
            "keys": self.keys,
            "cases": found.cases,
            "undecided": self.undecided,
            "unpaired": self.unpaired,
            "wins": found.wins,
            "losses": found.losses,
            "ties": found.ties,
            "p": rounded(found.p),
            "difference": None if found.difference is None else rounded(found.difference),
            "interval": None if found.interval is None else found.interval.to_json(),
            "test": "exact McNemar, two-sided, a case is one unit",
            "interval_by": "Bonett-Price, 95 %",
            "sentence": self.sentence,
        }


def pair(a: Side, b: Side) -> Pair:
    """`a` and `b` on identical keys. Wins are of `a`."""
    ours, theirs = _keyed(a), _keyed(b)
    both = sorted(ours.keys() & theirs.keys(), key=repr)
    decided = [key for key in both if ours[key].is_decided and theirs[key].is_decided]
    tallies = _tallies((ours[key], theirs[key]) for key in decided)
    found = statistics.paired([one for one, _ in tallies], [other for _, other in tallies])
    unpaired = len(ours) + len(theirs) - 2 * len(both)
    return Pair(a.label, b.label, len(decided), len(both) - len(decided), unpaired, found)


def key_of(entry: Entry, run: Run) -> Hashable:
    """Equal for entries of any model and run that were given the same.

    Where a run does not say what its cases are made of, only entries of the same plan.json are the same.
    """
    return entry.case, entry.trial, entry.case_key or ("plan", run.plan)


def _keyed(side: Side) -> dict[Hashable, Entry]:
    return {key_of(one, side.run): one for one in side.entries}


def _tallies(pairs: Iterable[tuple[Entry, Entry]]) -> list[tuple[Tally, Tally]]:
    cases: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for one, other in pairs:
        cases[one.case].append((one.has_passed, other.has_passed))
    return [
        (Tally(sum(a for a, _ in of), len(of)), Tally(sum(b for _, b in of), len(of)))
        for of in map(cases.get, sorted(cases))
        if of
    ]
