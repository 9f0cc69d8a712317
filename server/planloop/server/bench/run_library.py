"""Summaries of runs, updated incrementally from their events.

Running and ended runs are treated alike, because events are only appended. The library writes nothing. It keeps the
summaries of the runs that were requested last in memory.
"""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from planloop.benchmarks.events.projection import FILE as EVENTS
from planloop.benchmarks.events.reader import HINT, BadEvents, BenchEvent, EventReader, parse_event
from planloop.benchmarks.runs.plan import PLAN
from planloop.benchmarks.scoring.fold import BadRun, EntryHistory, RunFold
from planloop.benchmarks.scoring.summary import EntryCounts, ModelSummary, RunSummary, summarise_run
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_paths import PlanPaths
from planloop.reconciler.store import owner_lock, state_files
from planloop.schemas.canonical_json import decode
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import RUNS_FOLDED_MAX
from planloop.server.bench import run_folder
from planloop.server.bench.run_folder import ReportsFolder, RunFolderState, RunName

EntryName = tuple[str, str, int]
"""Case, model and trial."""
Span = tuple[int, int]
"""The offset of a line in the file, and its length."""


class GrowingFile:
    """The events of one run. `read_on` reads new events; the other methods use the events read so far."""

    def __init__(self, reports: ReportsFolder, name: RunName) -> None:
        self.name = name
        self.lock = threading.Lock()
        self.error = ""
        self._reports = reports
        self._summary: RunSummary | None = None
        self._begin(0)

    @property
    def seq(self) -> int:
        """The number of the newest event; 0 before the first."""
        return len(self._places)

    def read_on(self) -> None:
        """Read new events. After an invalid line, `error` describes it, and only the events before it count."""
        state = self._reports.state(self.name, EVENTS)
        if state is None:
            self._begin(0)
            return
        if state.inode != self._inode or state.size_bytes < self._end:
            self._begin(state.inode)  # The file was replaced: `plan bench resume` may rewrite it.
        if state.size_bytes == self._end or self.error:
            return
        with self._reports.opened(self.name, EVENTS) as file:
            file.seek(self._end)
            content = file.read()
        for line in _whole(content):
            try:
                self._take(line)
            except (BadEvents, BadRun) as error:
                self.error = str(error)
                return

    def summary(self) -> RunSummary:
        """Return the summary of the events so far."""
        if self._summary is None:
            self._summary = summarise_run(self._fold)
        return self._summary

    def events(self, after: int, limit: int) -> list[BenchEvent]:
        """Return the next events after the one with that `seq`."""
        places = self._places[max(0, after) : max(0, after) + limit]
        return self._read([(place, 0) for place in places])

    def events_of(self, entry: EntryName) -> list[BenchEvent]:
        """Return the events of all attempts of one entry."""
        return self._read(self._spans.get(entry, ()))

    def _begin(self, inode: int) -> None:
        self.error = ""
        self._inode = inode
        self._end = 0
        self._reader = EventReader()
        self._fold = RunFold()
        self._summary = None
        self._places = array("Q")
        self._spans: dict[EntryName, list[Span]] = {}

    def _take(self, line: bytes) -> None:
        for event in self._reader.feed(line):
            self._fold.add(event)
            if event.case is not None and event.model is not None and event.trial is not None:
                self._spans.setdefault((event.case, event.model, event.trial), []).append((self._end, len(line)))
        self._places.append(self._end)
        self._end += len(line)
        self._summary = None

    def _read(self, spans: Sequence[Span]) -> list[BenchEvent]:
        """Return the events at these places. A length of 0 means the whole line."""
        found: list[BenchEvent] = []
        with self._reports.opened(self.name, EVENTS) as file:
            for place, length in spans:
                file.seek(place)
                line = file.read(length) if length else file.readline()
                found.append(BenchEvent(**{name: value for name, value in decode(line).items() if name in _FIELDS}))
        return found


