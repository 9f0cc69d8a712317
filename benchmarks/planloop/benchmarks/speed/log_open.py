"""Time to verify a log when it is opened, against SHA-256 over the same rows.

`--records` and `--rounds` change the run. `python -m planloop.benchmarks.speed.log_open`.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import anyio

from planloop.reconciler.clock import SystemClock
from planloop.reconciler.store.sqlite import database, log_reader
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore
from planloop.schemas.log.record import Put, RecordDraft, SetStatus
from planloop.schemas.resource import Uid

RECORDS = (1_000, 50_000)
GOAL_US = 10.0  # Per record.
OBJECTS = 500
ROUNDS = 5
TEXT = "y" * 700  # Makes a record of about 1 kB, like those of tasks and turns.


async def fill(folder: Path, records: int) -> None:
    async with SqliteStore.open(folder, clock=SystemClock(), epoch=1) as store:
        for n in range(records):
            address = f"task/t{n % OBJECTS}"
            uid = Uid(f"u{n % OBJECTS}")
            change = Put(address, uid, {"goal": TEXT}) if n < OBJECTS else SetStatus(address, uid, {"n": n, "t": TEXT})
            rev = store.propose(RecordDraft("object.updated", "controller:task", address, (change,)))
            if n % 1_000 == 0:
                await store.flush(rev)


def digests(rows: list[bytes]) -> list[bytes]:
    return [hashlib.sha256(row).digest() for row in rows]


def median_ms(work: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="*", default=RECORDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args()
    for records in asked.records:
        with tempfile.TemporaryDirectory(prefix="opening-") as name:
            folder = Path(name)
            anyio.run(fill, folder, records)
            with closing(database.open_for_reading(folder)) as connection:
                rows = [body.encode() for (body,) in connection.execute("SELECT body FROM log ORDER BY rev")]
                floor = median_ms(partial(digests, rows), asked.rounds)
                ours = median_ms(partial(log_reader.verify_log, connection, folder), asked.rounds)
        each_us = ours * 1e3 / records
        verdict = "ok" if each_us <= GOAL_US else "OVER"
        print(
            f"{records:>7,} records: verified in {ours:7.1f} ms, {each_us:.1f} us each; floor {floor:.1f} ms  {verdict}"
        )


if __name__ == "__main__":
    main()
