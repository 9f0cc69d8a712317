"""Kill -9, full disks, read-only folders, damage: what was acknowledged is there, and what is wrong is named."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from planloop.reconciler.errors import StoreCorrupt, StoreFailed
from planloop.reconciler.store import backend, state_files
from planloop.reconciler.store.backend import ReadOnlyStore
from planloop.reconciler.store.log_reader import ReplayResult
from planloop.reconciler.store.sqlite import database
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore, StoreOptions
from tests import golden_text, needs, rows, sets
from tests.product import JsonObject, SystemClock
from tests.reconciler.store.drafts import made, status
from tests.rights import without_rights

ROOT = Path(__file__).parents[3]


def appender(folder: Path, epoch: int, size: int, file_bytes_max: int | None = None) -> subprocess.Popen[str]:
    arguments = [str(folder), str(epoch), str(size), str(file_bytes_max or 0)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.reconciler.store.appender", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def killed_after(folder: Path, epoch: int, acknowledged: int) -> list[int]:
    """The revisions that a process acknowledged before it was killed, with a minimum."""
    with appender(folder, epoch, size=50) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(acknowledged)]
        process.kill()
        lines += process.stdout.readlines()
    return [int(line) for line in lines if line.endswith("\n")]


def failed(folder: Path, size: int, file_bytes_max: int | None = None) -> tuple[list[int], JsonObject]:
    """What a process acknowledged before its store failed, and what it said then."""
    with appender(folder, 1, size, file_bytes_max) as process:
        assert process.stdout is not None
        *acknowledged, last = process.stdout.readlines()
    assert process.returncode == 0
    return [int(line) for line in acknowledged], json.loads(last)


async def revisions(folder: Path, epoch: int = 99) -> list[int]:
    async with SqliteStore.open(folder, clock=SystemClock(), epoch=epoch, inline=True) as store:
        records = await store.log(0, 1_000_000)
        for record in records:
            assert all(store.get_blob(blob) is not None for blob in record.draft.blobs)
        return [record.rev for record in records]


def _replayed(folder: Path) -> ReplayResult:
    with backend.open_log(folder) as log:
        return log.replay()


async def check_kills(folder: Path, counts: list[int]) -> None:
    acknowledged: set[int] = set()
    for epoch, count in enumerate(counts, start=1):
        new = killed_after(folder, epoch, count)
        assert len(new) >= count
        assert acknowledged.isdisjoint(new)
        acknowledged.update(new)
    found = await revisions(folder)
    assert acknowledged <= set(found)
    assert found == list(range(1, len(found) + 1))
    replay = _replayed(folder)
    assert replay.different == ()
    assert replay.rev == replay.mirror_rev == len(found)


@pytest.mark.anyio
@pytest.mark.process
async def test_law_1_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    await check_kills(tmp_path, [1, 60, 133])


@pytest.mark.anyio
@pytest.mark.process
@pytest.mark.timeout(240)
async def test_law_1_acknowledged_appends_survive_many_kills(tmp_path: Path) -> None:
    await check_kills(tmp_path, sets.points([1 + 37 * n % 211 for n in range(40)], 5, "store kills"))


@pytest.mark.anyio
async def test_a_file_that_may_not_grow_fails_every_writer_and_loses_nothing(tmp_path: Path) -> None:
    acknowledged, said = failed(tmp_path, size=2_000, file_bytes_max=1 << 20)
    assert acknowledged
    assert str(tmp_path) in said["error"]
    assert "plan apply" in said["hint"]
    assert said["later"] == said["error"]
    found = await revisions(tmp_path)
    assert set(acknowledged) <= set(found)
    assert _replayed(tmp_path).different == ()


def _mount(*arguments: str) -> int:
    return subprocess.run(["mount", *arguments], check=False, capture_output=True).returncode


def _fill(disk: Path) -> None:
    with suppress(OSError), (disk / "ballast").open("wb", buffering=0) as ballast:
        while True:
            ballast.write(b"x" * 4096)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    needs.small_disk(folder, "2m")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.anyio
async def test_full_disk_fails_every_writer_with_a_fix_and_loses_nothing(small_disk: Path) -> None:
    acknowledged, said = failed(small_disk, size=2_000)
    assert acknowledged
    golden_text.said(said["hint"])
    assert said["later"] == said["error"]
    assert set(acknowledged) <= {record.rev for record in await ReadOnlyStore(small_disk).log(0, 1_000_000)}
    copy = small_disk.parent / "copy"
    shutil.copytree(small_disk, copy)
    found = await revisions(copy)
    assert set(acknowledged) <= set(found)
    assert _replayed(copy).different == ()


@pytest.mark.anyio
async def test_a_full_disk_at_the_first_opening_is_named(small_disk: Path) -> None:
    _fill(small_disk)
    with pytest.raises(StoreFailed) as caught:
        async with SqliteStore.open(small_disk / "plan", clock=SystemClock(), epoch=1, inline=True):
            pass
    assert "disk space" in caught.value.hint


@pytest.mark.anyio
async def test_a_folder_that_cannot_be_written_is_named_and_can_still_be_read(small_disk: Path) -> None:
    async with SqliteStore.open(small_disk, clock=SystemClock(), epoch=1, inline=True) as store:
        await store.append(made(goal="x"))
    assert _mount("-o", "remount,ro", str(small_disk)) == 0
    with pytest.raises(StoreFailed) as caught:
        async with SqliteStore.open(small_disk, clock=SystemClock(), epoch=2, inline=True):
            pass
    assert "writable" in caught.value.hint
    assert ReadOnlyStore(small_disk).view.get("task/a") is not None


@pytest.fixture
def closed_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that this user may read but not write."""
    tmp_path.chmod(0o500)
    with without_rights():
        yield tmp_path
    tmp_path.chmod(0o700)


