"""`summary.json`: everything that can be said of one run, from its folded events alone.

It can be deleted and made again, byte for byte. Whatever may differ between runs that are equal otherwise (when, how
long, in how many attempts) lies under its member `timing`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from planloop.benchmarks.scoring.fold import EntryHistory, EntryResult, ModelKind, RunFold, RunInfo, model_kind
from planloop.benchmarks.scoring.model_summary import EntryCounts, ModelSummary, SummaryOptions, summarise_model
from planloop.benchmarks.scoring.statistics import round_figure
from planloop.benchmarks.scoring.suspect_cases import SuspectCases, find_suspects
from planloop.schemas import canonical_json
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.case import CaseVerdict

FORMAT: Final = 1


@frozen
class RunSummary:
    """One run. `standings` are in the order of the run's models."""

    run: RunInfo
    standings: tuple[ModelSummary, ...]
    entries: tuple[EntryResult, ...]
    suspects: SuspectCases
    history: EntryHistory

    @property
    def counts(self) -> EntryCounts:
        """Of all models together."""
        counts = [standing.counts for standing in self.standings]
        names = ("passed", "failed", "errors", "invalid", "missing")
        return EntryCounts(*(sum(getattr(one, name) for one in counts) for name in names))

    @property
    def is_complete(self) -> bool:
        """Whether no entry is missing, and none ended because the world failed."""
        is_unknown = any(entry.verdict is not None and entry.verdict.is_unknown for entry in self.entries)
        return not (is_unknown or self.counts.missing)

    @property
    def nop(self) -> ModelSummary | None:
        return reference_model(self.standings, ModelKind.NOP)

    @property
    def oracle(self) -> ModelSummary | None:
        return reference_model(self.standings, ModelKind.ORACLE)

    def to_json(self) -> JsonObject:
        run, counts = self.run, self.counts
        return {
            "format": FORMAT,
            "suite": run.suite,
            "run": run.name,
            "plan": run.plan,
            "seed": run.seed,
            "scoring": run.scoring,
            "deterministic": run.is_deterministic,
            "validated": run.is_validated,
            "complete": self.is_complete,
            "entries": counts.to_json() | {"total": counts.total},
            "touched": [[one.case, one.model, one.trial] for one in self.entries if one.is_touched],
            "models": {one.model: {"kind": model_kind(one.model).value} | one.to_json() for one in self.standings},
            "beside": {
                "nop": None if self.nop is None else self.nop.share.to_json(),
                "oracle": None if self.oracle is None else self.oracle.share.to_json(),
            },
            "cases": _cases(self.entries),
            "suspects": self.suspects.to_json(),
            "timing": _timing(self),
        }


def summarise_run(fold: RunFold) -> RunSummary:
    """What the events so far come to."""
    entries = fold.entries()
    by_model: dict[str, list[EntryResult]] = defaultdict(list)
    for entry in entries:
        by_model[entry.model].append(entry)
    run = fold.run
    names = dict.fromkeys((*run.models, *sorted(by_model)))
    standings = tuple(summarise_model(name, by_model[name], _wanted(run, name)) for name in names)
    return RunSummary(run, standings, entries, find_suspects(entries), fold.history())


def print_summary(summary: RunSummary) -> bytes:
    """The bytes of `summary.json`."""
    return canonical_json.canonical_bytes(summary.to_json()) + b"\n"


def reference_model(standings: Sequence[ModelSummary], kind: ModelKind) -> ModelSummary | None:
    """The one that a suite is measured with: of that kind, `oracle` before `oracle:form`, then the first."""
    found = sorted((one for one in standings if model_kind(one.model) is kind), key=lambda one: ":" in one.model)
    return found[0] if found else None


def _wanted(run: RunInfo, model: str) -> SummaryOptions:
    return SummaryOptions(run.pass_at, run.pass_hat, run.planned.get(model), seed=f"{run.suite}\n{run.seed}\n{model}")


def _cases(entries: Sequence[EntryResult]) -> JsonObject:
    """Case → language, tags, and model → trial → what became of it."""
    out: JsonObject = {}
    for entry in entries:
        case = out.setdefault(entry.case, {"models": {}})
        case |= {"language": entry.language, "tags": _tags(entry.tags)}
        case["models"].setdefault(entry.model, {})[str(entry.trial)] = entry_to_json(entry)
    return out


def entry_to_json(entry: EntryResult) -> JsonObject | None:
    """What became of an entry: None where none of its attempts has ended. Checks are shown and never added up."""
    if entry.verdict is None:
        return None
    out: JsonObject = {
        "verdict": entry.verdict.value,
        "key": entry.key,
        "variant": entry.variant,
        "checks": dict(entry.checks),
    }
    return out if entry.verdict is CaseVerdict.PASS else out | {"why": entry.why}


def _tags(tags: Sequence[tuple[str, str]]) -> Mapping[str, list[str]]:
    out: dict[str, list[str]] = defaultdict(list)
    for tag, value in tags:
        out[tag].append(value)
    return out


def _timing(summary: RunSummary) -> JsonObject:
    history = summary.history
    return {
        "first_ts": history.first_ts,
        "last_ts": history.last_ts,
        "resumes": history.resumes,
        "attempts": history.attempts,
        "usd_of_all_attempts": round_figure(history.usd),
        "models": {one.model: one.timing() for one in summary.standings},
    }
