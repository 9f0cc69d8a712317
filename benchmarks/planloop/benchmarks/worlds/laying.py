"""Worlds as they lie in a run's folder: tables laid over for each case, and decoys beside the world's own tools.

What a case adds stands in the same file under `overlays`, and which task has which under `laid`: agents are told the
file's name, and nothing of what is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planloop.benchmarks.worlds.reading import serials
from planloop.benchmarks.worlds.world import World
from planloop.schemas import patching
from planloop.schemas.encoding import JsonObject


def laid(world: World, tables: JsonObject) -> World:
    """The world with rows laid over its own: fields are merged, null takes a row away."""
    merged = patching.merge(dict(world.tables), tables)
    return replace(world, tables=merged, start=merged, serials=serials(merged))


def with_tools(document: JsonObject, tools: Mapping[str, JsonObject]) -> JsonObject:
    """A world's document with other tools beside its own, which stay where both have a name."""
    return document | {"tools": {**tools, **document.get("tools", {})}}


def for_tasks(document: JsonObject, overlays: Mapping[str, JsonObject], of: Mapping[str, str]) -> JsonObject:
    """A world's document with `overlays` by name, and the one that the agents of each task at the top find."""
    return document | {"overlays": dict(overlays), "laid": dict(of)}


def overlay_of(document: JsonObject, task: str) -> str | None:
    """The overlay that the agents of `task`, a path such as `entry/child`, find; None when it is none.

    A later attempt, `entry--2`, finds what the first one found.
    """
    of: JsonObject = document.get("laid", {})
    top = task.partition("/")[0]
    name: str | None = of.get(top, of.get(top.rpartition("--")[0]))
    return name
