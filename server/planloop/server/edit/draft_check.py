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

# Conflicts: places that both the draft and the live plan have changed since the draft's base, and the user's choices.
#
# The id of a conflict depends on both sides. If either side changes again, the choice no longer applies. Pure.

Choice: TypeAlias = Literal["mine", "live"]
CHOICES: Final = ("mine", "live")


@frozen
class DraftConflict:
    """One conflict. The sides are YAML for display. None is a missing value or, in `taken`, a missing choice."""

    id: str
    path: tuple[str, ...]
    base: str | None
    mine: str | None
    live: str | None
    taken: Choice | None


@frozen
class MergedDraft:
    """Both sides merged as chosen. For conflicts without a choice, `document` has the draft's side."""

    document: JsonObject
    clashes: tuple[DraftConflict, ...]

    @property
    def is_open(self) -> bool:
        """Whether a conflict has no choice yet. Such a document must not be applied."""
        return any(one.taken is None for one in self.clashes)


def merge_draft(base: JsonObject, mine: JsonObject, live: JsonObject, chosen: Mapping[str, str]) -> MergedDraft:
    """Merge the changes of `mine` since `base` into `live`. `chosen` has the choices by conflict id."""
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
    """Return `document` with `value` at `path`, creating missing maps. If `value` is ABSENT, remove `path`."""
    head, rest = path[0], path[1:]
    if not rest and isinstance(value, Absent):
        return {key: each for key, each in document.items() if key != head}
    below: Json = document.get(head)
    inner = _with(below if isinstance(below, dict) else {}, rest, value) if rest else value
    assert not isinstance(inner, Absent), "that is the case above"
    return {**document, head: inner}


# The check of a draft. Pure, except that it reads the local files that a plan includes.
#
# It runs in a separate process (`planloop.server.edit.compile_pool`), so arguments and results can be pickled.


@frozen
class PlanDraft:
    """A text with the document that it is based on, and the live document. `chosen` has the choices by conflict id."""

    path: Path
    text: str
    base: JsonObject
    live: JsonObject
    chosen: Mapping[str, str]


@frozen
class CheckedDraft:
    """The check of a draft.

    `faults` are diagnostics as JSON, `fault_count` the number of all of them. `document` is the live document with the
    edit, `ops` the patch to it from the live one. If there are errors, `document` is None, and there are no clashes.
    `places` are the places of the clashes in the text, `others` the live changes since the draft's base.
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
        """Whether a conflict has no choice yet."""
        return any(one.taken is None for one in self.clashes)


def check_draft(draft: PlanDraft) -> CheckedDraft:
    """Compile `draft` and merge it with the live plan."""
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
    """Return the diagnostic with the file's name instead of its path, and `is_here` for places in the draft."""
    own = file.compiled.tree.file
    related = [{**one, "span": _named(one["span"], own, name)} for one in fault["related"]]
    return {**fault, "span": _named(fault["span"], own, name), "related": related}


def _named(span: JsonObject | None, own: str, name: str) -> JsonObject | None:
    if span is None:
        return None
    is_here = span["file"] == own
    return {**span, "file": name if is_here else span["file"], "is_here": is_here}


def _place(file: PlanFile, path: tuple[str, ...]) -> JsonObject | None:
    """Return the span of `path` in the text, or of the nearest parent that the text has."""
    for length in range(len(path), 0, -1):
        source = file.compiled.origin(path[:length])
        place = file.compiled.tree.place(source) if source is not None else None
        if place is not None:
            span: Span = place.key or place.value
            return span.to_json()
    return None
