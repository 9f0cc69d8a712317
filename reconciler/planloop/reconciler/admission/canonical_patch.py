"""Convert a patch as written to keyed operations on the current document. Pure.

Paths with positions become wrong when an earlier item is inserted, so they are accepted only if the patch tests the
item or its author has read the newest document. The log gets the difference between before and after: keyed paths,
lists as whole values, and no operations without effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planloop.schemas import json_patch, json_pointer, limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import PatchOp
from planloop.schemas.log.patch import PatchProblem

ALIASES: Final = {"children": "tasks", "spec": "acceptance"}
"""Alternative names of fields that the canonical document does not use; accepted if a task has no such key."""


@frozen
class CanonicalPatch:
    """The `document` after the patch, and the keyed `ops` that lead to it; undefined if there are faults."""

    document: JsonObject
    ops: tuple[PatchOp, ...]
    faults: tuple[PatchProblem, ...] = ()


def canonical_patch(document: JsonObject, ops: Sequence[PatchOp], *, is_current: bool) -> CanonicalPatch:
    """Apply `ops` to `document`. `is_current`: the author has read exactly this document."""
    after: Json = document
    faults: list[PatchProblem] = []
    tested = {op.path[:depth] for op in ops if op.op == "test" for depth in range(1, limits.FOREIGN_DEPTH_MAX)}
    room = json_patch.PatchAllowance()
    for op in ops:
        try:
            path = _keyed(after, op.path, tested, is_current, adds=op.op in ("add", "move", "copy"))
            keyed = PatchOp(op.op, path, op.value, _keyed(after, op.source, tested, is_current))
            if excess := room.take(after, keyed):  # Before the result is traversed.
                faults.append(PatchProblem("schema", excess, op.path, _SMALLER))
                break
            after = json_patch.apply_ops(after, (keyed,))
        except _Positional as error:
            faults.append(_positional_fault(op, error))
        except json_patch.PatchFailed as error:
            faults.append(_misfit_fault(op, error))
    if not isinstance(after, dict):
        faults.append(PatchProblem("schema", "the document would no longer be a map of fields"))
        after = document
    return CanonicalPatch(after, tuple(json_patch.diff_values(document, after)), tuple(faults))


_SMALLER: Final = "send a smaller patch: name long texts as files, and add tasks as they are needed"


class _Positional(Exception):
    def __init__(self, at: tuple[str, ...]) -> None:
        super().__init__(json_pointer.render_pointer(at))
        self.at = at


def _keyed(
    document: Json, path: tuple[str, ...], tested: set[tuple[str, ...]], is_current: bool, *, adds: bool = False
) -> tuple[str, ...]:
    value: Json = document
    out: list[str] = []
    for depth, token in enumerate(path):
        # Adding to a map creates a new key, and never replaces the item at that position.
        is_new = adds and depth == len(path) - 1 and isinstance(value, dict) and token not in ALIASES
        known, is_positional = (token, False) if is_new else _token(value, token)
        is_vouched = is_current or path[: depth + 1] in tested
        if is_positional and not is_vouched:
            raise _Positional(path[: depth + 1])
        out.append(known)
        value = _below(value, known)
    return tuple(out)


def _token(value: Json, token: str) -> tuple[str, bool]:
    """The token as in the document, and whether it was a position."""
    if isinstance(value, list):
        named = (str(n) for n, item in enumerate(value) if isinstance(item, dict) and item.get("id") == token)
        return next(named, token), json_pointer.list_index(token) is not None
    if not isinstance(value, dict) or token in value:
        return token, False
    if token in ALIASES and ("goal" in value or "tasks" in value or "acceptance" in value):
        return ALIASES[token], False
    index = json_pointer.list_index(token)
    if index is not None and index < len(value) and all(isinstance(item, dict) for item in value.values()):
        return list(value)[index], True
    return token, False


def _below(value: Json, token: str) -> Json:
    try:
        return json_pointer.value_at(value, (token,))
    except json_pointer.BadPointer:
        return None


def _positional_fault(op: PatchOp, error: _Positional) -> PatchProblem:
    return PatchProblem(
        "conflict",
        f"`{error}` names an item by its position, but the plan has changed since you read it",
        op.path,
        "read the plan again and send its revision, or add a `test` of that item before the operation",
    )


def _misfit_fault(op: PatchOp, error: json_patch.PatchFailed) -> PatchProblem:
    if op.op == "test":
        return PatchProblem("conflict", error.reason, op.path, "read the plan again: the tested value was changed")
    hint = "create it with `add`, or look up the path with `plan_view`" if op.op in ("replace", "remove") else ""
    return PatchProblem("schema", error.reason, op.path, hint)
