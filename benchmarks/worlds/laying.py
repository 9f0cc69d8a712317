"""Worlds as they lie in a run's folder: tables laid over for each case, and decoys beside the world's own tools.

What a case adds stands in the same file under `overlays`, and which task has which under `laid`: agents are told the
file's name, and nothing of what is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from benchmarks.worlds.reading import serials
from benchmarks.worlds.world import World
from schemas import patching
from schemas.encoding import JsonObject


def laid(world: World, tables: JsonObject) -> World:
    """The world with rows laid over its own: fields are merged, null takes a row away."""
    merged = patching.merge(dict(world.tables), tables)
    return replace(world, tables=merged, start=merged, serials=serials(merged))


def with_tools(document: JsonObject, pools: Iterable[JsonObject]) -> JsonObject:
    """A world's document with the tools of pools beside its own, which stay where both have a name."""
    tools: JsonObject = {}
    for pool in pools:
        tools |= pool.get("tools", {})
    return document | {"tools": tools | document.get("tools", {})}


def for_tasks(document: JsonObject, overlays: Mapping[str, JsonObject], of: Mapping[str, str]) -> JsonObject:
    """A world's document with `overlays` by name, and the one that each task's agents find."""
    return document | {"overlays": dict(overlays), "laid": dict(of)}


def overlay_of(document: JsonObject, task: str) -> str | None:
    """The overlay that the agents of `task`, a path such as `entry/child`, find; None when it is none."""
    parts = task.split("/")
    for length in range(len(parts), 0, -1):
        name: str | None = document.get("laid", {}).get("/".join(parts[:length]))
        if name is not None:
            return name
    return None
