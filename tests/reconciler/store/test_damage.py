"""Byte flips and truncations of every file of a log: an opening names the damage, or gives the state that was there."""

from __future__ import annotations

import random  # noqa: TID251 - seeded by the number of the damage
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from planloop.reconciler.errors import StoreCorrupt, StoreFailed
from planloop.reconciler.store.backend import ReadOnlyStore
from planloop.reconciler.store.sqlite import database
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore, StoreOptions
from planloop.schemas import canonical_json, limits
from tests import sets
from tests.product import JsonObject, RecordDraft, SystemClock
from tests.reconciler.store.drafts import made, status

pytestmark = pytest.mark.anyio

LARGE: Final = b"large " * (limits.BLOB_ROW_BYTES_MAX // 6 + 1)
SMALL: Final = b"small " * 2_000
FILES: Final = ("log.db", "log.db-wal", "events.jsonl", "blob")
DAMAGES: Final = 36  # Of each file.


async def filled(folder: Path, *, is_killed: bool) -> None:
    """A log with a snapshot, a tail after it and two blobs; with a write-ahead log, as a killed owner leaves it."""
    live = folder.with_name(folder.name + "-live") if is_killed else folder
    options = StoreOptions(snapshot_every=40)
    async with SqliteStore.open(live, clock=SystemClock(), epoch=1, inline=True, options=options) as store:
        for n in range(12):
            await store.append(made(f"task/t{n}", goal=f"goal {n} " * 20))
        digests = (store.put_blob(LARGE), store.put_blob(SMALL))
        await store.append(RecordDraft("check.ran", "controller:task", "task/t0", (), {}, digests))
        for n in range(30):
            await store.append(status(f"task/t{n % 12}", n=n, text="x" * 200))
    async with SqliteStore.open(live, clock=SystemClock(), epoch=2, inline=True, options=options) as store:
        for n in range(30):
            await store.append(status(f"task/t{n % 12}", n=n, text="y" * 200))
        if is_killed:
            shutil.copytree(live, folder)


async def state(folder: Path, *, read_only: bool) -> tuple[list[JsonObject], list[bytes | None]]:
    """All objects and blobs, as an owner or a reader has them."""
    digests = [canonical_json.sha256_hex(content) for content in (LARGE, SMALL)]
    if read_only:
        reader = ReadOnlyStore(folder)
        return [one.to_json() for one in reader.view.everything()], [reader.get_blob(digest) for digest in digests]
    epoch = database.stored_epoch(folder) + 1
    async with SqliteStore.open(folder, clock=SystemClock(), epoch=epoch, inline=True) as store:
        return [one.to_json() for one in store.view.everything()], [store.get_blob(digest) for digest in digests]


def flipped(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def cut(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])


def emptied_page(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    at = chance.randrange(len(content)) // 512 * 512
    content[at : at + 512] = bytes(len(content[at : at + 512]))
    path.write_bytes(content)


def path_of(folder: Path, name: str) -> Path:
    if name == "blob":
        return database.blob_file(folder, canonical_json.sha256_hex(LARGE))
    return folder / name


def damages(name: str) -> Iterator[tuple[int, Callable[[Path, random.Random], None]]]:
    for number in sets.points(range(DAMAGES), 12, name):
        yield number, (flipped, flipped, cut, emptied_page)[number % 4]


@pytest.mark.sweep(keep=2)
@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize("name", FILES)
async def test_law_1_a_damaged_file_is_noticed_or_harmless(tmp_path: Path, name: str, is_killed: bool) -> None:
    whole = tmp_path / "whole"
    await filled(whole, is_killed=is_killed)
    if not path_of(whole, name).exists():
        assert (name, is_killed) == ("log.db-wal", False)
        return
    shutil.copytree(whole, tmp_path / "before")
    before = await state(tmp_path / "before", read_only=True)
    noticed = 0
    for number, damage in damages(name):
        for read_only in (True, False):
            folder = tmp_path / f"{number}-{read_only}"
            shutil.copytree(whole, folder)
            damage(path_of(folder, name), random.Random(f"{name} {number}"))
            try:
                after = await state(folder, read_only=read_only)
            except (StoreCorrupt, StoreFailed) as error:
                assert error.hint
                noticed += 1
            else:
                assert after == before, (number, damage.__name__, read_only)
            shutil.rmtree(folder)
    # The mirror is a copy: an owner repairs it, and a reader does not need it.
    assert (noticed == 0) == (name == "events.jsonl"), noticed
