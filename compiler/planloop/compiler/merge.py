"""Three-way merge of plan documents by key. Pure; lists are single values.

The laws: merge(b, x, b) = x, merge(b, b, y) = y, merge(b, x, x) = x; swapping the sides gives the same document unless
there are conflicts; every value comes from one of the sides. Where both changed the same thing the file's side, a
person's, is taken and the conflict lists what that took. Keys that only the live side has (children that agents added)
stay, unless the file removes a map that holds them.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from planloop.schemas import json_patch, json_pointer
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen


class Absent:
    """Stands for "no such key", which is something else than null."""

    __slots__ = ()


ABSENT: Final = Absent()
ID_MAPS: Final = frozenset((name,) for name in ("tasks", "agents", "hooks", "containers", "mcp", "prompts", "moved"))
"""Fields that hold objects by id: taking the field away is taking away each object, not the field."""

MergeSide: TypeAlias = Json | Absent


@frozen
class MergeConflict:
    """Both sides changed what stands at `path`; the file's value was taken. ABSENT means removed on that side."""

    path: tuple[str, ...]
    base: MergeSide
    file: MergeSide
    live: MergeSide

    @property
    def words(self) -> str:
        """One line for people: what the file took."""
        where = json_pointer.render_pointer(self.path) or "/"
        if isinstance(self.file, Absent):
            return f"{where}: removed as in the file; a change in the live plan is lost"
        if isinstance(self.live, Absent):
            return f"{where}: restored from the file, although the live plan had removed it"
        return f"{where}: set to the file's value; a change in the live plan is lost"


@frozen
class MergedPlan:
    """The document of both sides, and the conflicts in document order."""

    document: JsonObject
    conflicts: tuple[MergeConflict, ...]


def merge_documents(base: JsonObject, file: JsonObject, live: JsonObject) -> MergedPlan:
    """The changes of `file` since `base`, on top of those of `live` since `base`."""
    conflicts: list[MergeConflict] = []
    document = _merge(base, file, live, ((), conflicts))
    assert isinstance(document, dict), "two maps merge to a map"
    return MergedPlan(document, tuple(conflicts))


_Trace: TypeAlias = tuple[tuple[str, ...], list[MergeConflict]]
"""Where the merge stands, and the conflicts so far."""


def _merge(base: MergeSide, file: MergeSide, live: MergeSide, trace: _Trace) -> MergeSide:
    if _same(file, live) or _same(live, base):
        # Equal sides keep the live key order, so that merging the same file again changes no byte.
        return live if _same(file, live) else _in_order_of(file, live)
    if _same(file, base):
        return live
    if isinstance(file, dict) and isinstance(live, dict):
        return _merge_maps(base if isinstance(base, dict) else {}, file, live, trace)
    path, conflicts = trace
    if _holds_ids(path) and isinstance(base, dict) and (file is ABSENT or live is ABSENT):
        # Emptying `tasks:` removes those that this side knew; it says nothing of the ones it never had.
        ours, theirs = {} if file is ABSENT else file, {} if live is ABSENT else live
        if isinstance(ours, dict) and isinstance(theirs, dict):
            return _merge_maps(base, ours, theirs, trace) or ABSENT
    conflicts.append(MergeConflict(path, base, file, live))
    return file


def _holds_ids(path: tuple[str, ...]) -> bool:
    _, rest = json_pointer.pointer_owner(path)
    return rest in ID_MAPS


def _merge_maps(base: JsonObject, file: JsonObject, live: JsonObject, trace: _Trace) -> JsonObject:
    path, conflicts = trace
    out: JsonObject = {}
    for key in [*live, *(key for key in file if key not in live)]:
        sides = (base.get(key, ABSENT), file.get(key, ABSENT), live.get(key, ABSENT))
        value = _merge(*sides, ((*path, key), conflicts))
        if value is not ABSENT:
            out[key] = value
    return out


def _in_order_of(file: MergeSide, live: MergeSide) -> MergeSide:
    if not isinstance(file, dict) or not isinstance(live, dict):
        return file
    keys = [*(key for key in live if key in file), *(key for key in file if key not in live)]
    return {key: _in_order_of(file[key], live.get(key, ABSENT)) for key in keys}


def _same(one: MergeSide, other: MergeSide) -> bool:
    if isinstance(one, Absent) or isinstance(other, Absent):
        return one is other
    return json_patch.same_json(one, other)
