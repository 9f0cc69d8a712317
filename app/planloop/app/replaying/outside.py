"""What came from outside the plan, done again at its place: patches, files and answers go through the gate once more.

All else that people, crashes and watchers wrote (messages, owners, what a crash left in doubt) is complete in its
record and is taken from there, in the replay's ids.
"""

from __future__ import annotations

from planloop.app.replaying.directing import Director, Diverged
from planloop.app.replaying.stage import Stage
from planloop.app.replaying.story import status_in
from planloop.reconciler.admitting.gate import Gate
from planloop.reconciler.editing.filing import FileSave
from planloop.reconciler.errors import Conflict, Terminal
from planloop.schemas.encoding import JsonObject, decode
from planloop.schemas.patch import HUMAN_FILE, Patch, author_from_text
from planloop.schemas.patching import Op, difference, op_from_json
from planloop.schemas.record import Also, Draft, PatchSpec, Put, Record, change_from_json, change_to_json

PATCHES = frozenset({"plan.patched", "plan.refused", "plan.held"})
ANSWERS = frozenset({"plan.approved", "plan.rejected"})


async def perform(director: Director, stage: Stage, gate: Gate, record: Record) -> None:
    """Does what `record` tells of. Raises Diverged when the gate now says something else."""
    draft = record.draft
    if draft.type not in PATCHES | ANSWERS:
        play(director, stage, record)
        return
    place = director.cursor
    try:
        await _submit(director, gate, draft)
    except (Conflict, Terminal) as error:
        instead = tuple(_faults(one) for one in director.refused.values())
        raise Diverged(record, f"the gate answers otherwise: {error}", instead) from None
    if director.cursor == place:
        # The gate found nothing to write. What the file or the answer changed beside the document is in the record.
        play(director, stage, record)


def play(director: Director, stage: Stage, record: Record) -> None:
    """Takes the record as it stands."""
    draft = record.draft
    changes = tuple(change_from_json(director.likeness.ours(change_to_json(one))) for one in draft.changes)
    subject, data = director.likeness.ours(draft.subject), director.likeness.ours(draft.data)
    also = tuple(
        Also(one.type, director.likeness.ours(one.subject), director.likeness.ours(one.data)) for one in draft.also
    )
    stage.play(Draft(draft.type, draft.actor, subject, changes, data, draft.blobs, draft.cause, also))


async def _submit(director: Director, gate: Gate, draft: Draft) -> None:
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
        await gate.submit(patch_of(director, draft))


def patch_of(director: Director, draft: Draft) -> Patch:
    """The patch that `draft` is the record of."""
    base, source = int(draft.data.get("base_rev", director.cursor)), draft.data.get("file")
    author, reason = author_from_text(draft.actor), str(draft.data.get("reason", ""))
    return Patch(author, tuple(_ops(draft)), base, reason, source, is_approved=draft.type != "plan.held")


def _has_file(director: Director, draft: Draft) -> bool:
    source = draft.data.get("file") or {}
    return all(source.get(name) and director.story.blob(source[name]) is not None for name in ("blob", "document"))


def _save(director: Director, draft: Draft, reason: str) -> FileSave:
    source: JsonObject = draft.data["file"]
    content, document = director.story.blob(source["blob"]), director.story.blob(source["document"])
    assert content is not None, "looked for before"
    assert document is not None
    is_approved = draft.type != "plan.held"
    return FileSave(source["path"], content, decode(document), is_approved=is_approved, reason=reason)


def _ops(draft: Draft) -> list[Op]:
    for change in draft.changes:
        if isinstance(change, PatchSpec) and change.address == draft.subject:
            return list(change.ops)
        if isinstance(change, Put) and change.address == draft.subject:
            return difference({}, change.spec)
        if isinstance(change, Put) and change.spec.get("kind") == "patch":
            return [op_from_json(index, raw) for index, raw in enumerate(change.spec["what"]["ops"])]
    return [op_from_json(index, raw) for index, raw in enumerate(draft.data.get("ops", []))]


def _faults(draft: Draft) -> str:
    words = "; ".join(str(fault.get("message")) for fault in draft.data.get("faults", ()))
    state = status_in(draft, draft.subject).get("state", "")
    return f"instead: {draft.type} {draft.subject} {words or state}".rstrip()
