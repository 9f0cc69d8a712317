"""The container of a sandbox as the plan's objects have it."""

from __future__ import annotations

from pathlib import Path

from planloop.containers.sandboxing.rooms import Room
from planloop.controllers.inside import ground_of, standing
from planloop.reconciler.storing.store import View
from planloop.schemas.container import KIND, container_from_json


def room_of(view: View, name: str, folder: Path) -> Room | str:
    """The container `name` of the plan in `folder`, or why nobody can be in it."""
    found = view.get(f"{KIND}/{name}")
    if found is None:
        return f"the plan has no container `{name}`"
    now = standing(found)
    if not now.is_up:
        return now.words
    spec = container_from_json(found.spec)
    ground = ground_of(view, spec, folder)
    return Room(now.id, {str(ground.at(one.host).resolve()): one.target for one in spec.mounts if one.host})
