"""One benchmark run: own its plan until it ends, write its events, show progress."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final, NoReturn

import anyio
import click

from planloop.benchmarks.events.projection import EventFile, EventsTaken, RunProjection
from planloop.benchmarks.events.reader import HINT, BadEvents, parse_event
from planloop.benchmarks.runs.plan import plan_document
from planloop.benchmarks.runs.run_compiler import CompiledRun
from planloop.benchmarks.scoring.fold import EntryResult, RunFold
from planloop.cli.apply_run import leave_owner
from planloop.client import error_report, plan_file, process
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_paths import PlanPaths, paths_of_file
from planloop.client.process import write_styled
from planloop.owner import container_teardown
from planloop.owner.owner_process import ExitReason, OwnerOptions, OwnerProcess
from planloop.owner.screen import ScreenKey
from planloop.reconciler.diff.file_patch import FileSave
from planloop.reconciler.errors import AGAIN, EngineError, NotOwner
from planloop.reconciler.store.store import View
from planloop.schemas import quantities
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import SUITE_BYTES_MAX
from planloop.schemas.log.record import Record
from planloop.schemas.objects.case import CaseState, CaseVerdict, case_from_json
from planloop.schemas.quantities import cell_width, replace_control_chars, truncate_cells
from planloop.server import opened_plan
from planloop.server.bench import run_folder
from planloop.server.opened_plan import OpenedPlan

# The progress line: entries done, pass rate, cost, time left. Parts that do not fit are left out, the least needed
# first, so that the line never wraps.

GAP: Final = "  "
NAME_MAX: Final = 24


@frozen
class RunProgress:
    """How far a run is. `left_s` None: nothing has ended that it could be told from. `usd` is of all attempts."""

    suite: str
    total: int
    done: int
    passed: int
    failed: int
    undecided: int
    running: int
    usd: float
    left_s: float | None


def run_progress(fold: RunFold, now: float, *, parallel: int) -> RunProgress:
    """The progress of the run of `fold` at `now`, in seconds since 1970, with room for `parallel` entries."""
    entries = fold.entries()
    ended = [one for one in entries if one.verdict is not None and one.times.began is None]
    verdicts = [one.verdict for one in ended]
    running = [one for one in entries if one.times.began is not None]
    total = max(fold.run.entry_count, len(entries))
    passed, failed = verdicts.count(CaseVerdict.PASS), verdicts.count(CaseVerdict.FAIL)
    return RunProgress(
        fold.run.suite,
        total,
        len(ended),
        passed,
        failed,
        len(ended) - passed - failed,
        len(running),
        fold.history().usd,
        _left_s(ended, running, total - len(ended) - len(running), now, parallel),
    )


def progress_line(found: RunProgress, *, width: int) -> str:
    """`tool-calling  12/40  10 pass  2 fail  83 %  $1.24  3m20s left`, in at most `width` cells.

    Empty before the run is open.
    """
    if not found.total:
        return ""
    parts = _parts(found)
    shown = [text for _, text in parts]
    for rank in range(max(rank for rank, _ in parts), 0, -1):
        if cell_width(GAP.join(shown)) <= width:
            break
        shown = [text for own, text in parts if own < rank]
    return truncate_cells(GAP.join(shown), width)


def _parts(found: RunProgress) -> list[tuple[int, str]]:
    """Return the parts of the line in order, each with its rank: a long line loses the highest first."""
    decided = found.passed + found.failed
    parts = [(3, truncate_cells(replace_control_chars(found.suite), NAME_MAX)), (0, f"{found.done}/{found.total}")]
    parts += [(4, f"{found.passed} pass"), (4, f"{found.failed} fail")]
    if found.undecided:
        parts.append((1, f"{found.undecided} undecided"))
    if decided:
        parts.append((1, f"{100 * found.passed / decided:.0f} %"))
    if found.usd:
        parts.append((2, quantities.format_money(Decimal(repr(found.usd)))))
    if found.running:
        parts.append((5, f"{found.running} running"))
    if found.done == found.total:
        parts.append((2, "done"))
    elif found.left_s is not None:
        parts.append((2, f"{quantities.format_duration(found.left_s)} left"))
    return parts


def _left_s(
    ended: Sequence[EntryResult], running: Sequence[EntryResult], waiting: int, now: float, parallel: int
) -> float | None:
    """The remaining work, by the mean of ended entries, divided by the number of parallel runs."""
    times = [one.times.took_s for one in ended if one.times.took_s is not None]
    if not times:
        return None
    mean = sum(times) / len(times)
    begun = [max(0.0, mean - (now - one.times.began)) for one in running if one.times.began is not None]
    left = waiting + len(running)
    return (waiting * mean + sum(begun)) / max(1, min(parallel, left))


# The screen of a run: one line a case that ended, and on a terminal a line below that says how far everything is.

VERDICT_SIGNS = {"pass": "✓", "fail": "✗", "error": "!", "invalid": "?"}
DRAWN_S: Final = 0.5  # Between two drawings of the line below: it says how long the rest takes.


class BenchScreen:
    """A `Screen` that also receives events. `fold` has the earlier events, if there are any.

    `total` is how many entries are tried: those that were decided before are not among them.
    """

    def __init__(self, total: int, fold: RunFold | None = None, parallel: int = 1) -> None:
        self.fold = fold or RunFold()
        """Of all events so far."""
        self._total = total
        self._parallel = parallel
        self._ended: set[tuple[str, str, int]] = set()

    def begin(self, view: View, plan: str) -> None:
        """Nothing: what counts here are events."""

    def record(self, record: Record, changed: tuple[str, ...]) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Print a note."""
        _clear()
        click.echo(text)

    def events(self, events: Iterable[JsonObject]) -> None:
        """Shows what is new."""
        for event in events:
            self.fold.add(parse_event(event, event["seq"]))
            if event["type"] == "case/end":
                _clear()
                self._ended.add((event["case"], event["model"], event["trial"]))
                data = event["data"]
                why = "" if data["verdict"] == "pass" else f"  {data['why']}"
                sign = VERDICT_SIGNS[data["verdict"]]
                head = f"{len(self._ended)}/{self._total}  {sign} {event['case']}  {event['model']}"
                click.echo(f"{head} {event['trial']}{why}")
        sys.stdout.flush()

    async def run(self, press: Callable[[ScreenKey], None]) -> None:
        """Read no keys. Draw the progress line if the output is a terminal."""
        if not sys.stderr.isatty():
            await anyio.sleep_forever()
        try:
            while True:
                self._draw()
                await anyio.sleep(DRAWN_S)
        finally:
            _clear()

    def _draw(self) -> None:
        width = shutil.get_terminal_size().columns - 1  # A full last column would wrap on some terminals.
        found = run_progress(self.fold, process.now(), parallel=self._parallel)
        write_styled(f"\r{progress_line(found, width=width)}\033[K", sys.stderr)
        sys.stderr.flush()


