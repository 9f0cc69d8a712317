"""The ports of the store: one log a plan, and the view that is its fold.

Two steps make a write: `propose` gives it a revision and folds it into the view at once, `flush` waits until it is
durable. Nothing outside may see, and no effect may follow, a revision that is not flushed; `append` does both.
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
    """One plan's log. One process writes; see `planloop.reconciler.store.owner_lock` for how that is held."""

    @property
    def view(self) -> View: ...

    @property
    def durable_rev(self) -> int:
        """The last revision that survives a power cut."""
        ...

    def propose(self, draft: RecordDraft, expect: Mapping[str, int | None] | None = None) -> int:
        """Gives `draft` the next revision, folds it, queues it for the next flush; returns the revision.

        `expect` maps addresses to the `rev` that the writer had read (None: it had read that there was no such
        object); raises `errors.WriteConflict` naming the first that moved. Raises `errors.StoreFailed` once any flush
        has failed: the view then holds what was never stored, and only a restart helps.
        """
        ...

    async def flush(self, rev: int) -> None:
        """Returns when `rev` is durable. Many waiters share one flush. Raises `errors.StoreFailed`."""
        ...

    async def append(self, draft: RecordDraft, expect: Mapping[str, int | None] | None = None) -> int:
        """`propose`, then `flush`."""
        ...

    async def log(self, after: int, limit: int) -> list[Record]:
        """Durable records with a revision over `after`, oldest first, at most `limit`."""
        ...

    def watch(self, after: int) -> AsyncIterator[Record]:
        """Every durable record over `after`, once, in order, without end. Never skips; ends with the store."""
        ...

    def on_change(self, listener: Callable[[Record, Sequence[str]], None]) -> None:
        """Calls `listener` synchronously after each fold with the record and the addresses that changed."""
        ...

    def put_blob(self, content: bytes) -> str:
        """Stores `content` by its digest, durable no later than the next flush; returns the digest."""
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
