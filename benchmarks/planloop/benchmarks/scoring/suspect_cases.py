"""Find cases whose checks need a look before their verdicts are believed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from planloop.benchmarks.scoring.fold import EntryResult, ModelKind, model_kind
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen


@frozen
class SuspectCases:
    """`failed_by_all`: no tested model passed it in any trial; with the checks that failed every time.

    `passed_by_cheats_only`: a cheat did, and nobody honest. `failed_by_oracle`, `passed_by_nop`: what must not happen.
    """

    failed_by_all: Mapping[str, tuple[str, ...]]
    passed_by_cheats_only: tuple[str, ...]
    failed_by_oracle: tuple[str, ...]
    passed_by_nop: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.failed_by_all or self.passed_by_cheats_only or self.failed_by_oracle or self.passed_by_nop)

    def to_json(self) -> JsonObject:
        return {
            "failed_by_all": {case: list(checks) for case, checks in self.failed_by_all.items()},
            "passed_by_cheats_only": list(self.passed_by_cheats_only),
            "failed_by_oracle": list(self.failed_by_oracle),
            "passed_by_nop": list(self.passed_by_nop),
        }


def find_suspects(entries: Iterable[EntryResult]) -> SuspectCases:
    """Of decided entries, of one run or of several of the same suite. One tested model is enough to be all."""
    found: dict[str, dict[ModelKind, list[EntryResult]]] = defaultdict(lambda: defaultdict(list))
    for entry in entries:
        if entry.is_decided:
            found[entry.case][model_kind(entry.model)].append(entry)
    cases = {case: found[case] for case in sorted(found)}
    return SuspectCases(
        {
            case: _failing(by[ModelKind.TESTED])
            for case, by in cases.items()
            if by[ModelKind.TESTED] and not _any(by[ModelKind.TESTED])
        },
        tuple(case for case, by in cases.items() if _any(by[ModelKind.CHEAT]) and not _any(_honest(by))),
        tuple(case for case, by in cases.items() if any(not one.has_passed for one in by[ModelKind.ORACLE])),
        tuple(case for case, by in cases.items() if _any(by[ModelKind.NOP])),
    )


def _honest(by: Mapping[ModelKind, Sequence[EntryResult]]) -> list[EntryResult]:
    return [*by[ModelKind.TESTED], *by[ModelKind.ORACLE]]


def _any(entries: Iterable[EntryResult]) -> bool:
    return any(entry.has_passed for entry in entries)


def _failing(entries: Sequence[EntryResult]) -> tuple[str, ...]:
    """The checks that passed in none of `entries`, which all failed."""
    failed = [{check for check, result in entry.checks.items() if result != "pass"} for entry in entries]
    return tuple(sorted(set.intersection(*failed)))