def _clear() -> None:
    """Erase the progress line, so that output is printed in its place."""
    if sys.stderr.isatty():
        write_styled("\r\033[K", sys.stderr)
        sys.stderr.flush()


class ProofScreen(BenchScreen):
    """Only the line below: what became of each proof is shown once it is judged."""

    def events(self, events: Iterable[JsonObject]) -> None:
        """Counts them."""
        for event in events:
            self.fold.add(parse_event(event, event["seq"]))


# One run: its plan is owned by this process until it is over, and its events are written as its log grows.

PAGE: Final = 1000
LOOK_S: Final = 0.05  # Between two looks at what became durable.


@frozen
class RunningBench:
    """A run in a folder: `attempts` are all entries with the number of the requested attempt.

    `command` resumes the run after an interruption.
    """

    folder: Path
    compiled: CompiledRun
    attempts: Mapping[str, int]
    parallel: int
    command: str


def attempts_of(compiled: CompiledRun, view: View | None) -> dict[str, int]:
    """The try that each entry is at: one with a verdict on what is asked now keeps it, all others get another."""
    found: dict[str, int] = dict.fromkeys(compiled.entries, 1)
    for case in view.list("case") if view is not None else ():
        spec = case_from_json(case.spec)
        if spec.entry not in found or spec.attempt < found[spec.entry]:
            continue
        is_decided = case.state == CaseState.ENDED and CaseVerdict(case.status["verdict"]).is_decided
        is_kept = is_decided and spec.key == compiled.entries[spec.entry].key
        found[spec.entry] = spec.attempt + (0 if is_kept else 1)
    return found


