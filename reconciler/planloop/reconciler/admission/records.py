"""The records that the gate writes for an accepted, rejected or held patch. Pure.

An accepted patch is one record with the change of the document, the changes of objects, and in the plan's status who
set which path, when, and from which file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, TypeAlias

from planloop.reconciler.admission import field_ownership
from planloop.reconciler.admission.admit import Admission
from planloop.reconciler.admission.field_ownership import FieldStamp
from planloop.reconciler.admission.object_changes import ObjectChanges
from planloop.reconciler.current_plan import CurrentPlan
from planloop.reconciler.store.store import View
from planloop.schemas import limits, resource
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.patch import HUMAN_FILE, Patch, PatchProblem
from planloop.schemas.log.record import Change, Drop, PatchSpec, Put, RecordDraft, SetStatus
from planloop.schemas.objects.approval import WAITING, ApprovalSpec, patch_to_json
from planloop.schemas.resource import Condition, Resource, Truth, Uid

FILE_INVALID: Final = "FileInvalid"
FILE_CONFLICT: Final = "FileConflict"


@frozen
class RecordTime:
    """The future revision of the record, and now in seconds since 1970."""

    rev: int
    at: float


@frozen
class AcceptedOutcome:
    """The result of acceptance: changes of objects, time, uid of the plan, and the view before."""

    made: ObjectChanges
    moment: RecordTime
    uid: str
    view: View


def accepted_draft(patch: Patch, now: CurrentPlan, answer: Admission, outcome: AcceptedOutcome) -> RecordDraft:
    """Return the record of an accepted patch."""
    uid = Uid(outcome.uid)
    status: JsonObject = {"pending": list(outcome.made.pending)}
    if answer.ops:
        stamp = FieldStamp(outcome.moment.rev, patch.author)
        status |= {"document_rev": stamp.rev, "stamps": field_ownership.stamp_patch(now.stamps, answer.ops, stamp)}
    if patch.source is not None:
        status["file"] = {"held_back": None, **patch.source, "rev": outcome.moment.rev}
        status["conditions"] = _file_conditions(now, answer, outcome.moment.at)
    document: tuple[Change, ...] = (PatchSpec(now.address, answer.ops),) if answer.ops else ()
    if now.plan is None:
        document = (Put(now.address, uid, answer.document),)
    changes = (*document, *outcome.made.changes, SetStatus(now.address, uid, status))
    return RecordDraft(
        "plan.patched",
        str(patch.author),
        now.address,
        (*changes, *_superseded(patch, outcome.view)),
        _data(patch, answer),
        _blobs(patch),
    )


def rejected_draft(patch: Patch, now: CurrentPlan, answer: Admission, at: float) -> RecordDraft:
    """Return the record of a rejection. For a file, it also sets the plan's conditions."""
    data = _data(patch, answer) | {"ops": [op.to_json() for op in patch.ops]}
    data["faults"] = [fault_to_json(fault) for fault in answer.faults]
    changes: tuple[Change, ...] = ()
    if patch.author == HUMAN_FILE and now.plan is not None:
        words = "; ".join(fault.message for fault in answer.faults)
        changes = (_condition(now.plan, FILE_INVALID, ("True", "Refused", words), at),)
    return RecordDraft("plan.refused", str(patch.author), now.address, changes, data, _blobs(patch))


def held_draft(patch: Patch, now: CurrentPlan, answer: Admission, approval: str, view: View) -> RecordDraft:
    """Return the record of a held patch, with its approval object."""
    keyed = Patch(patch.author, answer.ops, now.rev, patch.reason, patch.source)
    spec = ApprovalSpec("patch", str(patch.author), answer.hold, patch_to_json(keyed), **_differences(answer))
    owner = asking_agent(patch) or now.address
    uid = Uid(approval.partition("/")[2])
    changes = (
        Put(approval, uid, spec.to_json(), (), owner),
        SetStatus(approval, uid, {"state": WAITING}),
        *_superseded(patch, view),
    )
    data = _data(patch, answer) | {"approval": approval, "why": answer.hold}
    return RecordDraft("plan.held", str(patch.author), now.address, changes, data, _blobs(patch))