@pytest.mark.anyio
async def test_a_folder_without_write_permission_is_named(closed_folder: Path) -> None:
    with pytest.raises(StoreFailed) as caught:
        async with SqliteStore.open(closed_folder / "plan", clock=SystemClock(), epoch=1, inline=True):
            pass
    assert "writable" in caught.value.hint


def test_reading_where_nothing_was_applied_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="no log") as caught, backend.open_log(tmp_path) as log:
        log.load()
    assert "plan apply" in caught.value.hint


@pytest.mark.anyio
async def test_law_7_an_owner_that_was_replaced_can_write_no_more(tmp_path: Path) -> None:
    async with SqliteStore.open(tmp_path, clock=SystemClock(), epoch=1, inline=True) as old:
        await old.append(made())
        async with SqliteStore.open(tmp_path, clock=SystemClock(), epoch=2, inline=True) as new:
            with pytest.raises(StoreFailed, match="epoch 2 owns"):
                await old.append(status(state="late"))
            with pytest.raises(StoreFailed):
                old.propose(status(state="later"))
            assert await new.append(status(state="done")) == 2
    with pytest.raises(StoreFailed, match="epoch 2 owns"):
        async with SqliteStore.open(tmp_path, clock=SystemClock(), epoch=1, inline=True):
            pass
    assert [one.state for one in ReadOnlyStore(tmp_path).view.list("task")] == ["done"]


@pytest.mark.anyio
async def test_law_1_nothing_is_acknowledged_into_a_removed_log(tmp_path: Path) -> None:
    async with SqliteStore.open(tmp_path / "p", clock=SystemClock(), epoch=1, inline=True) as store:
        await store.append(made())
        (tmp_path / "p").rename(tmp_path / "elsewhere")
        with pytest.raises(StoreFailed) as caught:
            await store.append(status(state="late"))
        golden_text.said(str(caught.value))
    assert await revisions(tmp_path / "elsewhere") == [1]


async def _filled(folder: Path, count: int = 10) -> None:
    options = StoreOptions(snapshot_every=1_000)
    async with SqliteStore.open(folder, clock=SystemClock(), epoch=1, inline=True, options=options) as store:
        await store.append(made())
        for n in range(1, count):
            await store.append(status(n=n))


async def _opened(folder: Path, epoch: int, *, read_only: bool) -> None:
    if read_only:
        ReadOnlyStore(folder)
        return
    async with SqliteStore.open(folder, clock=SystemClock(), epoch=epoch, inline=True):
        pass


def _execute(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(state_files.log_file(folder))
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("statement", "rev"),
    [
        ("UPDATE log SET body = replace(body, '\"n\":4', '\"n\":5') WHERE rev = 5", 5),
        ("UPDATE log SET checksum = zeroblob(32) WHERE rev = 3", 3),
        ("UPDATE log SET subject = 'task/b' WHERE rev = 6", 6),
        ("DELETE FROM log WHERE rev = 7", 7),
        ("DELETE FROM log WHERE rev = 1", 1),
        ("DELETE FROM log WHERE rev > 8", 9),
    ],
)
async def test_damage_is_found_at_its_first_revision(tmp_path: Path, statement: str, rev: int) -> None:
    await _filled(tmp_path)
    _execute(tmp_path, statement)
    with pytest.raises(StoreCorrupt) as caught:
        _replayed(tmp_path)
    assert caught.value.rev == rev
    state_files.mirror_file(tmp_path).unlink()
    # Without the snapshot the owner reads it all and finds the same, unless the snapshot was all that knew.
    _execute(tmp_path, "DELETE FROM objects")
    if rev != 9:
        with pytest.raises(StoreCorrupt) as caught:
            await revisions(tmp_path)
        assert caught.value.rev == rev


