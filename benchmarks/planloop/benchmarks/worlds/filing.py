"""A world's document with what is laid over it for each task: who finds which world."""

from __future__ import annotations

from dataclasses import field

from planloop.benchmarks.worlds.laying import laid, overlay_of
from planloop.benchmarks.worlds.reading import world_of
from planloop.benchmarks.worlds.world import World
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import mutable


@mutable
class WorldFile:
    """`document` is the canonical one, `world` what is made of it, `digest` that of the bytes it was read from."""

    document: JsonObject
    world: World
    digest: str = ""
    _laid: dict[str, World] = field(default_factory=dict)

    def found_by(self, task: str) -> World:
        """The world as the agents of `task`, a path such as `entry/child`, find it at first."""
        name = overlay_of(self.document, task)
        if name is None:
            return self.world
        if name not in self._laid:
            self._laid[name] = laid(self.world, self.document.get("overlays", {}).get(name, {}))
        return self._laid[name]


def file_of(document: JsonObject) -> WorldFile:
    """The file of a document that is known to be sound."""
    read = world_of(document)
    assert read.world is not None and read.document is not None, read.diagnostics
    return WorldFile(read.document, read.world)
