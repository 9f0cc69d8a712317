"""Edits as JSON with words: changes, authors, conflicts and effects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from planloop.client.render import differences
from planloop.client.render.records import short_path
from planloop.compiler import document_writer
from planloop.reconciler.admission import field_ownership
from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.json_patch import PatchOp
from planloop.schemas.log.patch import describe_author
from planloop.server.edit.draft_check import CheckedDraft

SHOWN_MAX: Final = 200  # Changes that are told one by one; their number is told besides.
VALUE_CHARS_MAX: Final = 2_000


def change_json(op: PatchOp) -> JsonObject:
    """One change of a document: what is done where, and the new value as YAML, None for what goes."""
    value = None if op.op == "remove" else _shown(op.value)
    return {"op": op.op, "path": json_pointer.render_pointer(op.path), "at": short_path(op.path), "value": value}


def other_changes_json(ops: Sequence[PatchOp], stamps: JsonObject, live: JsonObject) -> JsonObject:
    """What was changed live since a text was begun, by whom. What is gone has no stamp, so nobody is named."""
    shown = [
        change_json(op) | _who(op.path, stamps, is_gone=not json_pointer.has_value(live, op.path))
        for op in ops[:SHOWN_MAX]
    ]
    return {"count": len(ops), "changes": shown}


def conflicts_json(looked: CheckedDraft, stamps: JsonObject) -> list[JsonObject]:
    """The conflicts with their three sides, where they stand in the text, and who made the live side."""
    return [
        {
            "id": one.id,
            "path": json_pointer.render_pointer(one.path),
            "at": short_path(one.path),
            "base": one.base,
            "mine": one.mine,
            "live": one.live,
            "taken": one.taken,
            "place": place,
        }
        | _who(one.path, stamps, is_gone=one.live is None)
        for one, place in zip(looked.clashes, looked.places, strict=True)
    ]


def effect_rows(found: Iterable[JsonObject], now: float) -> list[JsonObject]:
    """What an edit does to what runs, as `plan diff` says it: deletions first."""
    moved = [one for one in found if one["action"] != "none"]
    words = differences.difference_rows(moved, now=now)
    return [
        {"address": one["address"], "sign": sign, "name": name, "action": action, "words": said}
        for one, (sign, name, action, said) in zip(moved, words, strict=True)
    ]


def errors_json(found: Iterable[JsonObject]) -> list[JsonObject]:
    """Why the gate refuses, each with its place, its rule and its cure."""
    return [
        {"at": short_path(tuple(one["path"])) if one["path"] else "", **{key: one[key] for key in WORDS}}
        for one in found
    ]


WORDS: Final = ("message", "rule", "hint")


def preview_json(answer: JsonObject, now: float) -> JsonObject:
    """What the gate would do with an edit."""
    found = answer["differences"]
    return {
        "rows": effect_rows(found, now),
        "unmoved": differences.unchanged_text(found),
        "summary": differences.differences_summary(found),
        "faults": errors_json([*answer["faults"], *answer["stops"]]),
        "hold": answer["hold"],
        "notes": answer["notes"],
    }


def _who(path: tuple[str, ...], stamps: JsonObject, *, is_gone: bool) -> JsonObject:
    stamp = None if is_gone else field_ownership.last_change(stamps, path)
    return {"by": "" if stamp is None else describe_author(str(stamp.author)), "rev": 0 if stamp is None else stamp.rev}


def _shown(value: Json) -> str:
    text = document_writer.format_yaml(value).rstrip("\n")
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}…"
