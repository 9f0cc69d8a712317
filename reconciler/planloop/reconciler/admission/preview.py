"""Preview a patch, save the preview to a file, and reject it later if the plan has changed. Pure.

A saved preview is JSON with a version. It contains its file, so that applying it needs nothing else, and the plan's uid
and document revision, so that it is rejected if either has changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from planloop.reconciler.admission.admit import Admission
from planloop.reconciler.current_plan import CurrentPlan
from planloop.reconciler.diff.differences import ObjectDifference
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import PatchFailed, PatchOp
from planloop.schemas.log.patch import HUMAN_FILE, Patch, PatchProblem, PatchVerdict
from planloop.schemas.objects.approval import patch_from_json, patch_to_json

VERSION: Final = 1


class InvalidPreview(ValueError):
    """The file is not a saved preview of a supported version."""


@frozen
class PatchPreview:
    """What submitting a patch would do, as of `rev`; nothing was written.

    `document_rev` is the revision of the document; a saved preview is valid only for it. `hold` is why the patch would
    wait for approval, else empty. `patch` has the keyed operations. `stops` are warnings of a preview that reject the
    patch when it is submitted.
    """

    plan: str
    uid: str | None
    rev: int
    document_rev: int
    patch: Patch
    document: JsonObject
    differences: tuple[ObjectDifference, ...]
    faults: tuple[PatchProblem, ...] = ()
    hold: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    stops: tuple[PatchProblem, ...] = ()

    @property
    def ops(self) -> tuple[PatchOp, ...]:
        return self.patch.ops


@frozen
class PatchDecision:
    """A verdict and the preview that it was based on."""

    verdict: PatchVerdict
    preview: PatchPreview


@frozen
class StoredPreview:
    """A loaded preview: the patch, its source, and the differences that were shown.

    `blobs` are the contents that `patch.source` names by digest: the text of the file and its document.
    """

    plan: str
    uid: str | None
    document_rev: int
    patch: Patch
    differences: tuple[JsonObject, ...]
    blobs: tuple[bytes, ...] = ()


def preview_admission(patch: Patch, now: CurrentPlan, answer: Admission) -> PatchPreview:
    """Return the preview of `patch` on the current plan."""
    return PatchPreview(
        plan=now.address,
        uid=now.uid,
        rev=now.rev,
        document_rev=now.document_rev,
        patch=replace(patch, ops=answer.ops),
        document=answer.document,
        differences=answer.differences,
        faults=answer.faults,
        hold=answer.hold,
        notes=answer.notes,
        warnings=answer.warnings,
    )


def preview_no_change(now: CurrentPlan, why: str) -> PatchPreview:
    """Return the preview of a file that is not applied, with the reason."""
    return preview_admission(Patch(HUMAN_FILE, (), now.rev), now, Admission((), now.document, notes=(why,)))


def preview_to_json(preview: PatchPreview, blobs: tuple[bytes, ...] = ()) -> JsonObject:
    """Return the saved form. For the preview of a file, `blobs` are those of `file_patch.file_blobs`."""
    return {
        "version": VERSION,
        "plan": preview.plan,
        "uid": preview.uid,
        "document_rev": preview.document_rev,
        "patch": patch_to_json(preview.patch),
        "differences": [one.to_json() for one in preview.differences],
        "blobs": [blob.decode() for blob in blobs],
    }


def preview_from_json(raw: Json) -> StoredPreview:
    """Inverse of `preview_to_json`. Raises InvalidPreview."""
    if not isinstance(raw, dict) or raw.get("version") != VERSION:
        raise InvalidPreview(f"not a saved preview of version {VERSION}; create it again with `plan apply --out`")
    try:
        return StoredPreview(
            raw["plan"],
            raw["uid"],
            raw["document_rev"],
            patch_from_json(raw["patch"]),
            tuple(raw["differences"]),
            tuple(blob.encode() for blob in raw["blobs"]),
        )
    except (KeyError, TypeError, AttributeError, PatchFailed) as error:
        raise InvalidPreview(
            f"the saved preview is damaged ({error}); create it again with `plan apply --out`"
        ) from error


def stale_preview_faults(saved: StoredPreview, now: CurrentPlan) -> tuple[PatchProblem, ...]:
    """Why `saved` is outdated; empty if it is not."""
    hint = "run `plan diff` again and save a new preview"
    if (saved.plan, saved.uid) != (now.address, now.uid):
        return (PatchProblem("stale", "the preview is of another plan, or of a plan that was deleted", (), hint),)
    if saved.document_rev != now.document_rev:
        message = f"the plan is at revision {now.document_rev}, but the preview was made at {saved.document_rev}"
        return (PatchProblem("stale", message, (), hint),)
    return ()
