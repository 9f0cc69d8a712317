"""`summary.json`: all that may be said of one run, made of its folded events and of nothing else.

It can be deleted and made again, byte for byte. Whatever may differ between runs that are equal otherwise (when, how
long, in how many attempts) lies under its member `timing`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from planloop.benchmarks.scoring.folding import Entry, Fold, History, Run
from planloop.benchmarks.scoring.kinds import Kind, kind_of
from planloop.benchmarks.scoring.standing import Counts, Standing, Wanted, stand
from planloop.benchmarks.scoring.statistics import rounded
from planloop.benchmarks.scoring.suspecting import Suspects, suspects
from planloop.schemas import encoding
from planloop.schemas.case import Verdict
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen

FORMAT: Final = 1


@frozen
class Summary:
    """One run. `standings` are in the order of the run's models."""

    run: Run
    standings: tuple[Standing, ...]
    entries: tuple[Entry, ...]
    suspects: Suspects
    history: History

    @property
    def counts(self) -> Counts:
        """Of all models together."""
        counts = [standing.counts for standing in self.standings]
        names = ("passed", "failed", "errors", "invalid", "missing")
        return Counts(*(sum(getattr(one, name) for one in counts) for name in names))

    @property
    def is_complete(self) -> bool:
        """Whether no entry is missing, and none ended because the world failed."""
        is_unknown = any(entry.verdict is not None and entry.verdict.is_unknown for entry in self.entries)
        return not (is_unknown or self.counts.missing)

    @property
    def nop(self) -> Standing | None:
        return beside(self.standings, Kind.NOP)

    @property
    def oracle(self) -> Standing | None:
        return beside(self.standings, Kind.ORACLE)

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
            "models": {one.model: {"kind": kind_of(one.model).value} | one.to_json() for one in self.standings},
            "beside": {
                "nop": None if self.nop is None else self.nop.share.to_json(),
                "oracle": None if self.oracle is None else self.oracle.share.to_json(),
            },
            "cases": _cases(self.entries),
            "suspects": self.suspects.to_json(),
            "timing": _timing(self),
        }


def summarise(fold: Fold) -> Summary:
    """What the events so far come to."""
    entries = fold.entries()
    by_model: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_model[entry.model].append(entry)
    run = fold.run
    names = dict.fromkeys((*run.models, *sorted(by_model)))
    standings = tuple(stand(name, by_model[name], _wanted(run, name)) for name in names)
    return Summary(run, standings, entries, suspects(entries), fold.history())


def printed(summary: Summary) -> bytes:
    """The bytes of `summary.json`."""
    return encoding.canonical(summary.to_json()) + b"\n"


def beside(standings: Sequence[Standing], kind: Kind) -> Standing | None:
    """The one that a suite is measured with: of that kind, `oracle` before `oracle:form`, then the first."""
    found = sorted((one for one in standings if kind_of(one.model) is kind), key=lambda one: ":" in one.model)
    return found[0] if found else None


def _wanted(run: Run, model: str) -> Wanted:
    return Wanted(run.pass_at, run.pass_hat, run.planned.get(model), seed=f"{run.suite}\n{run.seed}\n{model}")


def _cases(entries: Sequence[Entry]) -> JsonObject:
    """Case → language, tags, and model → trial → what became of it."""
    out: JsonObject = {}
    for entry in entries:
        case = out.setdefault(entry.case, {"models": {}})
        case |= {"language": entry.language, "tags": _tags(entry.tags)}
        case["models"].setdefault(entry.model, {})[str(entry.trial)] = entry_to_json(entry)
    return out


def entry_to_json(entry: Entry) -> JsonObject | None:
    """What became of an entry: None where none of its attempts has ended. Checks are shown and never added up."""
    if entry.verdict is None:
        return None
    out: JsonObject = {
        "verdict": entry.verdict.value,
        "key": entry.key,
        "variant": entry.variant,
        "checks": dict(entry.checks),
    }
    return out if entry.verdict is Verdict.PASS else out | {"why": entry.why}


def _tags(tags: Sequence[tuple[str, str]]) -> Mapping[str, list[str]]:
    out: dict[str, list[str]] = defaultdict(list)
    for tag, value in tags:
        out[tag].append(value)
    return out


def _timing(summary: Summary) -> JsonObject:
    history = summary.history
    return {
        "first_ts": history.first_ts,
        "last_ts": history.last_ts,
        "resumes": history.resumes,
        "attempts": history.attempts,
        "usd_of_all_attempts": rounded(history.usd),
        "models": {one.model: one.timing() for one in summary.standings},
    }
