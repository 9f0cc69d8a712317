"""Durable appends with one writer that waits for each and with many writers; and the fastest place for blobs.

Floors, taken alternately in every round: a line appended to a file and `fdatasync`, and one row in SQLite (WAL,
synchronous=FULL), one and a hundred per commit. Figures are medians over the rounds. `--folder` picks the disk.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

from planloop.reconciler.clock import SystemClock
from planloop.reconciler.store.sqlite import database
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore
from planloop.schemas import canonical_json
from planloop.schemas.log.record import Put, RecordDraft, SetStatus
from planloop.schemas.resource import Uid

ROUNDS = 7
SINGLY = 1_000  # Appends of one writer per round.
LOAD = 20_000  # Appends of all writers per round.
GROUP = 100  # Rows per commit of the floors under load.
LINE = b"x" * 220  # The size of a record of `status` below.
BLOB_SIZES = (1 << 10, 8 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20)


@contextmanager
def scratch(root: Path | None) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="appends-", dir=root))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def per_second(count: int, work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return count / (time.perf_counter() - start)


def file_floor(folder: Path, count: int, group: int) -> float:
    handle = os.open(folder / "floor", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def work() -> None:
        for _ in range(count // group):
            os.write(handle, LINE * group)
            os.fdatasync(handle)

    try:
        return per_second(count, work)
    finally:
        os.close(handle)


def sqlite_floor(folder: Path, count: int, group: int) -> float:
    connection = sqlite3.connect(folder / "floor.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE log (rev INTEGER PRIMARY KEY, body TEXT)")
    rows = [(LINE.decode(),)] * group

    def work() -> None:
        for _ in range(count // group):
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO log (body) VALUES (?)", rows)
            connection.execute("COMMIT")

    try:
        return per_second(count, work)
    finally:
        connection.close()


def status(agent: int, n: int) -> RecordDraft:
    merge = {"state": "running", "turn": n, "cursor": n * 7}
    change = SetStatus(f"agent/a{agent}", Uid(f"u{agent}"), merge)
    return RecordDraft("turn.ended", f"agent:a{agent}", f"agent/a{agent}", (change,))


async def ours(folder: Path, writers: int, count: int, *, inline: bool = False) -> tuple[float, float]:
    """Appends per second, and microseconds of processor time per append."""
    async with SqliteStore.open(folder / "plan", clock=SystemClock(), epoch=1, inline=inline) as store:
        puts = tuple(Put(f"agent/a{n}", Uid(f"u{n}"), {"model": "m"}) for n in range(100))
        await store.append(RecordDraft("plan.patched", "human:file", "plan/p", puts))

        async def write(agent: int) -> None:
            for n in range(count // writers):
                await store.append(status(agent, n))

        start, cpu = time.perf_counter(), time.process_time()
        async with anyio.create_task_group() as group:
            for agent in range(writers):
                group.start_soon(write, agent % 100)
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    return count / wall, cpu / count * 1e6


async def ours_inline(folder: Path, count: int) -> float:
    return (await ours(folder, 1, count, inline=True))[0]


def measure(root: Path | None) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}

    def note(name: str, figure: float) -> None:
        found.setdefault(name, []).append(figure)

    for _ in range(ROUNDS):
        for name, floor in (("file", file_floor), ("sqlite", sqlite_floor)):
            for suffix, count, group in (("1", SINGLY, 1), ("n", LOAD, GROUP)):
                with scratch(root) as folder:
                    note(name + suffix, floor(folder, count, group))
        for name, writers, count in (("ours1", 1, SINGLY), ("ours100", 100, LOAD), ("ours1000", 1_000, LOAD)):
            with scratch(root) as folder:
                rate, cpu = anyio.run(ours, folder, writers, count)
                note(name, rate)
                note(f"{name} cpu", cpu)
        with scratch(root) as folder:
            note("inline1", anyio.run(ours_inline, folder, SINGLY))
    return found


def blob_rates(root: Path | None, size: int) -> tuple[float, float]:
    """Blobs per second, each durable before the next: as a row, and as a file."""
    count = max(10, min(200, (8 << 20) // size))
    contents = [os.urandom(size) for _ in range(count)]
    digests = [canonical_json.sha256_hex(content) for content in contents]
    with scratch(root) as folder:
        connection = database.open_for_writing(folder, 1)

        def rows() -> None:
            for digest, content in zip(digests, contents, strict=True):
                connection.execute("BEGIN IMMEDIATE")
                database.write_blob_row(connection, digest, content)
                connection.execute("COMMIT")

        def files() -> None:
            for digest, content in zip(digests, contents, strict=True):
                database.write_blob_file(folder, digest, content)

        as_rows, as_files = per_second(count, rows), per_second(count, files)
        connection.close()
    return as_rows, as_files


def report(found: dict[str, list[float]]) -> None:
    median = {name: statistics.median(figures) for name, figures in found.items()}
    print(f"{'':34}{'per second':>11}{'× file':>9}{'× SQLite':>10}{'CPU µs':>8}")
    for title, name, floor in (
        ("one writer: append + fdatasync", "file1", "1"),
        ("one writer: SQLite row", "sqlite1", "1"),
        ("one writer: store", "ours1", "1"),
        ("one writer: store, without a thread", "inline1", "1"),
        ("100 per commit: append + fdatasync", "filen", "n"),
        ("100 per commit: SQLite rows", "sqliten", "n"),
        ("100 writers: store", "ours100", "n"),
        ("1,000 writers: store", "ours1000", "n"),
    ):
        rate, cpu = median[name], median.get(f"{name} cpu")
        ratios = f"{rate / median['file' + floor]:>9.2f}{rate / median['sqlite' + floor]:>10.2f}"
        print(f"{title:34}{rate:>11,.0f}{ratios}{'' if cpu is None else f'{cpu:>8.1f}'}")
    print(f"goals: one writer 5,000 (here {median['ours1']:,.0f}), under load 50,000 (here {median['ours1000']:,.0f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="where to write; the default is the system's temporary folder")
    root = parser.parse_args().folder
    report(measure(root))
    print(f"\n{'one blob, durable':34}{'row':>10}{'file':>9}   per second")
    for size in BLOB_SIZES:
        as_rows, as_files = blob_rates(root, size)
        print(f"{size >> 10:>30,} KB {as_rows:>10,.0f}{as_files:>9,.0f}")


if __name__ == "__main__":
    main()
