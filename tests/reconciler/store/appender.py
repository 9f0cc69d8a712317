"""A process that appends until it is killed or fails, and says what was acknowledged: one line a revision.

Run as `python -m tests.reconciler.store.appender FOLDER EPOCH SIZE_BYTES FILE_BYTES_MAX` (0: no bound); the last line
of one that failed is JSON.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

import anyio

from planloop.reconciler.errors import StoreFailed
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore, StoreOptions
from tests.product import RecordDraft, SetStatus, SystemClock, Uid
from tests.reconciler.store.drafts import made

WRITERS = 8


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


async def write(store: SqliteStore, name: str, text: str) -> None:
    await store.append(made(f"task/{name}"))
    n = 0
    while True:
        n += 1
        blob = store.put_blob(f"{name} {n} {text}".encode())
        change = SetStatus(f"task/{name}", Uid("u1"), {"n": n, "text": text})
        rev = await store.append(RecordDraft("check.ran", "controller:task", f"task/{name}", (change,), {}, (blob,)))
        say(str(rev))


async def main(folder: str, epoch: str, size: str) -> None:
    options = StoreOptions(snapshot_every=20)
    async with SqliteStore.open(Path(folder), clock=SystemClock(), epoch=int(epoch), options=options) as store:
        try:
            async with anyio.create_task_group() as group:
                for n in range(WRITERS):
                    group.start_soon(write, store, f"w{n}", "x" * int(size))
        except* StoreFailed as failures:
            first = failures.exceptions[0]
            assert isinstance(first, StoreFailed)
            say(json.dumps({"error": str(first), "hint": first.hint, "later": _later(store)}))


def _later(store: SqliteStore) -> str:
    """What a proposal after the failure gets."""
    try:
        store.propose(made("task/later"))
    except StoreFailed as error:
        return str(error)
    return "accepted"


if __name__ == "__main__":
    if file_bytes_max := int(sys.argv[4]):
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
