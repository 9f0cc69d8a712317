"""The plan's history: its revisions, its document at a revision, and the author of a field."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Final

from planloop.reconciler.admission import field_ownership
from planloop.reconciler.admission.field_ownership import FieldStamp
from planloop.reconciler.current_plan import CurrentPlan
from planloop.reconciler.store.store import Store
from planloop.schemas import json_patch, json_pointer, limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import PatchOp
from planloop.schemas.log import record
from planloop.schemas.log.patch import Author, Patch
from planloop.schemas.log.record import PatchSpec, Put, Record, RecordDraft
from planloop.schemas.resource import Resource

REVISION_TYPES: Final = frozenset(
    {"plan.patched", "plan.refused", "plan.held", "plan.approved", "plan.rejected", "plan.forked"}
)
DOCUMENT_TYPES: Final = frozenset({"plan.patched", "plan.forked"})
"""Record types that created a document. Other types give the reason why none was created."""
_PAGE: Final = 1_000  # Records per read.


@frozen
class DocumentRevision:
    """One record about the plan document. `ops` are its changes, also of a rejected or held patch."""

    rev: int
    at: float
    type: str
    author: str
    reason: str
    cause: int | None
    ops: tuple[PatchOp, ...]
    data: JsonObject

    def to_json(self) -> JsonObject:
        out: JsonObject = {"rev": self.rev, "at": self.at, "type": self.type, "author": self.author}
        out |= {"reason": self.reason, "cause": self.cause, "ops": [op.to_json() for op in self.ops]}
        return out | {"data": self.data}


@frozen
class FieldOrigin:
    """Who set a path, when (`at`, seconds since 1970), and why. `over` is the author of the replaced value.

    `before` is the replaced value, None without one (`had_before`).
    """

    path: tuple[str, ...]
    value: Json
    stamp: FieldStamp
    at: float
    reason: str
    had_before: bool
    before: Json = None
    over: FieldStamp | None = None


async def plan_revisions(store: Store, plan: str, *, limit: int = limits.HISTORY_SHOWN_MAX) -> list[DocumentRevision]:
    """Return the newest `limit` revisions of the plan at address `plan`, oldest first."""
    found: deque[DocumentRevision] = deque(maxlen=limit)
    async for one in _records(store):
        if one.draft.type in REVISION_TYPES:
            found.append(revision_of(one, plan))
    return list(found)


async def plan_at(store: Store, plan: str, rev: int) -> Resource | None:
    """Return the plan object as of revision `rev`; None if it did not exist yet."""
    objects: dict[str, Resource] = {}
    async for one in _records(store):
        if one.rev > rev:
            break
        changes = tuple(change for change in one.draft.changes if change.address == plan)
        if changes:
            record.fold_record(objects, replace(one, draft=replace(one.draft, changes=changes)))
    return objects.get(plan)


async def field_origin(store: Store, now: CurrentPlan, path: Sequence[str]) -> FieldOrigin | None:
    """Return who set `path` last; None if the path has no value."""
    stamp = field_ownership.last_change(now.stamps, path)
    if stamp is None or not json_pointer.has_value(now.document, path):
        return None
    (one,) = await store.log(stamp.rev - 1, 1)
    before = await plan_at(store, now.address, stamp.rev - 1)
    had_before = before is not None and json_pointer.has_value(before.spec, path)
    return FieldOrigin(
        tuple(path),
        json_pointer.value_at(now.document, path),
        stamp,
        one.at,
        str(one.draft.data.get("reason", "")),
        had_before,
        json_pointer.value_at(before.spec, path) if before is not None and had_before else None,
        field_ownership.last_change(before.status.get("stamps", {}), path)
        if before is not None and had_before
        else None,
    )


def rollback_patch(now: CurrentPlan, past: Resource, by: Author, reason: str) -> Patch:
    """Return the patch that restores the document of `past`, and holds the file back until its content changes.

    The file applied at that time becomes the merge base again, so the next changed save is applied in full. If the file
    has not changed since that time, it is not held back.
    """
    ops = tuple(json_patch.diff_values(now.document, past.spec))
    then: JsonObject = past.status.get("file") or {}
    source: JsonObject | None = None
    if now.file:
        source = {"path": now.file["path"], "blob": then.get("blob"), "document": then.get("document")}
        source["held_back"] = now.file["blob"] if now.file["blob"] != then.get("blob") else None
    return Patch(by, ops, now.rev, reason or f"restore revision {past.rev}", source)


async def _records(store: Store) -> AsyncIterator[Record]:
    after = 0
    while page := await store.log(after, _PAGE):
        for one in page:
            yield one
        after = page[-1].rev


def revision_of(one: Record, plan: str) -> DocumentRevision:
    """Convert a record about the document of the plan at address `plan`."""
    draft = one.draft
    reason = str(draft.data.get("reason", ""))
    return DocumentRevision(
        one.rev, one.at, draft.type, draft.actor, reason, draft.cause, _ops(draft, plan), draft.data
    )


def _ops(draft: RecordDraft, plan: str) -> tuple[PatchOp, ...]:
    for change in draft.changes:
        if isinstance(change, PatchSpec) and change.address == plan:
            return change.ops
        if isinstance(change, Put) and change.address == plan:
            return tuple(json_patch.diff_values({}, change.spec))
        if isinstance(change, Put) and change.spec.get("kind") == "patch":
            return _parsed(change.spec["what"]["ops"])
    return _parsed(draft.data.get("ops", []))


def _parsed(ops: list[JsonObject]) -> tuple[PatchOp, ...]:
    return tuple(json_patch.op_from_json(index, op) for index, op in enumerate(ops))
