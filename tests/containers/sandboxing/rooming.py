"""The container that tests run commands in, named by its id; what is mounted is where it is here."""

from __future__ import annotations

import os
import sys

from planloop.containers.docker_engine import DockerEngine
from planloop.containers.finding import engine_address
from planloop.containers.sandboxing.rooms import EngineRooms, NoRooms, Room, Rooms


def rooms_of(container: str) -> Rooms:
    if not container:
        return NoRooms()
    env = os.environ  # noqa: TID251 - as in wiring
    return EngineRooms(
        lambda: DockerEngine(env), engine_address(env), sys.executable, lambda name: Room(name, {"/": "/"})
    )