def run_bench(going: RunningBench, screen: BenchScreen) -> ExitReason:
    """Run the entries until all have ended. Raises CommandError if another process runs them, the folder is damaged, or
    the disk is full.
    """
    try:
        return _owned(going, screen)
    except (EngineError, OSError, BaseExceptionGroup) as error:
        fault = error_report.explain_exception(error)
        if fault is None:
            raise
        raise CommandError(fault.exit, fault.summary, _resume_fix(fault.hint, going.command)) from error


def _resume_fix(hint: str, command: str) -> str:
    """Return `hint` with the command that resumes the run, which differs from the one that started it."""
    named = hint.replace(AGAIN, f"run `{command}`")
    return named if named != hint else f"{hint}\n{command} resumes the run"


def _owned(going: RunningBench, screen: BenchScreen) -> ExitReason:
    document = plan_document(going.compiled, going.attempts, parallel=going.parallel)
    path = run_folder.write_plan(going.folder, document)
    file = plan_file.require_compiled(path, size_max=SUITE_BYTES_MAX, is_run=True)
    run_folder.write_attempt_files(going.folder, going.compiled, going.attempts)
    save = FileSave(path.name, file.content, file.document, is_approved=True, checked=file.compiled)
    place = paths_of_file(path, file.name)
    try:
        return anyio.run(_run_owned, place, OwnerOptions(file, save, SUITE_BYTES_MAX), going, screen)
    except NotOwner:
        hint = f"plan tree --plan {path} shows it"
        raise CommandError(ExitCode.CONFLICT, f"another process runs {going.folder}", hint) from None
    except EventsTaken:
        raise CommandError(ExitCode.CONFLICT, f"another process writes the events of {going.folder}") from None
    except BadEvents as error:
        raise CommandError(ExitCode.FAILED, f"{going.folder}: {error}", HINT.format(folder=going.folder)) from None


async def _run_owned(place: PlanPaths, wish: OwnerOptions, going: RunningBench, screen: BenchScreen) -> ExitReason:
    async with opened_plan.open_plan(place) as core:
        await container_teardown.sweep_grading(core)
        projection = RunProjection(going.compiled, going.folder.name)
        with EventFile(going.folder, projection) as events:
            follower = _Follower(core, events, screen)
            await follower.catch_up()  # What is there already is looked at before anything new is.

            def leave(how: ExitReason) -> NoReturn:
                del how
                leave_owner(core.store.view, str(going.folder), going.command)

            async with anyio.create_task_group() as group:
                group.start_soon(follower.follow)
                leaving = await OwnerProcess(core, wish, screen, leave).run()
                group.cancel_scope.cancel()
            await follower.finish()
        return leaving


class _Follower:
    """Writes the events of what becomes durable in the log."""

    def __init__(self, core: OpenedPlan, events: EventFile, screen: BenchScreen) -> None:
        self._store = core.store
        self._events = events
        self._screen = screen
        self._rev = 0

    async def follow(self) -> None:
        """Run until cancelled."""
        while True:
            await self.catch_up()
            await anyio.sleep(LOOK_S)

    async def finish(self) -> None:
        """Writes what is left."""
        await self._store.flush(self._store.view.rev)
        await self.catch_up()

    async def catch_up(self) -> None:
        """Writes what became durable since. Raises BadEvents, OSError."""
        while records := await self._store.log(self._rev, PAGE):
            self._rev = records[-1].rev
            self._screen.events(self._events.note(records))
