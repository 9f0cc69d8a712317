"""A document as it would be had its tasks always had their new names: what a file's `moved:` is merged on top of.

Without it whatever the live plan alone says of a task (a ruling, an order, children that agents added) would stay
behind at the old name, and go with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

from planloop.schemas import address as addresses
from planloop.schemas import pointer
from planloop.schemas.encoding import Json, JsonObject


def moved(document: JsonObject, moves: Mapping[str, str]) -> JsonObject:
    """`document` with the tasks at the old addresses of `moves` at the new ones, and named so in `needs`.

    A task that is not there, or whose new place is taken, stays where it is.
    """
    paths = {addresses.parse(old).path: addresses.parse(new).path for old, new in moves.items()}
    free = {old: new for old, new in paths.items() if _is_free(document, old, new, paths)}
    if not free:
        return document
    out = deepcopy(document)
    # Taken the deepest first, from where each was; put the highest first, for it may hold others.
    deepest = sorted(free.items(), key=lambda one: -len(one[0]))
    taken = {new: _take(out, old) for old, new in deepest}
    for new in sorted(taken, key=len):
        _put(out, new, taken[new])
    _name(out, out, {"/".join(old): "/".join(new) for old, new in deepest})
    return out


def _is_free(
    document: JsonObject, old: tuple[str, ...], new: tuple[str, ...], moves: Mapping[tuple[str, ...], tuple[str, ...]]
) -> bool:
    if not old or not new or not pointer.has(document, pointer.of_task(old)):
        return False
    return new in moves or not pointer.has(document, pointer.of_task(new))


def _take(document: JsonObject, path: tuple[str, ...]) -> JsonObject:
    tasks: JsonObject = pointer.get(document, pointer.of_task(path)[:-1])
    task: JsonObject = tasks.pop(path[-1])
    return task


def _put(document: JsonObject, path: tuple[str, ...], task: JsonObject) -> None:
    here = document
    for name in path[:-1]:
        here = here.setdefault("tasks", {}).setdefault(name, {})
    here.setdefault("tasks", {})[path[-1]] = task


def _name(root: JsonObject, task: JsonObject, names: Mapping[str, str]) -> None:
    """Has every `needs` say the new paths; one that means a task beside its own says that by its id alone."""
    for child in (task.get("tasks") or {}).values():
        if isinstance(child.get("needs"), list):
            beside = {} if task is root else task["tasks"]
            child["needs"] = [one if one in beside else _named(one, names) for one in child["needs"]]
        _name(root, child, names)


def _named(need: Json, names: Mapping[str, str]) -> Json:
    for old, new in names.items():
        if isinstance(need, str) and f"{need}/".startswith(f"{old}/"):
            return new + need.removeprefix(old)
    return need
