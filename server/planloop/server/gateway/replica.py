"""Follow the log and fold it in this process: every read of the gateway is answered from here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from functools import partial
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
from planloop.reconciler.store import state_files
from planloop.reconciler.store.memory_view import MemoryView
from planloop.reconciler.store.sqlite.database import LogRow
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import PatchFailed
from planloop.schemas.log.record import Record
from planloop.schemas.resource import Resource
from planloop.server.gateway.snapshot import FollowedLog, LogStart, PlanSnapshot, empty_view, log_name

# Records as they go to those who listen: whole frames, made once, whoever many they go to.
#
# A frame is `{"rev": N, "records": [...]}`, the records as the log has them. The newest frames are kept; whoever is
# where one begins takes it as it is, whoever is elsewhere is read a frame of their own.

FRAME_BYTES_MAX: Final = 256 << 10  # A frame ends with the record that passes this: one record may be larger.
FRAMES_KEPT_MAX: Final = 10_000  # Frames; older ones are read from the log again.
FRAMES_KEPT_BYTES_MAX: Final = 32 << 20  # The same, in bytes.


@frozen
class RecordFrame:
    """The records from `first` to `last` as JSON."""

    first: int
    last: int
    body: bytes


def record_frame(rows: Iterable[LogRow]) -> list[RecordFrame]:
    """The frames that hold `rows`, which follow one another."""
    frames: list[RecordFrame] = []
    first, bodies, size = 0, list[bytes](), 0
    last = 0
    for row in rows:
        first, last = first or row[0], row[0]
        bodies.append(row[5].encode())
        size += len(bodies[-1])
        if size > FRAME_BYTES_MAX:
            frames.append(_frame(first, last, bodies))
            first, bodies, size = 0, [], 0
    return [*frames, _frame(first, last, bodies)] if bodies else frames


def _frame(first: int, last: int, bodies: list[bytes]) -> RecordFrame:
    return RecordFrame(first, last, b'{"rev":%d,"records":[%b]}' % (last, b",".join(bodies)))


class FrameCache:
    """The newest frames, each following the one before it."""

    def __init__(self) -> None:
        self._frames: dict[int, RecordFrame] = {}
        self._bytes = 0

    def add(self, frame: RecordFrame) -> None:
        """Keeps `frame`; the oldest go when it is too much."""
        self._frames[frame.first] = frame
        self._bytes += len(frame.body)
        while len(self._frames) > FRAMES_KEPT_MAX or self._bytes > FRAMES_KEPT_BYTES_MAX:
            self._bytes -= len(self._frames.pop(next(iter(self._frames))).body)

    def after(self, rev: int) -> RecordFrame | None:
        """The frame that begins with the revision after `rev`, if it is kept."""
        return self._frames.get(rev + 1)

    def clear(self) -> None:
        """Forgets all: the log is another."""
        self._frames.clear()
        self._bytes = 0


# The plan as its log says, folded in this process: every read of the gateway is answered from here.
#
# The log file is opened read-only and read again whenever it moves, so it is the same with an owner, without one, and
# while one replaces another. What is seen here is durable: SQLite shows a reader no commit that is not flushed. A log
# that is gone or damaged is a `fault`, told to whoever asks; one that is another than before is a new `generation`, and
# whoever listens begins anew.

T = TypeVar("T")
OnRecord: TypeAlias = Callable[[Record], None]
OnMove: TypeAlias = Callable[[set[str]], None]

WAL: Final = f"{state_files.LOG}-wal"
PAGE: Final = 500  # Records read at once.
GATHER_S: Final = 0.003  # A commit moves the log just before it can be read, and in a burst others follow.
BUSY_S: Final = 0.02  # The same while records keep coming: fewer frames with more records, and nobody can tell.
LATE_S: Final = (0.01, 0.04)  # One that waits for its disk: its end moves the mirror, but a mirror may be off.
READS_AT_ONCE: Final = 4  # Each holds a thread.


class LogReplaced(Exception):
    """The log is another than the one whose revisions were listened to."""


class PlanReplica:
    """An `read_queries.PlanReader` that follows the log of the plan at `place`. `run` keeps it up to date.

    For the event loop of `run` alone; what other threads may read is `moment`.
    """

    def __init__(self, place: PlanPaths) -> None:
        self.place = place
        self.generation = 0
        self._follower = FollowedLog(place.folder)
        self._reader = FollowedLog(place.folder)  # Apart: who follows the log waits for nobody who reads in it.
        self._limiter = anyio.CapacityLimiter(READS_AT_ONCE)
        self._moment: PlanSnapshot | None = None
        self._kept = FrameCache()
        self._fault: CommandError | None = None
        self._listeners: list[OnRecord] = []
        self._watchers: list[OnMove] = []
        self._moved = anyio.Event()
        self._found_at = -BUSY_S * 2
        self._start = start = empty_view()
        self._checksum, self._epoch, self._name = start.checksum, start.epoch, start.name

    @property
    def rev(self) -> int:
        return self._start.view.rev

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def log(self) -> str:
        """What tells this log from one that may come to stand in its place; empty while there is no record."""
        return self._name

    @property
    def view(self) -> MemoryView:
        """The fold as of `rev`."""
        return self._start.view

    def get(self, address: str) -> Resource | None:
        return self._start.view.get(address)

    def list(self, kind: str) -> Sequence[Resource]:
        return self._start.view.list(kind)

    def get_blob(self, digest: str) -> bytes | None:
        return self._reader.blob(digest)

    def open_output(self, op: str) -> BinaryIO | None:
        return tail_file.open_output(self.place.folder, op)

    def moment(self) -> PlanSnapshot:
        """The plan as it is now, for reads that take a while. Raises CommandError as `require`."""
        self.require()
        if self._moment is None or self._moment.rev != self.rev:
            self._moment = PlanSnapshot(
                self.place.folder, self.rev, self._epoch, self._name, self.view.copied(), self._reader
            )
        return self._moment

    def require(self) -> None:
        """Raises CommandError when there is no sound log to read from."""
        if self._fault is not None:
            raise self._fault

    def on_record(self, listener: OnRecord) -> None:
        """Calls `listener` with each record that is folded from now on."""
        self._listeners.append(listener)

    def on_move(self, watcher: OnMove) -> None:
        """Calls `watcher` with the names that moved in the state folder; none when nobody knows which did."""
        self._watchers.append(watcher)

    async def read(self, step: Callable[[], T]) -> T:
        """What `step` returns, run beside the event loop: for whatever reads files or makes much of what it reads."""
        return await anyio.to_thread.run_sync(step, limiter=self._limiter, abandon_on_cancel=True)

    async def load(self) -> None:
        """Folds the log as it is now; afterwards it is sound, or `require` says what is wrong with it."""
        try:
            start = await anyio.to_thread.run_sync(self._follower.load)
        except (EngineError, PatchFailed) as error:
            self._fail(error)
            return
        self._start_from(start)
        self.generation += 1
        self._kept.clear()
        self._fault = None
        self._wake()

    async def run(self) -> None:
        """Follows the log until cancelled, wherever its folder comes and goes."""
        while True:
            folder = _nearest(self.place.folder)
            known = _identity(folder)
            async with aclosing(watch_folders([folder], anyio.Event())) as batches:
                async for batch in batches:
                    if _nearest(self.place.folder) != folder or _identity(folder) != known:
                        break
                    await self._look({os.path.basename(path) for path in batch})  # noqa: PTH119 - of every write

    async def frame_after(self, rev: int, generation: int) -> RecordFrame:
        """The next records over `rev`, waiting for the first. Raises LogReplaced when the log is another by now."""
        while generation == self.generation and rev >= self.rev:
            await self._moved.wait()
        if generation != self.generation:
            raise LogReplaced
        if (kept := self._kept.after(rev)) is not None:
            return kept
        # Never beyond what is folded, so that who has caught up stands where a kept frame begins.
        wanted = min(PAGE, self.rev - rev)
        try:
            frames = await self.read(lambda: record_frame(self._reader.rows(rev, wanted)))
        except EngineError:
            raise LogReplaced from None
        if generation != self.generation or not frames:
            raise LogReplaced
        return frames[0]

    async def until(self, rev: int) -> None:
        """Returns when `rev` is folded."""
        while rev > self.rev:
            await self._moved.wait()

    async def moved(self) -> None:
        """Returns when something was folded since."""
        await self._moved.wait()

    def close(self) -> None:
        """Lets go of the files."""
        self._follower.close()
        self._reader.close()

    async def _look(self, moved: set[str]) -> None:
        """Reads on if the log may have moved: when a name of it did, or when nobody knows what did."""
        for watcher in self._watchers:
            watcher(moved)
        if moved and moved.isdisjoint((state_files.LOG, WAL, state_files.MIRROR)):
            return
        late = LATE_S if WAL in moved and state_files.MIRROR not in moved else ()
        is_busy = anyio.current_time() - self._found_at < 2 * BUSY_S
        for wait_s in (BUSY_S if is_busy else GATHER_S, *late):
            await anyio.sleep(wait_s)
            if await self._read_on():
                self._found_at = anyio.current_time()
                return

    async def _read_on(self) -> bool:
        """Folds what was written since; whether there was anything."""
        before = self.rev, self.generation
        try:
            while await self._read_page() == PAGE:
                await anyio.lowlevel.checkpoint()  # Others have their turn between the pages of a long stretch.
        except StoreFailed as error:
            self._fail(error)  # What was read stands: it may be the disk, or the folder may come back.
        except (StoreCorrupt, PatchFailed):
            await self.load()
        return (self.rev, self.generation) != before

    async def _read_page(self) -> int:
        read = partial(self._follower.following, self.rev, self._checksum, PAGE)
        page = await anyio.to_thread.run_sync(read)
        for record, row in page:
            self._fold(record, row)
        self._fault = None
        for frame in record_frame(row for _, row in page):
            self._kept.add(frame)
        if page:
            self._wake()
        return len(page)

    def _fold(self, record: Record, row: LogRow) -> None:
        self._start.view.fold(record)
        self._checksum, self._epoch = row[6], record.epoch
        self._name = self._name or log_name(row[6])
        for listener in self._listeners:
            listener(record)

    def _start_from(self, start: LogStart) -> None:
        self._start, self._moment = start, None
        self._checksum, self._epoch, self._name = start.checksum, start.epoch, start.name

    def _fail(self, error: EngineError | PatchFailed) -> None:
        if state_files.log_file(self.place.folder).exists():
            self._fault = error_report.explain_exception(error) or CommandError(
                ExitCode.FAILED, f"the log does not fold: {error}", "plan replay"
            )
            return
        hint = "plan apply FILE makes it anew; this page then shows it"
        self._fault = CommandError(ExitCode.NOT_FOUND, f"the state of the plan {self.place.name} is gone", hint)

    def _wake(self) -> None:
        moved, self._moved = self._moved, anyio.Event()
        moved.set()


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists: where its coming is seen."""
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        about = folder.stat()
    except OSError:
        return None
    return about.st_dev, about.st_ino
