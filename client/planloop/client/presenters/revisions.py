"""Revisions of a plan as JSON: author, time, reason, result, and the values before and after.

The words are those of `plan history` and `plan diff`. Pure: functions of records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import yaml

from planloop.client.error_report import violation_line
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.render import differences, records
from planloop.client.render.differences import EDITS
from planloop.reconciler.admission import history
from planloop.reconciler.admission.history import DOCUMENT_TYPES, REVISION_TYPES
from planloop.schemas import json_patch, json_pointer
from planloop.schemas.canonical_json import Json, JsonObject, encode_text
from planloop.schemas.json_patch import PatchFailed, PatchOp
from planloop.schemas.log import record as folding
from planloop.schemas.log.patch import describe_author
from planloop.schemas.log.record import Record
from planloop.schemas.resource import Resource

FIELDS_SHOWN_MAX: Final = 500  # Per revision; the log has all of them.
VALUE_CHARS_MAX: Final = 8_000  # Of one side of a change.


def is_shown_revision(everything: str, kind: str) -> frozenset[str]:
    """Return the requested revision types: one by its last word, all, or those that changed the document."""
    if kind:
        if f"plan.{kind}" not in REVISION_TYPES:
            known = ", ".join(sorted(one.partition(".")[2] for one in REVISION_TYPES))
            raise CommandError(ExitCode.USAGE, f"`{kind[:40]}` is not a kind of revision", f"one of {known}")
        return frozenset({f"plan.{kind}"})
    return REVISION_TYPES if everything not in ("", "0", "false") else DOCUMENT_TYPES


def author_json(actor: str) -> str:
    """Return the author as commands print it."""
    return describe_author(actor)


def is_authored_by(record: Record, who: str) -> bool:
    """Whether its author is `who`, or of that kind (`agent`, `human`); an empty `who` matches every author."""
    return (
        not who
        or author_json(record.draft.actor) == who
        or author_json(record.draft.actor).startswith((f"{who}/", f"{who}:"))
    )


def revision_row(record: Record) -> JsonObject:
    """A line of `plan history`."""
    draft = record.draft
    return {
        "rev": record.rev,
        "at": record.at,
        "author": author_json(draft.actor),
        "did": draft.type.partition(".")[2],
        "what": records.record_words(draft),
        "reason": str(draft.data.get("reason") or ""),
        "cause": draft.cause,
        "is_document": draft.type in DOCUMENT_TYPES,
    }


def document_at(past: Iterable[Record], plan: str) -> Json:
    """The plan's document as those records, oldest first, left it; an empty one before the first."""
    objects: dict[str, Resource] = {}
    for record in past:
        changes = tuple(one for one in record.draft.changes if one.address == plan)
        folding.fold_record(objects, replace(record, draft=replace(record.draft, changes=changes)))
    return objects[plan].spec if plan in objects else {}


def revision_detail(record: Record, plan: str, before: Json) -> JsonObject:
    """A revision with all that is known of it; `before` is the document that it was made on."""
    draft = record.draft
    revision = history.revision_of(record, plan)
    faults = draft.data.get("faults") or ()
    return revision_row(record) | {
        **recorded_differences(draft.data, record.at),
        **fields_json(before, revision.ops),
        "faults": [{"text": violation_line(one), "hint": str(one.get("hint") or "")} for one in faults],
        "notes": [str(note) for note in draft.data.get("notes") or ()],
        "hold": str(draft.data.get("why") or ""),
        "approval": str(draft.data.get("approval") or "") if isinstance(draft.data.get("approval"), str) else "",
    }


def revision_lines(found: Sequence[JsonObject], now: float) -> list[JsonObject]:
    """What an edit does to each object: a line of `plan diff`, in its parts."""
    return [
        dict(zip(("sign", "name", "does", "words"), each, strict=True))
        for each in differences.difference_rows(found, now=now)
    ]


def differences_json(found: Sequence[JsonObject], now: float) -> JsonObject:
    """What goes with a preview for people: its lines, and the sum of them."""
    return {"does": revision_lines(found, now), "summary": differences.differences_summary(found)}


def recorded_differences(made: JsonObject, now: float) -> JsonObject:
    """The same of a record's data, or of what is held: there only the first of many are, so how many more, too."""
    found = [one for one in made.get("differences") or () if one.get("address")]
    counts = made.get("difference_counts")
    summary = differences.differences_summary(found, counts) if found else ""
    return {
        "does": revision_lines(found, now),
        "does_left": differences.hidden_count(found, counts),
        "summary": summary,
    }


def fields_json(before: Json, ops: Sequence[PatchOp]) -> JsonObject:
    """The first of `fields`, and how many more there are."""
    return {
        "fields": changed_fields(before, ops[:FIELDS_SHOWN_MAX]),
        "fields_left": max(0, len(ops) - FIELDS_SHOWN_MAX),
    }


def changed_fields(before: Json, ops: Sequence[PatchOp]) -> list[JsonObject]:
    """Each operation as a sign, a place and the values on both sides; `before` is the document they are made on."""
    out: list[JsonObject] = []
    for op in ops:
        at = records.short_path(op.path)
        out.append({"sign": EDITS.get(op.op, ">"), "path": at, "before": _value(before, op.path), "after": _after(op)})
        with suppress(PatchFailed):  # One that was refused need not fit.
            before = json_patch.apply_ops(before, (op,))
    return out


def _value(document_: Json, path: Sequence[str]) -> str | None:
    return _text(json_pointer.value_at(document_, path)) if json_pointer.has_value(document_, path) else None


def _after(op: PatchOp) -> str | None:
    return None if op.op == "remove" else _text(op.value)


def _text(value: Json) -> str:
    text = (
        yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100) if isinstance(value, dict | list) else ""
    )
    text = text.rstrip() or (value if isinstance(value, str) else encode_text(value))
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}…"
