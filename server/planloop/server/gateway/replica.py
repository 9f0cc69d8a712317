"""The gateway's copy of a plan: it follows the log, folds it, and answers all reads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from planloop.client import error_report, tail_file
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.folder_events import watch_folders
from planloop.client.plan_paths import PlanPaths
from planloop.reconciler.errors import EngineError, StoreCorrupt, StoreFailed
from planloop.reconciler.store import backend, state_files
from planloop.reconciler.store.log_reader import FoldedLog, LogEntry, LogPosition, LogReader, log_id
from planloop.reconciler.store.memory_view import MemoryView
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import PatchFailed
from planloop.schemas.log.record import Record
from planloop.schemas.resource import Resource

# A frame is `{"rev": N, "records": [...]}` with consecutive records of the log. It is built once for all listeners, and
# the newest frames are kept. For a listener whose position is not the start of a kept frame, one is read from the log.

FRAME_BYTES_MAX: Final = 256 << 10  # A frame ends with the record that exceeds this; a single record may be larger.
FRAMES_KEPT_MAX: Final = 10_000  # Frames; older ones are read from the log again.
FRAMES_KEPT_BYTES_MAX: Final = 32 << 20  # The same, in bytes.


@frozen
class RecordFrame:
    """The records from `first` to `last` as JSON."""

    first: int
    last: int
    body: bytes


def record_frames(lines: Iterable[tuple[int, str]]) -> list[RecordFrame]:
    """Return frames with `lines`: consecutive records, each as its revision and its JSON."""
    frames: list[RecordFrame] = []
    first, bodies, size = 0, list[bytes](), 0
    last = 0
    for rev, line in lines:
        first, last = first or rev, rev
        bodies.append(line.encode())
        size += len(bodies[-1])
        if size > FRAME_BYTES_MAX:
            frames.append(_frame(first, last, bodies))
            first, bodies, size = 0, [], 0
    return [*frames, _frame(first, last, bodies)] if bodies else frames


def _frame(first: int, last: int, bodies: list[bytes]) -> RecordFrame:
    return RecordFrame(first, last, b'{"rev":%d,"records":[%b]}' % (last, b",".join(bodies)))


class FrameCache:
    """The newest frames, without gaps."""

    def __init__(self) -> None:
        self._frames: dict[int, RecordFrame] = {}
        self._bytes = 0

    def add(self, frame: RecordFrame) -> None:
        """Add `frame`, and drop the oldest frames over the limits."""
        self._frames[frame.first] = frame
        self._bytes += len(frame.body)
        while len(self._frames) > FRAMES_KEPT_MAX or self._bytes > FRAMES_KEPT_BYTES_MAX:
            self._bytes -= len(self._frames.pop(next(iter(self._frames))).body)

    def after(self, rev: int) -> RecordFrame | None:
        """Return the frame that starts with the revision after `rev`, if it is kept."""
        return self._frames.get(rev + 1)

    def clear(self) -> None:
        """Drop all frames, because the log was replaced."""
        self._frames.clear()
        self._bytes = 0


class PlanSnapshot:
    """A thread-safe `plan_reader.PlanReader` of one revision. `log` identifies the log."""

    def __init__(
        self, folder: Path, rev: int, epoch: int, log: str, objects: Mapping[str, Resource], reader: LogReader
    ) -> None:
        self.rev = rev
        self.epoch = epoch
        self.log = log
        self._folder = folder
        self._objects = objects
        self._reader = reader
        self._making = threading.Lock()
        self._view: MemoryView | None = None

    @property
    def view(self) -> MemoryView:
        """The objects with their indexes, built for the first caller."""
        with self._making:
            if self._view is None:
                self._view = MemoryView(self._objects.values(), self.rev)
                # `list` sorts lazily. Do it now, so that later reads do not change the view and threads can share it.
                for kind in {one.kind for one in self._objects.values()}:
                    self._view.list(kind)
            return self._view

    def get(self, address: str) -> Resource | None:
        return self._objects.get(address)

    def list(self, kind: str) -> Sequence[Resource]:
        return self.view.list(kind)

    def get_blob(self, digest: str) -> bytes | None:
        return self._reader.get_blob(digest)

    def open_output(self, op: str) -> BinaryIO | None:
        return tail_file.open_output(self._folder, op)


# The replica opens the log read-only and reads new records when it changes, so it works with and without an owner, and
# while another owner takes over. It sees only durable records, because SQLite hides commits that are not flushed. If
# the log is missing or damaged, every request raises the error. If the log is replaced, `generation` increases, and
# listeners start again.

T = TypeVar("T")
OnRecord: TypeAlias = Callable[[Record], None]
OnMove: TypeAlias = Callable[[set[str]], None]

PAGE: Final = 500  # Records per read.
GATHER_S: Final = 0.003  # To wait before reading: the file changes just before a commit is readable, often in bursts.
BUSY_S: Final = 0.02  # The same during a burst: fewer frames with more records, without a visible delay.
LATE_S: Final = (0.01, 0.04)  # To wait before further reads, if a commit is not readable yet because of a slow disk.
READS_AT_ONCE: Final = 4  # Each uses a thread.


class LogReplaced(Exception):
    """Another log has replaced the followed one."""


class PlanReplica:
    """A `plan_reader.PlanReader` that follows the log of the plan at `place`. `run` keeps it up to date.

    Only for the event loop of `run`; other threads may use `moment()` and `reader`.
    """

    def __init__(self, place: PlanPaths) -> None:
        self.place = place
        self.generation = 0
        self.reader = backend.log_reader(place.folder)
        self._limiter = anyio.CapacityLimiter(READS_AT_ONCE)
        self._moment: PlanSnapshot | None = None
        self._kept = FrameCache()
        self._error: CommandError | None = None
        self._listeners: list[OnRecord] = []
        self._watchers: list[OnMove] = []
        self._moved = anyio.Event()
        self._found_at = -BUSY_S * 2
        self._view = MemoryView()
        self._position, self._epoch, self._log_id = LogPosition(), 0, ""

    @property
    def rev(self) -> int:
        return self._view.rev

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def log(self) -> str:
        """Identifies the log, so that clients notice a replacement; empty while the log has no record."""
        return self._log_id

    @property
    def view(self) -> MemoryView:
        """The objects at `rev`."""
        return self._view

    def get(self, address: str) -> Resource | None:
        return self._view.get(address)

    def list(self, kind: str) -> Sequence[Resource]:
        return self._view.list(kind)

    def get_blob(self, digest: str) -> bytes | None:
        return self.reader.get_blob(digest)

    def open_output(self, op: str) -> BinaryIO | None:
        return tail_file.open_output(self.place.folder, op)

    def moment(self) -> PlanSnapshot:
        """Return a snapshot of the plan, for reads in threads. Raises CommandError like `require`."""
        self.require()
        if self._moment is None or self._moment.rev != self.rev:
            objects = self.view.copied()
            self._moment = PlanSnapshot(self.place.folder, self.rev, self._epoch, self._log_id, objects, self.reader)
        return self._moment

    def require(self) -> None:
        """Raise CommandError if the log is missing or damaged."""
        if self._error is not None:
            raise self._error

    def on_record(self, listener: OnRecord) -> None:
        """Call `listener` with each record that is folded from now on."""
        self._listeners.append(listener)

    def on_move(self, watcher: OnMove) -> None:
        """Call `watcher` with the names of changed files in the state folder; with none if they are unknown."""
        self._watchers.append(watcher)

    async def read(self, step: Callable[[], T]) -> T:
        """Run `step` in a thread and return its result: for reads of files and large answers."""
        return await anyio.to_thread.run_sync(step, limiter=self._limiter, abandon_on_cancel=True)

    async def load(self) -> None:
        """Read the whole log. If it is missing or damaged, `require` raises the error."""
        try:
            loaded = await anyio.to_thread.run_sync(self._load)
        except (EngineError, PatchFailed) as error:
            self._fail(error)
            return
        self._view, self._moment = loaded.view, None
        self._position, self._epoch, self._log_id = loaded.position, loaded.epoch, loaded.log_id
        self.generation += 1
        self._kept.clear()
        self._error = None
        self._wake()

    def _load(self) -> FoldedLog:
        self.reader.verify()
        return self.reader.load()

    async def run(self) -> None:
        """Follow the log until cancelled, even if its folder is removed and created again."""
        while True:
            folder = _nearest(self.place.folder)
            known = _identity(folder)
            async with aclosing(watch_folders([folder], anyio.Event())) as batches:
                async for batch in batches:
                    if _nearest(self.place.folder) != folder or _identity(folder) != known:
                        break
                    await self._look({os.path.basename(path) for path in batch})  # noqa: PTH119 - of every write

    async def frame_after(self, rev: int, generation: int) -> RecordFrame:
        """Return the next records after `rev`; wait until there is one. Raises LogReplaced."""
        while generation == self.generation and rev >= self.rev:
            await self._moved.wait()
        if generation != self.generation:
            raise LogReplaced
        if (kept := self._kept.after(rev)) is not None:
            return kept
        # Not beyond the folded records, so that a listener that has caught up is at the start of a kept frame.
        wanted = min(PAGE, self.rev - rev)
        try:
            frames = await self.read(lambda: record_frames(self.reader.lines(rev, wanted)))
        except EngineError:
            raise LogReplaced from None
        if generation != self.generation or not frames:
            raise LogReplaced
        return frames[0]

    async def until(self, rev: int) -> None:
        """Wait until `rev` is folded."""
        while rev > self.rev:
            await self._moved.wait()

    async def moved(self) -> None:
        """Wait until another record is folded."""
        await self._moved.wait()

    def close(self) -> None:
        """Close the log."""
        self.reader.close()

    async def _look(self, moved: set[str]) -> None:
        """Read new records if files of the log have changed, or if the changed files are unknown."""
        for watcher in self._watchers:
            watcher(moved)
        if moved and not backend.has_log_changed(moved):
            return
        late = LATE_S if backend.is_commit_pending(moved) else ()
        is_busy = anyio.current_time() - self._found_at < 2 * BUSY_S
        for wait_s in (BUSY_S if is_busy else GATHER_S, *late):
            await anyio.sleep(wait_s)
            if await self._read_on():
                self._found_at = anyio.current_time()
                return

    async def _read_on(self) -> bool:
        """Read and fold new records. Return whether there were any."""
        before = self.rev, self.generation
        try:
            while await self._read_page() == PAGE:
                await anyio.lowlevel.checkpoint()  # Let other tasks run between the pages.
        except StoreFailed as error:
            self._fail(error)  # Keep the objects, because the disk or the folder may come back.
        except (StoreCorrupt, PatchFailed):
            await self.load()
        return (self.rev, self.generation) != before

    async def _read_page(self) -> int:
        page = await anyio.to_thread.run_sync(self.reader.follow, self._position, PAGE)
        for entry in page:
            self._fold(entry)
        self._error = None
        for frame in record_frames((entry.position.rev, entry.line) for entry in page):
            self._kept.add(frame)
        if page:
            self._wake()
        return len(page)

    def _fold(self, entry: LogEntry) -> None:
        self._view.fold(entry.record)
        self._position, self._epoch = entry.position, entry.record.epoch
        self._log_id = self._log_id or log_id(entry.position.checksum)
        for listener in self._listeners:
            listener(entry.record)

    def _fail(self, error: EngineError | PatchFailed) -> None:
        if state_files.has_log(self.place.folder):
            self._error = error_report.explain_exception(error) or CommandError(
                ExitCode.FAILED, f"cannot compute the state from the log: {error}", "check the log: plan replay"
            )
            return
        hint = "run plan apply FILE to start the plan again; this page then shows it"
        self._error = CommandError(ExitCode.NOT_FOUND, f"the state of plan {self.place.name} was deleted", hint)

    def _wake(self) -> None:
        moved, self._moved = self._moved, anyio.Event()
        moved.set()


def _nearest(folder: Path) -> Path:
    """Return the folder or, if it does not exist, its nearest existing parent, to watch for its creation."""
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        about = folder.stat()
    except OSError:
        return None
    return about.st_dev, about.st_ino