@pytest.mark.anyio
@pytest.mark.parametrize("read_only", [False, True], ids=["owner", "reader"])
async def test_law_1_record_damaged_behind_the_snapshot_is_found_at_opening(tmp_path: Path, read_only: bool) -> None:
    await _filled(tmp_path)
    _execute(tmp_path, "UPDATE log SET body = replace(body, '\"n\":4', '\"n\":5') WHERE rev = 5")
    with pytest.raises(StoreCorrupt) as caught:
        await _opened(tmp_path, epoch=2, read_only=read_only)
    assert caught.value.rev == 5
    assert "plan fork --at 4" in caught.value.hint


@pytest.mark.anyio
async def test_law_1_a_snapshot_can_be_thrown_away(tmp_path: Path) -> None:
    await _filled(tmp_path)
    for statement in ("DELETE FROM objects", "UPDATE objects SET body = '{'", "DELETE FROM meta WHERE key > 'm'"):
        _execute(tmp_path, statement)
        async with SqliteStore.open(tmp_path, clock=SystemClock(), epoch=1, inline=True) as store:
            [task] = store.view.list("task")
            assert (task.status, task.rev) == ({"n": 9}, 10)
        assert _replayed(tmp_path).different == ()


@pytest.mark.anyio
@rows.each(
    "statement",
    [
        "UPDATE objects SET body = replace(body, '\"n\":9', '\"n\":8')",
        "UPDATE objects SET body = CAST(body AS BLOB)",
        "UPDATE objects SET address = 'task/b'",
        "UPDATE meta SET value = 9 WHERE key = 'snapshot_rev'",
        "UPDATE meta SET value = 'x' WHERE key = 'snapshot_rev'",
        "UPDATE meta SET value = 'x' WHERE key = 'snapshot_sum'",
        "UPDATE meta SET value = '1' WHERE key = 'snapshot_sum'",
    ],
)
async def test_law_1_a_snapshot_that_does_not_verify_is_ignored_and_written_again(
    tmp_path: Path, statement: str
) -> None:
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    await _filled(folder)
    _execute(folder, statement)
    async with SqliteStore.open(folder, clock=SystemClock(), epoch=1, inline=True) as store:
        [task] = store.view.list("task")
        assert (task.status, task.rev) == ({"n": 9}, 10)
        await store.append(status(n=10))
    with closing(database.open_for_reading(folder)) as connection:
        view, rev = database.load_snapshot(connection)
    assert (rev, view.list("task")[0].status) == (11, {"n": 10})


@pytest.mark.anyio
async def test_snapshot_of_an_older_version_without_a_sum_is_read_and_gets_one(tmp_path: Path) -> None:
    await _filled(tmp_path)
    _execute(tmp_path, "DELETE FROM meta WHERE key = 'snapshot_sum'")
    with closing(database.open_for_reading(tmp_path)) as connection:
        assert database.load_snapshot(connection)[1] == 10
    async with SqliteStore.open(tmp_path, clock=SystemClock(), epoch=1, inline=True) as store:
        await store.append(status(n=10))
    with closing(database.open_for_reading(tmp_path)) as connection:
        assert database.has_snapshot_sum(connection)
        assert database.load_snapshot(connection)[1] == 11


@pytest.mark.anyio
@pytest.mark.parametrize("content", [b"", b"hello", b"\0" * 8192])
async def test_log_that_is_not_a_database_is_named(tmp_path: Path, content: bytes) -> None:
    await _filled(tmp_path)
    state_files.log_file(tmp_path).write_bytes(content)
    with pytest.raises(StoreCorrupt):
        await revisions(tmp_path)


@pytest.mark.anyio
async def test_a_database_cut_short_is_named(tmp_path: Path) -> None:
    await _filled(tmp_path, count=300)
    path = state_files.log_file(tmp_path)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(StoreCorrupt):
        await revisions(tmp_path)


@pytest.mark.anyio
async def test_a_log_of_a_newer_version_is_not_touched(tmp_path: Path) -> None:
    await _filled(tmp_path)
    _execute(tmp_path, "UPDATE meta SET value = 2 WHERE key = 'version'")
    for read_only in (False, True):
        with pytest.raises(StoreFailed, match="newer version"):
            await _opened(tmp_path, epoch=5, read_only=read_only)
    assert database.SCHEMA_VERSION == 1
