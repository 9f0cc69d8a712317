"""Check a draft: its errors, what others changed meanwhile, conflicts, and the resulting patch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

from planloop.client import plan_file
from planloop.client.plan_file import PlanFile
from planloop.client.render import diagnostics
from planloop.compiler import merge, read
from planloop.compiler.merge import Absent, MergeConflict, MergeSide
from planloop.schemas import canonical_json, json_patch, json_pointer
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.diagnostic import Span
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import PatchOp
from planloop.schemas.limits import DIAGNOSTICS_SHOWN_MAX

# Where a text and the live plan both changed the same thing since the text was begun, and what a person chose there.
#
# A choice names what it was made between, so it holds only as long as both sides say what they said then: when either
# moves on, it is asked anew. Pure.

Choice: TypeAlias = Literal["mine", "live"]
CHOICES: Final = ("mine", "live")


@frozen
class DraftConflict:
    """One conflict. The sides are YAML for people, None where nothing stands; `taken` is None until it is chosen."""

    id: str
    path: tuple[str, ...]
    base: str | None
    mine: str | None
    live: str | None
    taken: Choice | None


@frozen
class MergedDraft:
    """`document` is both sides with every choice in it; where none was made yet it has mine, and may not be applied."""

    document: JsonObject
    clashes: tuple[DraftConflict, ...]

    @property
    def is_open(self) -> bool:
        """Whether a choice is still to be made."""
        return any(one.taken is None for one in self.clashes)


def merge_draft(base: JsonObject, mine: JsonObject, live: JsonObject, chosen: Mapping[str, str]) -> MergedDraft:
    """The changes of `mine` since `base` on top of `live`, each conflict as `chosen` says by its id."""
    merged = merge.merge_documents(base, mine, live)
    clashes = tuple(_clash(one, chosen) for one in merged.conflicts)
    theirs = [one for one, clash in zip(merged.conflicts, clashes, strict=True) if clash.taken == "live"]
    if not theirs:
        return MergedDraft(merged.document, clashes)
    for one in theirs:
        mine = _with(mine, one.path, one.live)
    return MergedDraft(merge.merge_documents(base, mine, live).document, clashes)


def _clash(conflict: MergeConflict, chosen: Mapping[str, str]) -> DraftConflict:
    mine, live = _value_text(conflict.file), _value_text(conflict.live)
    name = canonical_json.sha256_of_value([json_pointer.render_pointer(conflict.path), mine, live])[:16]
    taken: Choice | None = "live" if chosen.get(name) == "live" else "mine" if chosen.get(name) == "mine" else None
    return DraftConflict(name, conflict.path, _value_text(conflict.base), mine, live, taken)


def _value_text(side: MergeSide) -> str | None:
    return None if isinstance(side, Absent) else read.format_yaml(side).rstrip("\n")


def _with(document: JsonObject, path: tuple[str, ...], value: MergeSide) -> JsonObject:
    """`document` with `value` at `path`, the maps on the way made where they are not; without it for ABSENT."""
    head, rest = path[0], path[1:]
    if not rest and isinstance(value, Absent):
        return {key: each for key, each in document.items() if key != head}
    below: Json = document.get(head)
    inner = _with(below if isinstance(below, dict) else {}, rest, value) if rest else value
    assert not isinstance(inner, Absent), "that is the case above"
    return {**document, head: inner}


# Looks at a text as somebody edits it: its faults, what others changed meanwhile, the conflicts, and the edit itself.
#
# Pure but for the local files that a plan includes. It is asked in a process of its own
# (`planloop.server.edit.compile_pool`), so all that goes in and comes out can be pickled.


@frozen
class PlanDraft:
    """A text that was begun on the document `base`, and the `live` one; `chosen` says what was taken by clash."""

    path: Path
    text: str
    base: JsonObject
    live: JsonObject
    chosen: Mapping[str, str]


@frozen
class CheckedDraft:
    """What there is to say of a draft.

    `faults` are diagnostics as JSON, `fault_count` how many there are in all. With an error among them `document` is
    None and there are no clashes. `document` is the live one with the edit in it, `ops` turn the live one into it.
    `places` are where the clashes stand in the text, `others` what was changed live since it was begun.
    """

    faults: tuple[JsonObject, ...]
    fault_count: int
    document: JsonObject | None
    clashes: tuple[DraftConflict, ...]
    places: tuple[JsonObject | None, ...]
    ops: tuple[PatchOp, ...]
    others: tuple[PatchOp, ...]

    @property
    def is_open(self) -> bool:
        """Whether there is a clash with no choice made."""
        return any(one.taken is None for one in self.clashes)


def check_draft(draft: PlanDraft) -> CheckedDraft:
    """What `draft` says and would do."""
    file = plan_file.compile_plan(draft.path, draft.text.encode())
    others = tuple(json_patch.diff_values(draft.base, draft.live))
    found = file.compiled.diagnostics
    faults = tuple(
        _fault(diagnostics.diagnostic_json(one), file, draft.path.name) for one in found[:DIAGNOSTICS_SHOWN_MAX]
    )
    if file.errors:
        return CheckedDraft(faults, len(found), None, (), (), (), others)
    settled = merge_draft(draft.base, file.document, draft.live, draft.chosen)
    ops = tuple(json_patch.diff_values(draft.live, settled.document))
    places = tuple(_place(file, one.path) for one in settled.clashes)
    return CheckedDraft(faults, len(found), settled.document, settled.clashes, places, ops, others)


def _fault(fault: JsonObject, file: PlanFile, name: str) -> JsonObject:
    """The same with the file called by its name, and `is_here` where it stands in the text itself."""
    own = file.compiled.tree.file
    related = [{**one, "span": _named(one["span"], own, name)} for one in fault["related"]]
    return {**fault, "span": _named(fault["span"], own, name), "related": related}


def _named(span: JsonObject | None, own: str, name: str) -> JsonObject | None:
    if span is None:
        return None
    is_here = span["file"] == own
    return {**span, "file": name if is_here else span["file"], "is_here": is_here}


def _place(file: PlanFile, path: tuple[str, ...]) -> JsonObject | None:
    """Where in the text what stands at `path` is, or what is nearest around it."""
    for length in range(len(path), 0, -1):
        source = file.compiled.origin(path[:length])
        place = file.compiled.tree.place(source) if source is not None else None
        if place is not None:
            span: Span = place.key or place.value
            return span.to_json()
    return None
