"""`--target` and `--exclude`: of two documents, take the changes within chosen tasks and leave all others."""

from __future__ import annotations

from collections.abc import Sequence

from planloop.schemas import address as addresses
from planloop.schemas import patching, pointer
from planloop.schemas.encoding import JsonObject
from planloop.schemas.patching import Op


def select(old: JsonObject, new: JsonObject, targets: Sequence[str], excludes: Sequence[str]) -> JsonObject:
    """`old` with the parts of `new` that lie within a target and outside every exclude. No targets: everything.

    A target below tasks that `old` lacks brings these along, without their other children, and the plan's own fields
    where `old` is empty. Raises `BadAddress`.
    """
    out = new
    if targets:
        out = old or {name: value for name, value in new.items() if name != "tasks"}
        for target in targets:
            out = _transplanted(out, new, _path(target))
    for exclude in excludes:
        out = _transplanted(out, old, _path(exclude))
    return out


def _path(text: str) -> tuple[str, ...]:
    return addresses.parse(text).path


def _transplanted(into: JsonObject, source: JsonObject, path: tuple[str, ...]) -> JsonObject:
    """`into`, with the task at `path` exactly as `source` has it, absence included."""
    where = pointer.of_task(path)
    if not where:
        return source
    if not pointer.has(source, where):
        return patching.apply(into, [Op("remove", where)]) if pointer.has(into, where) else into
    for depth in range(1, len(path)):
        into = _with_task(into, pointer.of_task(path[:depth]), source)
    return _added(into, where, pointer.get(source, where))


def _with_task(into: JsonObject, where: tuple[str, ...], source: JsonObject) -> JsonObject:
    if pointer.has(into, where):
        return into
    fields = {name: value for name, value in pointer.get(source, where).items() if name != "tasks"}
    return _added(into, where, fields)


def _added(into: JsonObject, where: tuple[str, ...], task: JsonObject) -> JsonObject:
    ops = [] if pointer.has(into, where[:-1]) else [Op("add", where[:-1], {})]
    out: JsonObject = patching.apply(into, [*ops, Op("add", where, task)])
    return out
