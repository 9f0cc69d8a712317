"""The parts of an opened plan and of a running one, as values: what `wiring.py` builds and the rest is handed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

import anyio

from planloop.app.background import Background
from planloop.app.places import Place
from planloop.reconciler.admitting.gate import Gate
from planloop.reconciler.clock import Clock, Ids
from planloop.reconciler.driving.engine import Engine
from planloop.reconciler.driving.queueing import AddressQueue
from planloop.reconciler.driving.working_pools import WorkPools
from planloop.reconciler.effects.processes import Processes
from planloop.reconciler.storing.owning import Owner
from planloop.reconciler.storing.sqlite_store import SqliteStore
from planloop.schemas.encoding import digest
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource
from planloop.server.hearing import Hearing

if TYPE_CHECKING:
    from planloop.controllers.agent.ports import Servers  # Agents are loaded only when needed.


@frozen
class Core:
    """A plan that this process owns: its log and its gate. `had_plan` says that it is not its first apply.

    `hearing` is where one listens to its models; `sending` is held while a message from outside finds out whether it
    was sent before.
    """

    place: Place
    store: SqliteStore
    gate: Gate
    clock: Clock
    ids: Ids
    owner: Owner
    had_plan: bool
    hearing: Hearing = field(default_factory=Hearing)
    sending: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def plan(self) -> Resource | None:
        """The plan object, None before the first apply."""
        return self.store.view.get(f"plan/{self.place.name}")


@frozen
class Machine:
    """What makes things happen. `servers` is asked for late: nothing of tool servers is loaded before."""

    processes: Processes
    queue: AddressQueue
    work: WorkPools
    engine: Engine
    background: Background
    servers: Callable[[], Servers]


def label_of(place: Place) -> str:
    """What marks this plan's processes, unique on this machine: two folders may each have a plan of one name.

    It is the same by whatever way the folder is named: who looks for what an owner left may have come by another.
    """
    return f"{place.name}-{digest(os.fsencode(os.path.realpath(place.folder)))[:12]}"
