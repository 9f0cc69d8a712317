"""Protection outlives the lines that declared it: a file that no longer has a protected task does not remove it."""

from __future__ import annotations

from collections.abc import Iterator

from planloop.reconciler.admitting.present import moves_of
from planloop.schemas import patching, pointer
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen


@frozen
class Kept:
    """The document with protected tasks put back, and a line for each."""

    document: JsonObject
    notes: tuple[str, ...]


def keep_protected(live: JsonObject, wanted: JsonObject) -> Kept:
    """`wanted` with every protected task of `live` that it lacks, unless it was moved away.

    Of an ancestor that is gone as well, its own fields come back but none of its other children.
    """
    moved = moves_of(wanted)
    notes = []
    for path in _protected(live):
        address = "task/" + "/".join(path)
        if address in moved or pointer.has(wanted, pointer.of_task(path)):
            continue
        wanted = _put_back(live, wanted, path)
        notes.append(f"{address} is protected and stays; to remove it: plan patch {address} protect=false, save again")
    return Kept(wanted, tuple(notes))


def _protected(document: JsonObject, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, task in (document.get("tasks") or {}).items():
        path = (*at, name)
        if task.get("protect"):
            yield path
        yield from _protected(task, path)


def _put_back(live: JsonObject, wanted: JsonObject, path: tuple[str, ...]) -> JsonObject:
    for depth in range(1, len(path) + 1):
        here = pointer.of_task(path[:depth])
        if pointer.has(wanted, here):
            continue
        task: JsonObject = pointer.get(live, here)
        if depth < len(path):
            task = {name: value for name, value in task.items() if name != "tasks"}
        parent = pointer.get(wanted, here[:-2])
        ops = [] if "tasks" in parent else [patching.Op("add", here[:-1], {})]
        wanted = patching.apply(wanted, [*ops, patching.Op("add", here, task)])
    return wanted
