"""Repeat external inputs at their place in the log: patches, files, answers.

Other records of people, crashes and watchers (messages, owners, unknown outcomes) are complete, and are copied with the
ids of the replay.
"""

from __future__ import annotations

from planloop.owner.replay.history import status_in
from planloop.owner.replay.replay_store import ReplayStore
from planloop.owner.replay.scheduler import ReplayDiverged, ReplayScheduler
from planloop.reconciler.admission.gate import PlanGate
from planloop.reconciler.diff.file_patch import FileSave
from planloop.reconciler.errors import TerminalError, WriteConflict
from planloop.schemas.canonical_json import JsonObject, decode
from planloop.schemas.json_patch import PatchOp, diff_values, op_from_json
from planloop.schemas.log.patch import HUMAN_FILE, Patch, author_from_text
from planloop.schemas.log.record import PatchSpec, Put, Record, RecordDraft, SubRecord, change_from_json, change_to_json

PATCHES = frozenset({"plan.patched", "plan.refused", "plan.held"})
ANSWERS = frozenset({"plan.approved", "plan.rejected"})


async def repeat_input(director: ReplayScheduler, stage: ReplayStore, gate: PlanGate, record: Record) -> None:
    """Repeat the input of `record`. Raises ReplayDiverged if the gate decides differently."""
    draft = record.draft
    if draft.type not in PATCHES | ANSWERS:
        take_record(director, stage, record)
        return
    place = director.cursor
    try:
        await _submit(director, gate, draft)
    except (WriteConflict, TerminalError) as error:
        instead = tuple(_faults(one) for one in director.refused.values())
        raise ReplayDiverged(record, f"the gate decides differently: {error}", instead) from None
    if director.cursor == place:
        # The gate has written nothing. Changes other than those of the document are in the record.
        take_record(director, stage, record)


def take_record(director: ReplayScheduler, stage: ReplayStore, record: Record) -> None:
    """Copy the record into the replay."""
    draft = record.draft
    changes = tuple(change_from_json(director.likeness.ours(change_to_json(one))) for one in draft.changes)
    subject, data = director.likeness.ours(draft.subject), director.likeness.ours(draft.data)
    also = tuple(
        SubRecord(one.type, director.likeness.ours(one.subject), director.likeness.ours(one.data)) for one in draft.also
    )
    stage.play(RecordDraft(draft.type, draft.actor, subject, changes, data, draft.blobs, draft.cause, also))


async def _submit(director: ReplayScheduler, gate: PlanGate, draft: RecordDraft) -> None:
    answered = draft.data.get("approved") or draft.data.get("rejected")
    reason = str(draft.data.get("reason", ""))
    if isinstance(answered, dict):
        approval = director.likeness.ours(str(answered["approval"]))
        await gate.approve(approval, author_from_text(str(answered["by"])), str(answered.get("reason", "")))
    elif draft.type in ANSWERS:
        approval = director.likeness.ours(str(draft.data["approval"]))
        by = author_from_text(draft.actor)
        if draft.type == "plan.approved":
            await gate.approve(approval, by, reason, draft.data.get("content"))
        else:
            await gate.reject(approval, by, reason)
    elif draft.actor == str(HUMAN_FILE) and _has_file(director, draft):
        await gate.submit_file(_save(director, draft, reason))
    else:
        await gate.submit(recorded_patch(director, draft))


def recorded_patch(director: ReplayScheduler, draft: RecordDraft) -> Patch:
    """Return the patch that `draft` records."""
    base, source = int(draft.data.get("base_rev", director.cursor)), draft.data.get("file")
    author, reason = author_from_text(draft.actor), str(draft.data.get("reason", ""))
    return Patch(author, tuple(_ops(draft)), base, reason, source, is_approved=draft.type != "plan.held")


def _has_file(director: ReplayScheduler, draft: RecordDraft) -> bool:
    source = draft.data.get("file") or {}
    return all(source.get(name) and director.story.blob(source[name]) is not None for name in ("blob", "document"))


def _save(director: ReplayScheduler, draft: RecordDraft, reason: str) -> FileSave:
    source: JsonObject = draft.data["file"]
    content, document = director.story.blob(source["blob"]), director.story.blob(source["document"])
    assert content is not None, "looked for before"
    assert document is not None
    is_approved = draft.type != "plan.held"
    return FileSave(source["path"], content, decode(document), is_approved=is_approved, reason=reason)


def _ops(draft: RecordDraft) -> list[PatchOp]:
    for change in draft.changes:
        if isinstance(change, PatchSpec) and change.address == draft.subject:
            return list(change.ops)
        if isinstance(change, Put) and change.address == draft.subject:
            return diff_values({}, change.spec)
        if isinstance(change, Put) and change.spec.get("kind") == "patch":
            return [op_from_json(index, raw) for index, raw in enumerate(change.spec["what"]["ops"])]
    return [op_from_json(index, raw) for index, raw in enumerate(draft.data.get("ops", []))]


def _faults(draft: RecordDraft) -> str:
    words = "; ".join(str(fault.get("message")) for fault in draft.data.get("faults", ()))
    state = status_in(draft, draft.subject).get("state", "")
    return f"instead: {draft.type} {draft.subject} {words or state}".rstrip()
