"""Cases whose checks are to be looked at before their verdicts are believed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from planloop.benchmarks.scoring.folding import Entry
from planloop.benchmarks.scoring.kinds import Kind, kind_of
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen


@frozen
class Suspects:
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


def suspects(entries: Iterable[Entry]) -> Suspects:
    """Of decided entries, of one run or of several of the same suite. One tested model is enough to be all."""
    found: dict[str, dict[Kind, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    for entry in entries:
        if entry.is_decided:
            found[entry.case][kind_of(entry.model)].append(entry)
    cases = {case: found[case] for case in sorted(found)}
    return Suspects(
        {
            case: _failing(by[Kind.TESTED])
            for case, by in cases.items()
            if by[Kind.TESTED] and not _any(by[Kind.TESTED])
        },
        tuple(case for case, by in cases.items() if _any(by[Kind.CHEAT]) and not _any(_honest(by))),
        tuple(case for case, by in cases.items() if any(not one.has_passed for one in by[Kind.ORACLE])),
        tuple(case for case, by in cases.items() if _any(by[Kind.NOP])),
    )


def _honest(by: Mapping[Kind, Sequence[Entry]]) -> list[Entry]:
    return [*by[Kind.TESTED], *by[Kind.ORACLE]]


def _any(entries: Iterable[Entry]) -> bool:
    return any(entry.has_passed for entry in entries)


def _failing(entries: Sequence[Entry]) -> tuple[str, ...]:
    """The checks that passed in none of `entries`, which all failed."""
    failed = [{check for check, result in entry.checks.items() if result != "pass"} for entry in entries]
    return tuple(sorted(set.intersection(*failed)))
