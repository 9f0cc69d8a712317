"""What only the SQLite store promises: crashes at every write, the mirror, masks, bounded tails, blobs in files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path

import anyio
import pytest

from planloop.reconciler.errors import StoreCorrupt, StoreFailed
from planloop.reconciler.store import backend, state_files
from planloop.reconciler.store.backend import ReadOnlyStore
from planloop.reconciler.store.log_reader import RecordQuery, ReplayResult
from planloop.reconciler.store.sqlite import database, log_reader
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore, StoreOptions
from planloop.schemas import canonical_json, limits
from tests.golden_text import said
from tests.product import RecordDraft, SystemClock
from tests.reconciler.store.drafts import made, status

STEPS = ("before-write", "before-commit", "after-commit", "after-mirror")


class Crash(BaseException):
    """What a simulation raises in the hook."""


def opened(
    folder: Path, *, inline: bool = True, options: StoreOptions | None = None
) -> AbstractAsyncContextManager[SqliteStore]:
    chosen = options or StoreOptions()
    return SqliteStore.open(folder, clock=SystemClock(), epoch=1, inline=inline, options=chosen)


def replayed(folder: Path) -> ReplayResult:
    with backend.open_log(folder) as log:
        return log.replay()


def crashing_at(step: str, rev: int) -> Callable[[str, int], None]:
    def hook(reached: str, reached_rev: int) -> None:
        if (reached, reached_rev) == (step, rev):
            raise Crash

    return hook


async def write_until_crash(folder: Path, options: StoreOptions, count: int) -> int:
    """The last acknowledged revision."""
    acknowledged = 0
    with pytest.raises(Crash):
        async with opened(folder, options=options) as store:
            acknowledged = await store.append(made())
            while acknowledged < count:
                acknowledged = await store.append(status(n=acknowledged + 1))
    return acknowledged


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("rev", [1, 2, 3, 4, 6])
@pytest.mark.sweep(keep=5)
async def test_law_1_a_crash_at_any_write_loses_nothing_acknowledged(tmp_path: Path, step: str, rev: int) -> None:
    options = StoreOptions(hook=crashing_at(step, rev), snapshot_every=3)
    acknowledged = await write_until_crash(tmp_path, options, count=8)
    assert acknowledged == rev - 1
    is_committed = step in STEPS[2:]
    async with opened(tmp_path) as store:
        assert store.view.rev == (rev if is_committed else rev - 1)
        assert await store.append(made("task/b")) == store.view.rev
        lines = state_files.mirror_file(tmp_path).read_bytes().splitlines()
        assert [canonical_json.decode(line)["rev"] for line in lines] == list(range(1, store.view.rev + 1))
    assert replayed(tmp_path).different == ()


@pytest.mark.anyio
async def test_after_a_crash_the_store_refuses_everything(tmp_path: Path) -> None:
    options = StoreOptions(hook=crashing_at("before-commit", 2))
    async with opened(tmp_path, options=options) as store:
        await store.append(made())
        waiting = store.propose(status(n=1))
        with pytest.raises(Crash):
            await store.flush(waiting)
        for attempt in (lambda: store.propose(status(n=2)), lambda: store.put_blob(b"x")):
            with pytest.raises(StoreFailed):
                attempt()
        with pytest.raises(StoreFailed):
            await store.flush(waiting)
        assert store.durable_rev == 1


@pytest.mark.anyio
async def test_a_failed_flush_reaches_every_waiter_of_the_thread(tmp_path: Path) -> None:
    failures: list[StoreFailed] = []
    options = StoreOptions(hook=crashing_at("before-commit", 10))

    async def wait(store: SqliteStore, rev: int) -> None:
        try:
            await store.flush(rev)
        except StoreFailed as error:
            failures.append(error)

    async with opened(tmp_path, inline=False, options=options) as store:
        await store.append(made())
        async with anyio.create_task_group() as group:
            # No await in between, so that the thread, which waits for the interpreter, finds all nine or some of them;
            # whichever batch ends at 10 fails, and nothing after it is written.
            for n in range(2, 11):
                store.propose(status(n=n))
            group.start_soon(wait, store, 10)
            group.start_soon(wait, store, 10)
        assert len(failures) == 2
        assert failures[0] is not failures[1]
        assert store.durable_rev < 10
        with pytest.raises(StoreFailed):
            store.propose(status(n=11))


@pytest.mark.anyio
async def test_law_11_the_tail_that_an_opening_folds_is_bounded(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    async with opened(tmp_path / "live", options=StoreOptions(snapshot_every=10)) as store:
        await store.append(made())
        for n in range(57):
            await store.append(status(n=n))
        shutil.copytree(tmp_path / "live", copy)  # As a crash would leave it: no closing snapshot.
    connection = database.open_for_reading(copy)
    loaded = log_reader.load_log(connection)
    connection.close()
    assert loaded.view.rev == 58
    assert loaded.start_rev == 50
    assert replayed(copy).different == ()


@pytest.mark.anyio
async def test_past_fold_is_the_same_from_every_starting_point(tmp_path: Path) -> None:
    for name in ("one", "other"):
        async with opened(tmp_path / name, options=StoreOptions(snapshot_every=10)) as store:
            await store.append(made())
            for n in range(25):
                await store.append(status(n=n, of=name))
    with closing(database.open_for_reading(tmp_path / "other")) as log:
        foreign = [log_reader.load_log_at(log, rev) for rev in (5, 24)]
    with closing(database.open_for_reading(tmp_path / "one")) as log:
        alone = {rev: log_reader.load_log_at(log, rev) for rev in range(27)}
        for rev in (7, 3, 25, 0, 19, 26, 8):
            known = [*foreign, alone[2], alone[7], alone[18]]
            found = log_reader.load_log_at(log, rev, known)

            assert found.view.rev == rev
            assert found.view.everything() == alone[rev].view.everything()
            assert found.checksum == alone[rev].checksum
        assert alone[7].view.rev == 7  # What was known is not moved on.
        assert log_reader.load_log_at(log, 8, [alone[7]]).start_rev == 7


@pytest.mark.anyio
async def test_closing_leaves_one_database_file_and_no_tail(tmp_path: Path) -> None:
    async with opened(tmp_path, inline=False) as store:
        await store.append(made())
    assert _names(tmp_path) == {state_files.MIRROR, state_files.LOG}
    connection = database.open_for_reading(tmp_path)
    assert log_reader.load_log(connection).start_rev == 1
    connection.close()


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# The mirror.


async def mirrored(folder: Path, spoil: Callable[[Path], object]) -> list[int]:
    """The revisions in the mirror after it was spoilt and the store opened again."""
    async with opened(folder) as store:
        for n in range(5):
            await store.append(made(n=n))
        path = state_files.mirror_file(folder)
        whole = path.read_bytes()
    spoil(path)
    async with opened(folder) as store:
        assert path.read_bytes() == whole
        await store.append(made(n=9))
        return [canonical_json.decode(line)["rev"] for line in path.read_bytes().splitlines()]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: None,
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-7]),
        lambda path: path.write_bytes(path.read_bytes()[:30]),
        lambda path: path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2])),
        lambda path: path.write_bytes(path.read_bytes() + b'{"rev": 6, "half'),
        lambda path: path.write_bytes(b"not json\n"),
        lambda path: path.write_bytes(b"[1]\n"),
        lambda path: path.write_bytes(path.read_bytes().replace(b'"n":4', b'"n":5')),
    ],
    ids="whole gone empty torn nothing-whole behind torn-ahead no-json no-record changed".split(),
)
async def test_law_1_mirror_is_caught_up_or_rewritten(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    assert await mirrored(tmp_path, spoil) == [1, 2, 3, 4, 5, 6]


@pytest.mark.anyio
async def test_a_log_that_lost_its_end_is_not_continued(tmp_path: Path) -> None:
    async with opened(tmp_path / "live") as store:
        await store.append(made())
        shutil.copytree(tmp_path / "live", tmp_path / "old")
        await store.append(status(n=1))
    shutil.copy(state_files.mirror_file(tmp_path / "live"), tmp_path / "old")
    with pytest.raises(StoreCorrupt) as caught:
        async with opened(tmp_path / "old"):
            pass
    said(f"{caught.value} · {caught.value.hint}")
    assert caught.value.rev == 2
    state_files.mirror_file(tmp_path / "old").unlink()
    async with opened(tmp_path / "old") as store:
        assert store.view.rev == 1


@pytest.mark.anyio
async def test_a_mirror_that_cannot_be_written_does_not_stop_the_log(tmp_path: Path) -> None:
    state_files.mirror_file(tmp_path).mkdir()
    async with opened(tmp_path) as store:
        assert await store.append(made()) == 1


@pytest.mark.anyio
async def test_line_longer_than_one_read_is_found_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.append(made(text="x" * 200_000))
    async with opened(tmp_path) as store:
        await store.append(status(n=1))
    assert replayed(tmp_path).mirror_rev == 2


# Blobs.


@pytest.mark.anyio
async def test_a_large_blob_is_a_file_that_is_checked_when_read(tmp_path: Path) -> None:
    content = b"y" * (limits.BLOB_ROW_BYTES_MAX + 1)
    async with opened(tmp_path) as store:
        digest = store.put_blob(content)
        await store.append(RecordDraft("check.ran", "controller:task", "task/a", (), {}, (digest,)))
    path = database.blob_file(tmp_path, digest)
    assert path.read_bytes() == content
    path.write_bytes(b"other")
    with pytest.raises(StoreCorrupt) as caught:
        ReadOnlyStore(tmp_path).get_blob(digest)
    said(f"{caught.value} · {caught.value.hint}")
    async with opened(tmp_path) as store:
        assert store.put_blob(content) == digest
    assert ReadOnlyStore(tmp_path).get_blob(digest) == content


@pytest.mark.anyio
async def test_replay_names_the_objects_whose_snapshot_differs(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.append(made())
        await store.append(made("task/b"))
    with closing(database.open_for_writing(tmp_path, 1)) as connection:
        database.write_snapshot(connection, 2, {"task/a": None}, is_whole=True)
    assert replayed(tmp_path).different == ("task/a",)


@pytest.mark.anyio
async def test_an_open_store_reads_its_own_log_after_the_folder_was_moved_or_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    async with opened(folder) as store:
        rev = await store.append(made("plan/first"))
        folder.rename(tmp_path / "moved")
        moved = store.reader.last_rev()
        folder.mkdir()
        async with opened(folder) as other:
            await other.append(made("plan/other"))

            subjects = [entry.record.draft.subject for entry in store.reader.records(RecordQuery())]

        assert (moved, subjects) == (rev, ["plan/first"])


@pytest.mark.anyio
async def test_a_past_view_is_folded_once_and_then_kept(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.append(made())
        await store.append(status(n=2))

        assert store.reader.view_at(1) is store.reader.view_at(1)
        assert store.reader.view_at(2) is not store.reader.view_at(1)
