"""The ports of the store: one log per plan, and the view that is its fold.

A write has two steps: `propose` gives it a revision and folds it into the view immediately, `flush` waits until it is
durable. A revision that is not flushed must not be shown outside, and no effect may follow it. `append` does both.
Queries of stored records are `planloop.reconciler.store.log_reader`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from planloop.reconciler.errors import StoreCorrupt
from planloop.schemas.log.record import Record, RecordDraft
from planloop.schemas.resource import Resource


class View(Protocol):
    """The objects as of `rev`. Reads are plain memory look-ups; results are frozen."""

    @property
    def rev(self) -> int: ...

    def get(self, address: str, /) -> Resource | None: ...

    def list(self, kind: str) -> Sequence[Resource]:
        """All objects of a kind, by address."""
        ...

    def owned_by(self, address: str) -> Sequence[Resource]:
        """The objects whose `owner` is `address`, by address."""
        ...

    def referrers(self, address: str) -> Iterable[str]:
        """The addresses whose `refs` name `address`."""
        ...


class Store(Protocol):
    """One plan's log. `planloop.reconciler.store.owner_lock` ensures that only one process writes it."""

    @property
    def view(self) -> View: ...

    @property
    def durable_rev(self) -> int:
        """The last revision that survives a power cut."""
        ...

    def propose(self, draft: RecordDraft, expect: Mapping[str, int | None] | None = None) -> int:
        """Give `draft` the next revision, fold it and queue it for the next flush; returns the revision.

        `expect` maps addresses to the `rev` that the writer has read (None: there was no such object); raises
        `errors.WriteConflict` naming the first that changed. Raises `errors.StoreFailed` after any flush has failed:
        the view then holds records that were never stored, and only a restart helps.
        """
        ...

    async def flush(self, rev: int) -> None:
        """Return when `rev` is durable. Many callers share one flush. Raises `errors.StoreFailed`."""
        ...

    async def append(self, draft: RecordDraft, expect: Mapping[str, int | None] | None = None) -> int:
        """`propose`, then `flush`."""
        ...

    async def log(self, after: int, limit: int) -> list[Record]:
        """Durable records with a revision over `after`, oldest first, at most `limit`."""
        ...

    def watch(self, after: int) -> AsyncIterator[Record]:
        """Every durable record over `after`, once and in order, as it is written; ends when the store closes."""
        ...

    def on_change(self, listener: Callable[[Record, Sequence[str]], None]) -> None:
        """Call `listener` synchronously after each fold with the record and the addresses that changed."""
        ...

    def put_blob(self, content: bytes) -> str:
        """Store `content` by its digest, durable no later than the next flush; returns the digest."""
        ...

    def get_blob(self, digest: str) -> bytes | None: ...


ReadBlob: TypeAlias = Callable[[str], bytes | None]
"""The blob with a digest, as `Store.get_blob`; None if the store does not have it."""


def require_blob(store: Store, digest: str) -> bytes:
    """The blob that the log names. Raises `errors.StoreCorrupt` if it is missing or damaged."""
    content = store.get_blob(digest)
    if content is None:
        raise StoreCorrupt(0, f"the blob {digest}, which the log names, is missing")
    return content
