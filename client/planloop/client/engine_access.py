"""The container engine of this machine, and the containers of a plan in it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from planloop.client.plan_paths import PlanPaths

if TYPE_CHECKING:
    from planloop.containers.engine.engine import ContainerEngine, FoundContainer
    from planloop.schemas.resource import Resource


def container_engine() -> ContainerEngine:
    """The container engine that the environment names. Nothing is asked of it yet."""
    from planloop.containers.engine.docker_engine import DockerEngine

    return DockerEngine(os.environ)


def preload_container_client() -> None:
    """Load the engine's client in a thread, because it takes 0.1 s and is needed soon."""
    import importlib
    from threading import Thread

    # None of our own modules: two threads that load what needs each other may see half of it.
    Thread(target=importlib.import_module, args=("docker",), daemon=True).start()


async def engine_containers(place: PlanPaths, item: Resource) -> tuple[FoundContainer, ...]:
    """What the engine has of the container `item` of the plan. Raises EngineFailed."""
    from planloop.client.plan_paths import plan_label
    from planloop.containers.engine.names import ADDRESS, ContainerNames, is_plan_container, tag_from_labels

    names, known = ContainerNames(place.name, plan_label(place)), (str((item.status.get("seen") or {}).get("id", "")),)
    there = await container_engine().containers({**names.ours, ADDRESS: item.address})
    ours = [(one, tag_from_labels(one.labels)) for one in there if is_plan_container(one, names, known)]
    return tuple(one for one, tag in ours if tag is not None and tag.uid == item.uid)
