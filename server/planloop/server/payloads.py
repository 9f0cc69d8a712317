"""JSON bodies of the API: file saves, previews, verdicts, and the author of a request."""

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

# The author of an operator's change is `human:` and the client that they use: `human:cli`.

AUTHOR_FIELD: Final = "by"  # The field with the client. Only the owner's socket accepts it; the gateway sets it.
KNOWN_CLIENTS: Final = ("cli", "chat", "web")


def split_author(body: JsonObject) -> tuple[str, JsonObject]:
    """Split a body into the client and the other fields. Raises CommandError for an unknown client."""
    by = body.get(AUTHOR_FIELD, KNOWN_CLIENTS[0])
    if by not in KNOWN_CLIENTS:
        words = f"`{AUTHOR_FIELD}` must be one of {', '.join(KNOWN_CLIENTS)}"
        raise CommandError(ExitCode.USAGE, words, f"omit `{AUTHOR_FIELD}`")
    return str(by), {name: value for name, value in body.items() if name != AUTHOR_FIELD}


def author_of(body: JsonObject) -> Author:
    """Return the author of the change that `body` requests."""
    return Author("human", str(body.get(AUTHOR_FIELD, KNOWN_CLIENTS[0])))


# File saves, previews and verdicts as JSON. `format` is incremented when a field changes.

FORMAT: Final = 1


def save_from_json(body: JsonObject) -> FileSave:
    """Read a file save: the text with its compiled document."""
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
    """Write a file save for `save_from_json`."""
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
    """Return a preview as `plan diff -o json` prints it."""
    out: JsonObject = {"format": FORMAT, "verdict": "preview" if not preview.faults else "refused"}
    out |= {"rev": preview.rev, "document_rev": preview.document_rev}
    out["differences"] = _differences(preview.differences)
    out["ops"] = [op.to_json() for op in preview.ops]
    out["faults"] = [fault_to_json(fault) for fault in preview.faults]
    out["stops"] = [fault_to_json(fault) for fault in preview.stops]
    return out | {"hold": preview.hold, "notes": list(preview.notes)}


def decision_to_json(decision: PatchDecision) -> JsonObject:
    """Return a decision of the gate with its differences."""
    shown = [one.to_json() for one in decision.preview.differences]
    return verdict_to_json(decision.verdict, shown, is_changed=bool(decision.preview.ops))


def verdict_to_json(
    verdict: PatchVerdict, differences: Sequence[JsonObject], *, left: int = 0, is_changed: bool = True
) -> JsonObject:
    """Return a verdict: accepted, held or refused. `left` is the number of differences that are not listed.

    `is_changed` says whether the document has changed.
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
    """Return who set the value at the pointer `at`, when and why, and the replaced value. Raises CommandError."""
    try:
        path = json_pointer.parse_pointer(at)
    except json_pointer.BadPointer as error:
        raise CommandError(ExitCode.USAGE, str(error), "plan get plan -o yaml shows the document") from None
    found = await history.field_origin(store, now, path)
    if found is None:
        raise CommandError(
            ExitCode.NOT_FOUND,
            f"no value at {json_pointer.render_pointer(path) or '/'}",
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
    """Return the preview of a saved file.

    `foreign` are the places where the live plan would stay different from the file; `document` is the new document.
    """
    preview = gate.preview_file(save)
    foreign = [] if preview.faults else _foreign(preview, save, gate.present.stamps)
    return preview_to_json(preview) | {"foreign": foreign, "document": preview.document}


def _foreign(preview: PatchPreview, save: FileSave, stamps: JsonObject) -> list[JsonObject]:
    """Return the live additions, changes (`replace`) and removals that would stay, with their authors."""
    is_part = bool(save.targets or save.excludes)  # Then other differences from the file are intended.
    out: list[JsonObject] = []
    for op in json_patch.diff_values(save.document, preview.document):
        stamp = field_ownership.last_change(stamps, op.path)
        if stamp is None or (is_part and op.op != "add"):
            continue
        one: JsonObject = {"op": op.op, "path": json_pointer.render_pointer(op.path)}
        # A removed value has no stamp. The one found belongs to its parent.
        out.append(one if op.op == "remove" else one | {"by": str(stamp.author), "rev": stamp.rev})
    return out