def run_brief(summary: RunSummary) -> RunBrief:
    """Return the brief for a summary."""
    return RunBrief(summary.counts, summary.history, summary.standings)


_FIELDS: Final = frozenset(BenchEvent.__annotations__)


def _whole(content: bytes) -> list[bytes]:
    """Return the lines of `content` without an incomplete last line: it is still being written, or a crash cut it."""
    lines = content.split(b"\n")[:-1]
    if lines and not _is_event(lines[-1]):
        lines.pop()
    return [line + b"\n" for line in lines]


def _is_event(line: bytes) -> bool:
    try:
        raw = decode(line)
        return isinstance(raw, dict) and bool(parse_event(raw, 0))
    except (ValueError, BadEvents):
        return False


@frozen
class RunBrief:
    """A run in the list of runs, small enough to keep thousands. `error` says why it cannot be read."""

    counts: EntryCounts
    history: EntryHistory
    standings: tuple[ModelSummary, ...]
    error: str = ""

    @property
    def is_complete(self) -> bool:
        return not (self.counts.errors or self.counts.missing)


class RunLibrary:
    """The runs of a reports folder. Thread-safe."""

    def __init__(self, reports: ReportsFolder) -> None:
        self.reports = reports
        self._lock = threading.Lock()
        self._known: OrderedDict[RunName, GrowingFile] = OrderedDict()
        self._briefs: dict[RunName, tuple[RunFolderState, RunBrief]] = {}

    def run(self, name: RunName) -> GrowingFile:
        """Return the run with all events so far. Raises CommandError if it is missing or has invalid events."""
        if not self.reports.has(name, run_folder.PLAN_JSON):
            raise CommandError(ExitCode.NOT_FOUND, f"no run {name}", run_folder.RUNS_HINT)
        run = self._growing(name)
        with run.lock:
            run.read_on()
            if run.error:
                raise CommandError(ExitCode.INVALID, f"{name}: {run.error}", HINT)
        return run

    def summary(self, name: RunName) -> RunSummary:
        """Return the run's summary so far. Raises CommandError, also if the run has no events."""
        run = self.run(name)
        with run.lock:
            if not run.seq:
                raise CommandError(
                    ExitCode.NOT_FOUND, f"{name} has not started", f"start it with plan bench resume {name}"
                )
            return run.summary()

    def brief(self, name: RunName) -> RunBrief | None:
        """Return the brief of the run, updated when its events change; None before the first event."""
        state = self.reports.state(name, EVENTS)
        if state is None or not state.size_bytes:
            return None
        with self._lock:
            kept = self._briefs.get(name)
        if kept is not None and kept[0] == state:
            return kept[1]
        try:
            run = self.run(name)
        except CommandError as halt:
            return RunBrief(EntryCounts(), EntryHistory(), (), halt.summary)
        with run.lock:
            if not run.seq:
                return None
            found = run_brief(run.summary())
        with self._lock:
            self._briefs[name] = (state, found)
        return found

    def place(self, name: RunName) -> PlanPaths | None:
        """Return the paths of the run's plan; None if the run has no log."""
        state = (state_files.STATE, PLAN)
        if not self.reports.has(name, *state, state_files.LOG):
            return None
        return PlanPaths(PLAN, self.reports.path(name).joinpath(*state))

    def is_live(self, name: RunName) -> bool:
        """Return whether an owner process is running the run's plan."""
        place = self.place(name)
        is_plain = place is not None and self.reports.has(name, state_files.STATE, PLAN, state_files.OWNER)
        return place is not None and is_plain and owner_lock.current_owner(place.folder) is not None

    def _growing(self, name: RunName) -> GrowingFile:
        with self._lock:
            run = self._known.pop(name, None) or GrowingFile(self.reports, name)
            self._known[name] = run
            if len(self._known) > RUNS_FOLDED_MAX:
                self._known.popitem(last=False)
            return run
