"""Compare two models on the entries that both were given: same case, trial and key, decided on both sides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable

from planloop.benchmarks.scoring import statistics
from planloop.benchmarks.scoring.fold import EntryResult, RunInfo
from planloop.benchmarks.scoring.statistics import INDISTINGUISHABLE, CaseTally, PairedWins, round_figure
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen


@frozen
class ComparedModel:
    """The entries of one model in one run. `label` is how a report calls it."""

    label: str
    run: RunInfo
    entries: tuple[EntryResult, ...]


@frozen
class ModelComparison:
    """`a` beside `b`. `keys` are on both sides and decided; `undecided` on both, not decided; `unpaired` on one."""

    a: str
    b: str
    keys: int
    undecided: int
    unpaired: int
    found: PairedWins

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
            "p": round_figure(found.p),
            "difference": None if found.difference is None else round_figure(found.difference),
            "interval": None if found.interval is None else found.interval.to_json(),
            "test": "exact McNemar, two-sided, a case is one unit",
            "interval_by": "Bonett-Price, 95 %",
            "sentence": self.sentence,
        }


def compare_models(a: ComparedModel, b: ComparedModel) -> ModelComparison:
    """`a` and `b` on identical keys. Wins are of `a`."""
    ours, theirs = _keyed(a), _keyed(b)
    both = sorted(ours.keys() & theirs.keys(), key=repr)
    decided = [key for key in both if ours[key].is_decided and theirs[key].is_decided]
    tallies = _tallies((ours[key], theirs[key]) for key in decided)
    found = statistics.count_paired_wins([one for one, _ in tallies], [other for _, other in tallies])
    unpaired = len(ours) + len(theirs) - 2 * len(both)
    return ModelComparison(a.label, b.label, len(decided), len(both) - len(decided), unpaired, found)


def entry_key(entry: EntryResult, run: RunInfo) -> Hashable:
    """Equal for entries of any model and run that were given the same.

    Where a run does not say what its cases are made of, only entries of the same plan.json are the same.
    """
    return entry.case, entry.trial, entry.case_key or ("plan", run.plan)


def _keyed(side: ComparedModel) -> dict[Hashable, EntryResult]:
    return {entry_key(one, side.run): one for one in side.entries}


def _tallies(pairs: Iterable[tuple[EntryResult, EntryResult]]) -> list[tuple[CaseTally, CaseTally]]:
    cases: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for one, other in pairs:
        cases[one.case].append((one.has_passed, other.has_passed))
    return [
        (CaseTally(sum(a for a, _ in of), len(of)), CaseTally(sum(b for _, b in of), len(of)))
        for of in map(cases.get, sorted(cases))
        if of
    ]