def asking_agent(patch: Patch) -> str | None:
    """The agent that submitted a patch and waits for the answer; None for people and controllers."""
    return f"agent/{patch.author.name}" if patch.author.kind == "agent" else None


def pending_same_patch(patch: Patch, answer: Admission, view: View) -> Resource | None:
    """A pending approval of the same operations by the same author, if there is one."""
    ops = [op.to_json() for op in answer.ops]
    for one in pending_patches(view):
        if one.spec["by"] == str(patch.author) and one.spec["what"]["ops"] == ops:
            return one
    return None


def pending_patches(view: View) -> Iterator[Resource]:
    """The pending approvals of patches."""
    return (one for one in view.list("approval") if one.spec.get("kind") == "patch" and one.state == WAITING)


def is_new_file(patch: Patch, now: CurrentPlan) -> bool:
    """Whether the patch comes from a file with new bytes, which then become the merge base."""
    return patch.source is not None and any(now.file.get(key) != value for key, value in patch.source.items())


def file_invalid_draft(now: CurrentPlan, path: str, faults: str, at: float) -> RecordDraft | None:
    """Return the record that sets the condition of an invalid file; None without a plan, or if it is already set."""
    if now.plan is None:
        return None
    old = resource.conditions_of_status(now.plan.status).get(FILE_INVALID)
    if old is not None and (old.status, old.message) == ("True", faults):
        return None
    change = _condition(now.plan, FILE_INVALID, ("True", "NotAPlan", faults), at)
    return RecordDraft("plan.condition", "human:file", now.address, (change,), {"path": path, "faults": faults})


def fault_to_json(fault: PatchProblem) -> JsonObject:
    """A problem in the form of records and of the API."""
    out: JsonObject = {"rule": fault.rule, "message": fault.message, "path": list(fault.path), "hint": fault.hint}
    if fault.diagnostic is not None:
        out["code"] = fault.diagnostic.code
    return out


def _data(patch: Patch, answer: Admission) -> JsonObject:
    data: JsonObject = {"reason": patch.reason, "base_rev": patch.base_rev, "notes": list(answer.notes)}
    data |= _differences(answer)
    if patch.source is not None:
        data["file"] = patch.source
    return data


def _differences(answer: Admission) -> JsonObject:
    """The first differences; if there are more, also the number of differences by action."""
    found = answer.differences
    out: JsonObject = {"differences": [one.to_json() for one in found[: limits.DIFFERENCES_RECORDED_MAX]]}
    if len(found) > limits.DIFFERENCES_RECORDED_MAX:
        out["difference_counts"] = dict(Counter(one.action for one in found))
    return out


def _blobs(patch: Patch) -> tuple[str, ...]:
    named = () if patch.source is None else (patch.source["blob"], patch.source["document"])
    return tuple(digest for digest in named if digest is not None)


def _superseded(patch: Patch, view: View) -> Iterator[Change]:
    """Drop an older save that is still pending: approving both could apply the old text over the new one."""
    if patch.author == HUMAN_FILE:
        yield from (Drop(one.address, one.uid) for one in pending_patches(view) if one.spec["by"] == str(HUMAN_FILE))


def _file_conditions(now: CurrentPlan, answer: Admission, at: float) -> JsonObject:
    if now.plan is None:
        return {}
    told: _Said = ("True", "Overrode", "; ".join(answer.notes)) if answer.notes else ("False", "Merged", "")
    fine = _condition(now.plan, FILE_INVALID, ("False", "Applied", ""), at).merge["conditions"]
    return {**fine, **_condition(now.plan, FILE_CONFLICT, told, at).merge["conditions"]}


_Said: TypeAlias = tuple[Truth, str, str]
"""Status, reason and message of a condition."""


def _condition(plan: Resource, type_: str, said: _Said, at: float) -> SetStatus:
    status, reason, message = said
    new = Condition(type_, status, reason, message, at, plan.generation)
    told = resource.update_condition(resource.conditions_of_status(plan.status).get(type_), new)
    return SetStatus(plan.address, plan.uid, {"conditions": {type_: told.to_json()}})
