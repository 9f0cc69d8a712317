"""JSON Patch (RFC 6902) and merge patch (RFC 7386) on JSON values. Copies only the changed path.

The `jsonpatch` package deep-copies the whole document for each patch and is used as the reference in tests; these
few functions copy one path, because a plan of 5,000 tasks is patched on every agent's step. Inputs are never mutated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import Json, JsonObject, measure_extent
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import (
    FOREIGN_DEPTH_MAX,
    PATCH_BYTES_MAX,
    PATCH_OPS_MAX,
    PATCH_POINTER_CHARS_MAX,
    PATCH_VALUES_MAX,
)

OpName: TypeAlias = Literal["add", "remove", "replace", "move", "copy", "test"]


class PatchFailed(ValueError):
    """An operation does not fit the document. `index` counts operations from 0."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index
        self.reason = reason


@frozen
class PatchOp:
    """One RFC 6902 operation, its paths already parsed. `value` is meant for add, replace and test."""

    op: OpName
    path: tuple[str, ...]
    value: Json = None
    source: tuple[str, ...] = ()

    def to_json(self) -> JsonObject:
        out: JsonObject = {"op": self.op, "path": json_pointer.render_pointer(self.path)}
        if self.op in ("move", "copy"):
            out["from"] = json_pointer.render_pointer(self.source)
        elif self.op != "remove":
            out["value"] = self.value
        return out


def op_from_json(index: int, raw: Json) -> PatchOp:
    """The operation that `raw` states. Raises PatchFailed for an unknown op, a bad path or a missing member."""
    if not isinstance(raw, dict) or raw.get("op") not in ("add", "remove", "replace", "move", "copy", "test"):
        raise PatchFailed(index, "an operation is a map with `op`: add, remove, replace, move, copy or test")
    if any(len(str(raw.get(name, ""))) > PATCH_POINTER_CHARS_MAX for name in ("path", "from")):
        raise PatchFailed(index, f"a path in a patch has at most {PATCH_POINTER_CHARS_MAX:,} characters")
    try:
        path = json_pointer.parse_pointer(str(raw.get("path", "")))
        source = json_pointer.parse_pointer(str(raw["from"])) if raw["op"] in ("move", "copy") else ()
    except KeyError:
        raise PatchFailed(index, f"`{raw['op']}` needs `from`") from None
    except json_pointer.BadPointer as error:
        raise PatchFailed(index, str(error)) from None
    if raw["op"] in ("add", "replace", "test") and "value" not in raw:
        raise PatchFailed(index, f"`{raw['op']}` needs `value`")
    return PatchOp(raw["op"], path, raw.get("value"), source)


def ops_from_json(raws: Iterable[Json]) -> tuple[PatchOp, ...]:
    """The operations that `raws` state. Raises PatchFailed for the first that is invalid, and for too many."""
    ops = []
    for index, raw in enumerate(raws):
        if index == PATCH_OPS_MAX:
            raise PatchFailed(index, f"a patch has at most {PATCH_OPS_MAX:,} operations: send several patches")
        ops.append(op_from_json(index, raw))
    return tuple(ops)


def apply_ops(document: Json, ops: Iterable[PatchOp]) -> Json:
    """`document` after `ops`, all or none. Raises PatchFailed; the argument is left as it was."""
    for index, op in enumerate(ops):
        try:
            document = _apply_one(document, op)
        except (json_pointer.BadPointer, _Misfit) as error:
            raise PatchFailed(index, str(error)) from None
    return document


class PatchAllowance:
    """What the operations of one patch may still add to a document; `take` counts it before it is added.

    A copied value is shared and costs nothing, but everything that later walks over the result sees each copy. So a
    few `copy` operations, each of what the one before made, would hold up all that use the result.
    """

    def __init__(self) -> None:
        self._values = PATCH_VALUES_MAX
        self._bytes = PATCH_BYTES_MAX

    def take(self, document: Json, op: PatchOp) -> str:
        """Counts what `op` adds to `document`; the reason why that is too much, empty if it is not."""
        if op.op in ("remove", "test"):
            value, depth = op.value, 0
        else:
            value, depth = _added(document, op), len(op.path)
        extent = measure_extent(value, self._values, self._bytes, FOREIGN_DEPTH_MAX - depth)
        if isinstance(extent, str):
            return _TOO_MUCH[extent]
        if op.op in ("add", "replace", "copy"):
            self._values, self._bytes = self._values - extent.values, self._bytes - extent.size_bytes
        return ""


_TOO_MUCH: Final = {
    "values": f"the operations up to here would add more than {PATCH_VALUES_MAX:,} values",
    "size": f"the operations up to here would add more than {PATCH_BYTES_MAX >> 20} MiB of text",
    "depth": f"the plan would be nested deeper than {FOREIGN_DEPTH_MAX} levels",
}


