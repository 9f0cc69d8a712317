"""What is said of an edit to people: changes, who made them, conflicts and what would happen, as JSON with words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from planloop.cli.rendering import differences
from planloop.cli.rendering.records import short_path
from planloop.compiler import formatting
from planloop.reconciler.admitting import ownership
from planloop.schemas import pointer
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.patch import author_in_words
from planloop.schemas.patching import Op
from planloop.server.editing.looking import Looked

SHOWN_MAX: Final = 200  # Changes that are told one by one; their number is told besides.
VALUE_CHARS_MAX: Final = 2_000


def change(op: Op) -> JsonObject:
    """One change of a document: what is done where, and the new value as YAML, None for what goes."""
    value = None if op.op == "remove" else _shown(op.value)
    return {"op": op.op, "path": pointer.render(op.path), "at": short_path(op.path), "value": value}


def others(ops: Sequence[Op], stamps: JsonObject, live: JsonObject) -> JsonObject:
    """What was changed live since a text was begun, by whom. What is gone has no stamp, so nobody is named."""
    shown = [change(op) | _who(op.path, stamps, is_gone=not pointer.has(live, op.path)) for op in ops[:SHOWN_MAX]]
    return {"count": len(ops), "changes": shown}


def clashes(looked: Looked, stamps: JsonObject) -> list[JsonObject]:
    """The conflicts with their three sides, where they stand in the text, and who made the live side."""
    return [
        {
            "id": one.id,
            "path": pointer.render(one.path),
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


def rows(found: Iterable[JsonObject], now: float) -> list[JsonObject]:
    """What an edit does to what runs, as `plan diff` says it: deletions first."""
    moved = [one for one in found if one["action"] != "none"]
    words = differences.rows(moved, now=now)
    return [
        {"address": one["address"], "sign": sign, "name": name, "action": action, "words": said}
        for one, (sign, name, action, said) in zip(moved, words, strict=True)
    ]


def faults(found: Iterable[JsonObject]) -> list[JsonObject]:
    """Why the gate refuses, each with its place, its rule and its cure."""
    return [
        {"at": short_path(tuple(one["path"])) if one["path"] else "", **{key: one[key] for key in WORDS}}
        for one in found
    ]


WORDS: Final = ("message", "rule", "hint")


def preview(answer: JsonObject, now: float) -> JsonObject:
    """What the gate would do with an edit."""
    found = answer["differences"]
    return {
        "rows": rows(found, now),
        "unmoved": differences.unmoved(found),
        "summary": differences.summary(found),
        "faults": faults([*answer["faults"], *answer["stops"]]),
        "hold": answer["hold"],
        "notes": answer["notes"],
    }


def _who(path: tuple[str, ...], stamps: JsonObject, *, is_gone: bool) -> JsonObject:
    stamp = None if is_gone else ownership.last_change(stamps, path)
    return {"by": "" if stamp is None else author_in_words(str(stamp.author)), "rev": 0 if stamp is None else stamp.rev}


def _shown(value: Json) -> str:
    text = formatting.to_yaml(value).rstrip("\n")
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}…"
