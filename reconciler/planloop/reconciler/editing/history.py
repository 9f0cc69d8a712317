"""The plan's past, read from the log: its revisions, its document as of any of them, and why a field is what it is."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Final

from planloop.reconciler.admitting import ownership
from planloop.reconciler.admitting.ownership import Stamp
from planloop.reconciler.admitting.present import Present
from planloop.reconciler.storing.store import Store
from planloop.schemas import limits, patching, pointer, record
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.patch import Author, Patch
from planloop.schemas.patching import Op
from planloop.schemas.record import Draft, PatchSpec, Put, Record
from planloop.schemas.resource import Resource

REVISION_TYPES: Final = frozenset(
    {"plan.patched", "plan.refused", "plan.held", "plan.approved", "plan.rejected", "plan.forked"}
)
DOCUMENT_TYPES: Final = frozenset({"plan.patched", "plan.forked"})
"""Those that made a document; the others say why none was made."""
_PAGE: Final = 1_000  # Records read at once.


@frozen
class Revision:
    """One record about the plan document. `ops` are what it changed, or would have (refused, held)."""

    rev: int
    at: float
    type: str
    author: str
    reason: str
    cause: int | None
    ops: tuple[Op, ...]
    data: JsonObject

    def to_json(self) -> JsonObject:
        out: JsonObject = {"rev": self.rev, "at": self.at, "type": self.type, "author": self.author}
        out |= {"reason": self.reason, "cause": self.cause, "ops": [op.to_json() for op in self.ops]}
        return out | {"data": self.data}


@frozen
class Why:
    """Who set a path, when (`at`, seconds since 1970), and why; `over` is whose value it took the place of.

    `before` is that value, None when there was none (`had_before`).
    """

    path: tuple[str, ...]
    value: Json
    stamp: Stamp
    at: float
    reason: str
    had_before: bool
    before: Json = None
    over: Stamp | None = None


async def revisions(store: Store, plan: str, *, limit: int = limits.HISTORY_SHOWN_MAX) -> list[Revision]:
    """The newest `limit` revisions of the plan at address `plan`, oldest first."""
    found: deque[Revision] = deque(maxlen=limit)
    async for one in _records(store):
        if one.draft.type in REVISION_TYPES:
            found.append(revision(one, plan))
    return list(found)


async def plan_at(store: Store, plan: str, rev: int) -> Resource | None:
    """The plan object as of revision `rev`; None when it did not exist yet."""
    objects: dict[str, Resource] = {}
    async for one in _records(store):
        if one.rev > rev:
            break
        changes = tuple(change for change in one.draft.changes if change.address == plan)
        if changes:
            record.fold(objects, replace(one, draft=replace(one.draft, changes=changes)))
    return objects.get(plan)


async def why(store: Store, now: Present, path: Sequence[str]) -> Why | None:
    """Who set `path` last; None for a path that holds nothing. Raises `pointer.BadPointer` never."""
    stamp = ownership.last_change(now.stamps, path)
    if stamp is None or not pointer.has(now.document, path):
        return None
    (one,) = await store.log(stamp.rev - 1, 1)
    before = await plan_at(store, now.address, stamp.rev - 1)
    had_before = before is not None and pointer.has(before.spec, path)
    return Why(
        tuple(path),
        pointer.get(now.document, path),
        stamp,
        one.at,
        str(one.draft.data.get("reason", "")),
        had_before,
        pointer.get(before.spec, path) if before is not None and had_before else None,
        ownership.last_change(before.status.get("stamps", {}), path) if before is not None and had_before else None,
    )


def rollback_patch(now: Present, past: Resource, by: Author, reason: str) -> Patch:
    """The patch that brings back the document of `past`, and holds the file back until its content changes.

    The file applied at that time becomes the merge base again, so the next changed save is applied in full. A file that
    is still the one of that time needs no holding back.
    """
    ops = tuple(patching.difference(now.document, past.spec))
    then: JsonObject = past.status.get("file") or {}
    source: JsonObject | None = None
    if now.file:
        source = {"path": now.file["path"], "blob": then.get("blob"), "document": then.get("document")}
        source["held_back"] = now.file["blob"] if now.file["blob"] != then.get("blob") else None
    return Patch(by, ops, now.rev, reason or f"back to revision {past.rev}", source)


async def _records(store: Store) -> AsyncIterator[Record]:
    after = 0
    while page := await store.log(after, _PAGE):
        for one in page:
            yield one
        after = page[-1].rev


def revision(one: Record, plan: str) -> Revision:
    """A record about the document of the plan at address `plan`."""
    draft = one.draft
    reason = str(draft.data.get("reason", ""))
    return Revision(one.rev, one.at, draft.type, draft.actor, reason, draft.cause, _ops(draft, plan), draft.data)


def _ops(draft: Draft, plan: str) -> tuple[Op, ...]:
    for change in draft.changes:
        if isinstance(change, PatchSpec) and change.address == plan:
            return change.ops
        if isinstance(change, Put) and change.address == plan:
            return tuple(patching.difference({}, change.spec))
        if isinstance(change, Put) and change.spec.get("kind") == "patch":
            return _parsed(change.spec["what"]["ops"])
    return _parsed(draft.data.get("ops", []))


def _parsed(ops: list[JsonObject]) -> tuple[Op, ...]:
    return tuple(patching.op_from_json(index, op) for index, op in enumerate(ops))
