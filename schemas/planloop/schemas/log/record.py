"""Log records (one append, one transaction, one revision) and the fold of their changes into objects.

The fold knows no kind. `type` and `data` are for readers, from a closed vocabulary; `changes` alone make state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import field
from typing import Final, TypeAlias, assert_never

from planloop.schemas import json_patch
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.resource import Resource, Uid

RECORD_VERSION: Final = 1

RECORD_TYPES: Final = frozenset(
    "plan.patched plan.refused plan.held plan.approved plan.rejected plan.condition plan.stopped plan.forked "
    "object.created object.updated object.deleted "
    "session.moved "
    "agent.woken agent.slept agent.parked agent.ended agent.escalated "
    "seat.taken seat.renewed seat.leaving seat.left seat.refused "
    "turn.started model.requested model.failed model.replied turn.ended "
    "call.proposed call.withdrawn call.authorized call.started call.waiting call.progressed call.settled "
    "call.reconciled "
    "message.sent message.delivered message.read "
    "conflict.opened conflict.raised conflict.ruled conflict.closed "
    "lock.requested lock.granted lock.renewed lock.released lock.fenced lock.deadlock "
    "budget.reserved budget.settled budget.refunded hook.fired hook.changed check.ran container.observed "
    "server.started server.ready server.changed server.ended "
    "fork.making fork.ready fork.merging fork.merged fork.conflict fork.writing fork.brought fork.kept fork.cleared "
    "fork.failed "
    "timer.set timer.fired epoch.taken context.compacted task.changed case.ended".split()
)


@frozen
class Put:
    """Creates the object, or replaces its spec and raises its generation. A new uid means a new object.

    `status` is merged into that of the object, which is empty for a new one.
    """

    address: str
    uid: Uid
    spec: JsonObject
    refs: tuple[str, ...] = ()
    owner: str | None = None
    finalizers: tuple[str, ...] = ()
    status: JsonObject = field(default_factory=dict)


@frozen
class PatchSpec:
    """Changes part of a large spec (the plan document) and raises its generation."""

    address: str
    ops: tuple[json_patch.PatchOp, ...]


@frozen
class SetStatus:
    """RFC 7386 merge into the status. `uid` fences: a status of an older object is dropped by the fold."""

    address: str
    uid: Uid
    merge: JsonObject


@frozen
class Mark:
    """Says that the object is to go, or which finalizers are left. None leaves a member as it is."""

    address: str
    uid: Uid
    deleting: bool | None = None
    finalizers: tuple[str, ...] | None = None


@frozen
class Drop:
    """Removes the object. Its history stays in the log."""

    address: str
    uid: Uid


@frozen
class Move:
    """Takes the object to the address `to` with its uid, generation and status; dropped when `to` is taken.

    Whatever names the old address (refs, owners) is written again by the same record. A status that is still under
    way to the old address finds the object by its uid.
    """

    address: str
    uid: Uid
    to: str


@frozen
class SubRecord:
    """One more step of a record, for readers of a record that stands for several steps in one append."""

    type: str
    subject: str
    data: JsonObject


Change: TypeAlias = Put | PatchSpec | SetStatus | Mark | Drop | Move


@frozen
class RecordDraft:
    """A record before it has a revision: what a writer hands to the store.

    `actor` is who did it (`human:file`, `human:cli`, `agent:<path>`, `controller:<kind>`); `cause` the revision that
    led to it; `subject` the address it is about; `blobs` the digests that `data` or `changes` refer to. `also` are
    further steps that the same changes contain, in order; `entries` gives them all.
    """

    type: str
    actor: str
    subject: str
    changes: tuple[Change, ...] = ()
    data: JsonObject = field(default_factory=dict)
    blobs: tuple[str, ...] = ()
    cause: int | None = None
    also: tuple[SubRecord, ...] = ()

    @property
    def entries(self) -> tuple[SubRecord, ...]:
        """Everything that the record says, in order."""
        return (SubRecord(self.type, self.subject, self.data), *self.also)


@frozen
class Record:
    """One revision. `at` is seconds since 1970 (UTC); `epoch` the worker that wrote it."""

    rev: int
    at: float
    epoch: int
    draft: RecordDraft


def fold_record(objects: MutableMapping[str, Resource], record: Record) -> tuple[str, ...]:
    """Applies the changes of `record` to `objects`; returns the addresses that changed, in order."""
    return fold_changes(objects, record.draft.changes, record.rev)


def fold_changes(objects: MutableMapping[str, Resource], changes: Iterable[Change], rev: int) -> tuple[str, ...]:
    """Applies `changes`, made in revision `rev`, to `objects`; returns the addresses that changed, in order.

    A change that names an old uid, or an object that is gone, is dropped (law 7): it stays in the log as evidence.
    A change whose uid lives at another address by now follows it there: the uid is the object, the address its place.
    """
    touched: list[str] = []
    for change in changes:
        if not isinstance(change, SetStatus):
            touched += _apply(objects, change, rev)
        elif (old := _found(objects, change.address, change.uid)) is not None:  # Nearly all of them are of this sort.
            objects[old.address] = remade(old, status=json_patch.merge_values(old.status, change.merge), rev=rev)
            touched.append(old.address)
    return tuple(dict.fromkeys(touched))


def _apply(
    objects: MutableMapping[str, Resource], change: Put | PatchSpec | Mark | Drop | Move, rev: int
) -> tuple[str, ...]:
    match change:
        case Put():
            objects[change.address] = _put(objects.get(change.address), change, rev)
            return (change.address,)
        case PatchSpec():
            plan = objects.get(change.address)
            if plan is None:
                return ()
            spec = json_patch.apply_ops(plan.spec, change.ops)
            objects[change.address] = remade(plan, spec=spec, generation=plan.generation + 1, rev=rev)
            return (change.address,)
        case Mark() | Drop() | Move():
            old = _found(objects, change.address, change.uid)
            return () if old is None else _write(objects, old, change, rev)
        case _:
            assert_never(change)


def _found(objects: Mapping[str, Resource], address: str, uid: Uid) -> Resource | None:
    old = objects.get(address)
    if old is not None and old.uid == uid:
        return old
    # Only late writes come here, so a scan is cheaper than an index that every write would have to keep.
    return next((one for one in objects.values() if one.uid == uid), None)


def _write(
    objects: MutableMapping[str, Resource], old: Resource, change: Mark | Drop | Move, rev: int
) -> tuple[str, ...]:
    match change:
        case Mark():
            objects[old.address] = remade(
                old,
                deleting=old.deleting if change.deleting is None else change.deleting,
                finalizers=old.finalizers if change.finalizers is None else change.finalizers,
                rev=rev,
            )
        case Drop():
            del objects[old.address]
        case Move():
            if change.to in objects:
                return ()
            del objects[old.address]
            objects[change.to] = remade(old, address=change.to, rev=rev)
            return (old.address, change.to)
        case _:
            assert_never(change)
    return (old.address,)


def _put(old: Resource | None, change: Put, rev: int) -> Resource:
    is_same = old is not None and old.uid == change.uid
    status = old.status if old is not None and is_same else {}
    return Resource(
        address=change.address,
        uid=change.uid,
        generation=old.generation + 1 if old is not None and is_same else 1,
        spec=change.spec,
        status=json_patch.merge_values(status, change.status) if change.status else status,
        refs=change.refs,
        owner=change.owner,
        finalizers=change.finalizers,
        deleting=old.deleting if old is not None and is_same else False,
        created_rev=old.created_rev if old is not None and is_same else rev,
        rev=rev,
    )


def change_to_json(change: Change) -> JsonObject:
    """The stored form of a change: one key names its sort."""
    match change:
        case Put():
            return _put_to_json(change)
        case PatchSpec():
            return {"patch": change.address, "ops": [op.to_json() for op in change.ops]}
        case SetStatus():
            return {"status": change.address, "uid": change.uid, "merge": change.merge}
        case Mark():
            out: JsonObject = {"mark": change.address, "uid": change.uid}
            if change.deleting is not None:
                out["deleting"] = change.deleting
            if change.finalizers is not None:
                out["finalizers"] = list(change.finalizers)
            return out
        case Drop():
            return {"drop": change.address, "uid": change.uid}
        case Move():
            return {"move": change.address, "uid": change.uid, "to": change.to}
        case _:
            assert_never(change)


def _put_to_json(change: Put) -> JsonObject:
    out: JsonObject = {"put": change.address, "uid": change.uid, "spec": change.spec}
    if change.refs:
        out["refs"] = list(change.refs)
    if change.owner is not None:
        out["owner"] = change.owner
    if change.finalizers:
        out["finalizers"] = list(change.finalizers)
    if change.status:
        out["with"] = change.status
    return out


def change_from_json(raw: JsonObject) -> Change:
    """Inverse of `change_to_json`. Raises KeyError for a form this version does not know."""
    if "status" in raw:
        return SetStatus(raw["status"], Uid(raw["uid"]), raw["merge"])
    if "put" in raw:
        return Put(
            raw["put"],
            Uid(raw["uid"]),
            raw["spec"],
            tuple(raw.get("refs", ())),
            raw.get("owner"),
            tuple(raw.get("finalizers", ())),
            raw.get("with", {}),
        )
    if "patch" in raw:
        return PatchSpec(raw["patch"], tuple(json_patch.op_from_json(n, op) for n, op in enumerate(raw["ops"])))
    if "mark" in raw:
        finalizers = raw.get("finalizers")
        return Mark(
            raw["mark"], Uid(raw["uid"]), raw.get("deleting"), None if finalizers is None else tuple(finalizers)
        )
    if "move" in raw:
        return Move(raw["move"], Uid(raw["uid"]), raw["to"])
    return Drop(raw["drop"], Uid(raw["uid"]))


def record_to_json(record: Record) -> JsonObject:
    """The form of `events.jsonl`, of `plan events -o json` and of the API."""
    draft = record.draft
    out: JsonObject = {
        "v": RECORD_VERSION,
        "rev": record.rev,
        "at": record.at,
        "type": draft.type,
        "actor": draft.actor,
        "epoch": record.epoch,
        "subject": draft.subject,
        "changes": [change_to_json(change) for change in draft.changes],
        "data": draft.data,
    }
    if draft.cause is not None:
        out["cause"] = draft.cause
    if draft.blobs:
        out["blobs"] = list(draft.blobs)
    if draft.also:
        out["also"] = [{"type": one.type, "subject": one.subject, "data": one.data} for one in draft.also]
    return out


def record_from_json(raw: Mapping[str, object]) -> Record:
    """Inverse of `record_to_json`; up-casts records of older versions."""
    body: JsonObject = dict(raw)
    draft = RecordDraft(
        type=body["type"],
        actor=body["actor"],
        subject=body["subject"],
        changes=tuple(change_from_json(change) for change in body["changes"]),
        data=body["data"],
        blobs=tuple(body.get("blobs", ())),
        cause=body.get("cause"),
        also=tuple(SubRecord(**one) for one in body.get("also", ())),
    )
    return Record(rev=body["rev"], at=body["at"], epoch=body["epoch"], draft=draft)
