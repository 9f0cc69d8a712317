"""The SQLite store passes the contract as the product runs it, inline on asyncio, and inline on trio.

The snapshot is renewed every three records here, so that reopening meets every mixture of snapshot and tail.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

from planloop.reconciler.store.backend import ReadOnlyStore
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore, StoreOptions
from planloop.reconciler.store.store import Store
from tests.contracts.store_contract import StoreContract
from tests.product import SystemClock

OFTEN = StoreOptions(snapshot_every=3)


class TestAdaptive(StoreContract):
    def opened(self, folder: Path, *, read_only: bool = False) -> AbstractAsyncContextManager[Store]:
        if read_only:
            return nullcontext(ReadOnlyStore(folder))
        return SqliteStore.open(folder, clock=SystemClock(), epoch=1, options=OFTEN)


class TestInline(StoreContract):
    def opened(self, folder: Path, *, read_only: bool = False) -> AbstractAsyncContextManager[Store]:
        if read_only:
            return nullcontext(ReadOnlyStore(folder))
        return SqliteStore.open(folder, clock=SystemClock(), epoch=1, inline=True, options=OFTEN)


class TestInlineOnTrio(TestInline):
    backend = "trio"