def _added(document: Json, op: PatchOp) -> Json:
    if op.op not in ("move", "copy"):
        return op.value
    return json_pointer.value_at(document, op.source) if json_pointer.has_value(document, op.source) else None


class _Misfit(ValueError):
    pass


def _apply_one(document: Json, op: PatchOp) -> Json:
    match op.op:
        case "test":
            if json_pointer.value_at(document, op.path) != op.value:
                raise _Misfit(f"test failed: `{json_pointer.render_pointer(op.path)}` is not the stated value")
            return document
        case "add" | "replace" | "remove":
            return _change(document, op.path, op)
        case "copy":
            return _change(document, op.path, PatchOp("add", op.path, json_pointer.value_at(document, op.source)))
        case "move":
            if op.path[: len(op.source)] == op.source and op.path != op.source:
                raise _Misfit("a value cannot be moved into itself")
            value = json_pointer.value_at(document, op.source)
            if op.path == op.source:
                return document
            without = _change(document, op.source, PatchOp("remove", op.source))
            return _change(without, op.path, PatchOp("add", op.path, value))


def _change(value: Json, tokens: Sequence[str], op: PatchOp) -> Json:
    if not tokens:
        if op.op == "remove":
            raise _Misfit("the whole document cannot be removed")
        return op.value
    head, rest = tokens[0], tokens[1:]
    if isinstance(value, dict):
        return _change_map(value, head, rest, op)
    if isinstance(value, list):
        return _change_list(value, head, rest, op)
    raise _Misfit(f"nothing at `{json_pointer.render_pointer(op.path)}`: its parent holds a plain value")


def _change_map(value: JsonObject, head: str, rest: Sequence[str], op: PatchOp) -> JsonObject:
    if (rest or op.op != "add") and head not in value:
        raise _Misfit(f"nothing at `{json_pointer.render_pointer(op.path)}`")
    out = dict(value)
    if rest:
        out[head] = _change(value[head], rest, op)
    elif op.op == "remove":
        del out[head]
    else:
        out[head] = op.value
    return out


def _change_list(value: list[Json], head: str, rest: Sequence[str], op: PatchOp) -> list[Json]:
    is_insert = op.op == "add" and not rest
    index = len(value) if head == "-" and is_insert else json_pointer.list_index(head)
    if index is None or index >= len(value) + (1 if is_insert else 0):
        raise _Misfit(f"nothing at `{json_pointer.render_pointer(op.path)}`: the list has {len(value)} items")
    if rest:
        return [*value[:index], _change(value[index], rest, op), *value[index + 1 :]]
    if op.op == "remove":
        return [*value[:index], *value[index + 1 :]]
    return [*value[:index], op.value, *value[index + (0 if is_insert else 1) :]]


def merge_values(value: Json, patch: Json) -> Json:
    """RFC 7386: maps merge by key, null removes a key, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    out = dict(value) if isinstance(value, dict) else {}
    for key, wanted in patch.items():
        if wanted is None:
            out.pop(key, None)
        elif isinstance(wanted, dict):
            out[key] = merge_values(out.get(key), wanted)
        else:
            out[key] = wanted
    return out


def diff_values(old: Json, new: Json, at: tuple[str, ...] = ()) -> list[PatchOp]:
    """Operations that turn `old` into `new`, map by map; a list that differs is replaced whole. Empty when equal."""
    if isinstance(old, dict) and isinstance(new, dict):
        ops = [PatchOp("remove", (*at, key)) for key in old if key not in new]
        for key, value in new.items():
            if key not in old:
                ops.append(PatchOp("add", (*at, key), value))
            elif not same_json(old[key], value):
                ops += diff_values(old[key], value, (*at, key))
        return ops
    return [] if _same_items(old, new) else [PatchOp("replace", at, new)]


def same_json(old: Json, new: Json) -> bool:
    """Whether two values are the same JSON: True is not 1, 1 is not 1.0, the order of keys does not matter."""
    # Equal texts are equal values, and both first looks run in C: specs are compared by the thousand on every patch.
    return bool(old == new) and (repr(old) == repr(new) or _same_items(old, new))


def _same_items(old: Json, new: Json) -> bool:
    # Python has True == 1 and 1 == 1.0; in a plan these are different values.
    if type(old) is not type(new):
        return False
    if isinstance(old, list):
        return len(old) == len(new) and all(_same_items(a, b) for a, b in zip(old, new, strict=True))
    if isinstance(old, dict):
        return old.keys() == new.keys() and all(_same_items(value, new[key]) for key, value in old.items())
    return bool(old == new)
