"""The writer that flushes on the loop while the disk is fast, and beside it when it is not."""

from __future__ import annotations

import threading
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from reconciler.clock import SystemClock
from reconciler.errors import StoreFailed
from reconciler.storing import committing
from reconciler.storing.sqlite_store import SqliteStore, StoreOptions
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


@pytest.mark.anyio
async def test_a_disk_has_to_show_that_it_is_fast(tmp_path: Path) -> None:
    log = Log()
    async with opened(tmp_path, log) as store:
        await store.append(made())

    assert log.threads[0] != threading.get_ident()


@pytest.mark.anyio
async def test_what_is_proposed_in_one_turn_of_the_loop_is_one_commit(tmp_path: Path) -> None:
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
async def test_what_nobody_waits_for_is_durable_soon_all_the_same(tmp_path: Path) -> None:
    async with opened(tmp_path, Log()) as store:
        rev = store.propose(made())
        record = await anext(store.watch(0))

        assert record.rev == rev == store.durable_rev


@pytest.mark.anyio
async def test_much_at_once_is_written_beside_the_loop_however_fast_the_disk(tmp_path: Path) -> None:
    log = Log()
    async with opened(tmp_path, log) as store:
        await store.append(made())
        for n in range(50):
            await store.append(status(n=n))
        store.put_blob(b"x" * (committing.QUICK_BYTES + 1))
        await store.append(status(n=50))
        assert log.threads[-1] != threading.get_ident()


@pytest.mark.anyio
async def test_a_failure_reaches_who_waits_wherever_it_happened(tmp_path: Path) -> None:
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
async def test_who_flushes_in_the_moment_of_a_failure_is_told_of_it(tmp_path: Path) -> None:
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
