"""The container that tests run commands in, named by its id."""

from __future__ import annotations

from containers.sandboxing.rooms import NoRooms, Rooms


def rooms_of(container: str) -> Rooms:
    del container
    return NoRooms()
