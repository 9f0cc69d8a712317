"""JSON bodies of the API: file saves, previews, verdicts, and who sent them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.reconciler.admission import field_ownership, history
from planloop.reconciler.admission.gate import PlanGate
from planloop.reconciler.admission.preview import PatchDecision, PatchPreview
from planloop.reconciler.admission.records import fault_to_json
from planloop.reconciler.admission.scope import open_patterns, pattern_covers
from planloop.reconciler.current_plan import CurrentPlan
from planloop.reconciler.diff.differences import ObjectDifference
from planloop.reconciler.diff.file_patch import FileSave
from planloop.reconciler.store.store import Store
from planloop.schemas import json_patch, json_pointer
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.log.patch import Author, PatchAccepted, PatchHeld, PatchRefused, PatchVerdict

# In whose name a person changes something: `human:` and by what they speak, as the door says and no client may.

AUTHOR_FIELD: Final = (
    "by"  # The member of a body that says so; the gateway sets it, and the owner's socket alone takes it.
)
KNOWN_CLIENTS: Final = ("cli", "chat", "web")


def split_author(body: JsonObject) -> tuple[str, JsonObject]:
    """By what the person speaks, and the body without that. Raises CommandError for what nobody speaks by."""
    by = body.get(AUTHOR_FIELD, KNOWN_CLIENTS[0])
    if by not in KNOWN_CLIENTS:
        raise CommandError(ExitCode.USAGE, f"`{AUTHOR_FIELD}` is one of {', '.join(KNOWN_CLIENTS)}", "leave it out")
    return str(by), {name: value for name, value in body.items() if name != AUTHOR_FIELD}


def author_of(body: JsonObject) -> Author:
    """Who signs a change that `body` asks for."""
    return Author("human", str(body.get(AUTHOR_FIELD, KNOWN_CLIENTS[0])))


# What crosses the API as JSON: saves of a file, previews, verdicts. Versioned: `format` rises when a field changes.

FORMAT: Final = 1


def save_from_json(body: JsonObject) -> FileSave:
    """A file save as the API takes it: the text with its compiled document."""
    return FileSave(
        path=body["path"],
        content=body["content"].encode(),
        document=body["document"],
        targets=tuple(body.get("targets", ())),
        excludes=tuple(body.get("excludes", ())),
        is_approved=bool(body.get("is_approved")),
        reason=body.get("reason", ""),
    )


def save_to_json(save: FileSave) -> JsonObject:
    """Inverse of `save_from_json`."""
    return {
        "path": save.path,
        "content": save.content.decode(),
        "document": save.document,
        "targets": list(save.targets),
        "excludes": list(save.excludes),
        "is_approved": save.is_approved,
        "reason": save.reason,
    }


def preview_to_json(preview: PatchPreview) -> JsonObject:
    """A preview as `plan diff -o json` prints it."""
    out: JsonObject = {"format": FORMAT, "verdict": "preview" if not preview.faults else "refused"}
    out |= {"rev": preview.rev, "document_rev": preview.document_rev}
    out["differences"] = _differences(preview.differences)
    out["ops"] = [op.to_json() for op in preview.ops]
    out["faults"] = [fault_to_json(fault) for fault in preview.faults]
    out["stops"] = [fault_to_json(fault) for fault in preview.stops]
    return out | {"hold": preview.hold, "notes": list(preview.notes)}


def decision_to_json(decision: PatchDecision) -> JsonObject:
    """What the gate decided, with the differences that it decided on."""
    shown = [one.to_json() for one in decision.preview.differences]
    return verdict_to_json(decision.verdict, shown, is_changed=bool(decision.preview.ops))


def verdict_to_json(
    verdict: PatchVerdict, differences: Sequence[JsonObject], *, left: int = 0, is_changed: bool = True
) -> JsonObject:
    """A verdict; `verdict` is accepted, held or refused. `left` is how many differences more there are.

    `is_changed` says whether the document is another now.
    """
    shared: JsonObject = {"format": FORMAT, "rev": verdict.rev, "differences": list(differences)}
    if left:
        shared["differences_left"] = left
    match verdict:
        case PatchAccepted():
            return shared | {"verdict": "accepted", "notes": list(verdict.notes), "changed": is_changed}
        case PatchHeld():
            return shared | {"verdict": "held", "approval": verdict.approval, "why": verdict.why}
        case PatchRefused():
            return shared | {"verdict": "refused", "faults": [fault_to_json(fault) for fault in verdict.faults]}


async def why_answer(store: Store, now: CurrentPlan, at: str) -> JsonObject:
    """Who set the value at the pointer `at`, when, why and over what. Raises CommandError when nothing stands there."""
    try:
        path = json_pointer.parse_pointer(at)
    except json_pointer.BadPointer as fault:
        raise CommandError(ExitCode.USAGE, str(fault), "plan get plan -o yaml shows the document") from None
    found = await history.field_origin(store, now, path)
    if found is None:
        raise CommandError(
            ExitCode.NOT_FOUND,
            f"nothing is set at {json_pointer.render_pointer(path) or '/'}",
            "plan get plan -o yaml shows the document",
        )
    over = None if found.over is None else {"rev": found.over.rev, "by": str(found.over.author)}
    return {
        "path": json_pointer.render_pointer(path),
        "value": found.value,
        "rev": found.stamp.rev,
        "by": str(found.stamp.author),
        "at": found.at,
        "reason": found.reason,
        "before": found.before,
        "had_before": found.had_before,
        "over": over,
        "open": any(pattern_covers(pattern, path) for pattern in open_patterns(now.document)),
        "file": now.file.get("path"),
    }


def _differences(found: Sequence[ObjectDifference]) -> list[JsonObject]:
    return [one.to_json() for one in found]


def file_preview(gate: PlanGate, save: FileSave) -> JsonObject:
    """The preview of a saved file.

    `foreign` is where the live plan would stay other than the file says, `document` what would be live afterwards.
    """
    preview = gate.preview_file(save)
    foreign = [] if preview.faults else _foreign(preview, save, gate.present.stamps)
    return preview_to_json(preview) | {"foreign": foreign, "document": preview.document}


def _foreign(preview: PatchPreview, save: FileSave, stamps: JsonObject) -> list[JsonObject]:
    """What was added, changed (`replace`) or taken away (`remove`) live, by whom, and would stay so."""
    is_part = bool(save.targets or save.excludes)  # Then the rest of the file is left alone because that was asked for.
    out: list[JsonObject] = []
    for op in json_patch.diff_values(save.document, preview.document):
        stamp = field_ownership.last_change(stamps, op.path)
        if stamp is None or (is_part and op.op != "add"):
            continue
        one: JsonObject = {"op": op.op, "path": json_pointer.render_pointer(op.path)}
        # What is gone has no stamp of its own: the one found is of what stood around it.
        out.append(one if op.op == "remove" else one | {"by": str(stamp.author), "rev": stamp.rev})
    return out
