"""The writer flushes on the event loop while the disk is fast, and otherwise in a thread."""

from __future__ import annotations

import threading
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from planloop.reconciler.errors import StoreFailed
from planloop.reconciler.store.sqlite import database, log_reader, log_writer
from planloop.reconciler.store.sqlite.log_writer import LogWriter, RecordLine, WriterSettings
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore, StoreOptions
from planloop.schemas import limits
from tests.product import Record, SystemClock, encode, record_to_json
from tests.reconciler.store.drafts import made, status


def opened(folder: Path, hook: Log) -> AbstractAsyncContextManager[SqliteStore]:
    return SqliteStore.open(folder, clock=SystemClock(), epoch=1, options=StoreOptions(hook=hook))


class Log:
    """A hook that notes which thread commits, and crashes at the revision `crash_at`."""

    def __init__(self, crash_at: int | None = None) -> None:
        self.threads: list[int] = []
        self._crash_at = crash_at

    def __call__(self, step: str, rev: int) -> None:
        if step == "before-commit":
            self.threads.append(threading.get_ident())
            if rev == self._crash_at:
                raise OSError("the disk went away")


async def _places(folder: Path, appends: int) -> list[bool]:
    """For each of `count` commits in a row, whether it was on the loop."""
    log = Log()
    async with opened(folder, log) as store:
        await store.append(made())
        for n in range(appends - 1):
            await store.append(status(n=n))
        return [thread == threading.get_ident() for thread in log.threads]


def _flushes_take(monkeypatch: pytest.MonkeyPatch, *took_s: float) -> None:
    """Flushes on the loop take so long, one after the other, and the last of these times from then on."""
    left = list(took_s)
    monkeypatch.setattr(LogWriter, "flush_s", property(lambda _: left.pop(0) if len(left) > 1 else left[0]))


@pytest.mark.anyio
async def test_disk_is_tried_on_the_loop_and_moved_to_a_thread_when_it_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _flushes_take(monkeypatch, 10.0)

    assert await _places(tmp_path, 4) == [True, False, False, False]


@pytest.mark.anyio
async def test_slow_disk_that_became_fast_returns_to_the_loop_by_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "LOOP_PAUSE_FLUSHES", 0)  # Each is a trial.
    _flushes_take(monkeypatch, 10.0, 0.0)
    assert await _places(tmp_path / "tried", 20) == [True] * 20

    monkeypatch.setattr(log_writer, "LOOP_PAUSE_FLUSHES", 100)
    _flushes_take(monkeypatch, 10.0, 0.0)
    assert await _places(tmp_path / "untried", 20) == [True] + [False] * 19


@pytest.mark.anyio
async def test_several_slightly_slow_flushes_make_a_slow_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _flushes_take(monkeypatch, 0.0002, 0.01, 0.0002)
    assert await _places(tmp_path / "one", 6) == [True] * 6

    _flushes_take(monkeypatch, 0.0002, 0.01, 0.01)
    assert await _places(tmp_path / "more", 6) == [True, True, True, False, False, False]


@pytest.mark.anyio
async def test_disk_that_stalls_once_is_avoided_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _flushes_take(monkeypatch, *[0.0002] * 7, 0.5, 0.0002)

    assert await _places(tmp_path, 12) == [True] * 8 + [False] * 4


def test_a_snapshot_that_is_due_and_finds_no_quiet_moment_is_asked_for_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SNAPSHOT_RECORDS_MAX", 9)
    with closing(database.open_for_writing(tmp_path, 1)) as connection:
        writer = LogWriter(connection, log_reader.load_log(connection), WriterSettings(tmp_path, 1, 4, None))

        def write(first: int, last: int, *, is_idle: bool) -> int:
            records = [Record(rev, 0.0, 1, status(n=rev)) for rev in range(first, last + 1)]
            contents = [encode(record_to_json(record)) for record in records]
            lines = [RecordLine(one, text.decode(), text, {}) for one, text in zip(records, contents, strict=True)]
            writer.commit(lines, is_idle=is_idle)
            return int(database.read_meta(connection, "snapshot_rev", 0))

        assert write(1, 4, is_idle=False) == 0
        assert (writer.is_snapshot_due(1), writer.is_snapshot_due(2)) == (False, True)
        assert write(5, 6, is_idle=True) == 6, "half as many records later"
        assert write(7, 14, is_idle=False) == 6
        assert writer.is_snapshot_due(1), "no later than the most there may be"
        assert write(15, 15, is_idle=False) == 15


@pytest.mark.anyio
async def test_records_proposed_in_one_turn_of_the_loop_are_one_commit(tmp_path: Path) -> None:
    log = Log()
    async with opened(tmp_path, log) as store:
        await store.append(made())
        before = len(log.threads)
        async with anyio.create_task_group() as group:
            for n in range(100):
                group.start_soon(store.append, status(n=n))
        assert store.durable_rev == 101
        assert len(log.threads) == before + 1


@pytest.mark.anyio
async def test_record_without_a_waiter_is_durable_soon_too(tmp_path: Path) -> None:
    async with opened(tmp_path, Log()) as store:
        rev = store.propose(made())
        record = await anext(store.watch(0))

        assert record.rev == rev == store.durable_rev


@pytest.mark.anyio
async def test_large_batch_is_written_beside_the_loop_on_a_disk_of_any_speed(tmp_path: Path) -> None:
    log = Log()
    async with opened(tmp_path, log) as store:
        await store.append(made())
        for n in range(50):
            await store.append(status(n=n))
        store.put_blob(b"x" * (log_writer.QUICK_BYTES + 1))
        await store.append(status(n=50))
        assert log.threads[-1] != threading.get_ident()


@pytest.mark.anyio
async def test_failure_reaches_waiters_wherever_it_happened(tmp_path: Path) -> None:
    async with opened(tmp_path, Log(crash_at=100)) as store:
        await store.append(made())
        for n in range(2, 100):
            await store.append(status(n=n))
        with pytest.raises(StoreFailed):
            await store.append(status(n=100))

        assert store.durable_rev == 99
        with pytest.raises(StoreFailed):
            await store.append(status(n=101))


@pytest.mark.anyio
async def test_flush_at_the_moment_of_a_failure_reports_it(tmp_path: Path) -> None:
    async with opened(tmp_path, Log(crash_at=100)) as store:
        await store.append(made())
        for n in range(2, 100):
            await store.append(status(n=n))

        async def told(turns: int) -> None:
            for _ in range(turns):  # The write on the loop comes between two turns of these.
                await anyio.lowlevel.checkpoint()
            with pytest.raises(StoreFailed, match="the disk went away"):
                await store.flush(100)

        store.propose(status(n=100))
        async with anyio.create_task_group() as group:
            for turns in range(4):
                group.start_soon(told, turns)
