"""Parts of an owner that are created on first use: background jobs, reconcilers, worlds."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from planloop.reconciler.engine.reconcile import Outcome, Reconciler
from planloop.schemas.address import Address
from planloop.schemas.canonical_json import JsonObject

# What runs beside the engine for as long as the owner lives: started when it is first needed, ended with the owner.
#
# Controllers are made late, inside the engine; what they need a task for (models, tool servers) is started here, so
# that it has the owner for its parent and not whoever asked for it first.

Job = Callable[[], Coroutine[Any, Any, None]]


class BackgroundJobs:
    """A task group that can be handed out before it is open."""

    def __init__(self) -> None:
        self._waiting: list[Job] = []
        self._group: TaskGroup | None = None

    def start(self, job: Job) -> None:
        """Runs `job` until it returns or the owner ends; before `run`, it waits."""
        if self._group is None:
            self._waiting.append(job)
        else:
            self._group.start_soon(job)

    async def run(self) -> None:
        """Runs all jobs until it is cancelled."""
        async with anyio.create_task_group() as group:
            self._group = group
            for job in self._waiting:
                group.start_soon(job)
            self._waiting.clear()
            await anyio.sleep_forever()


# What is made when it is first needed: a plan without agents does not pay 100 ms for importing their controller.

if TYPE_CHECKING:
    from planloop.controllers.shared.simulated_worlds import WorldCall, WorldOffer, Worlds


class LazyReconciler:
    """A `Reconciler` for `kind`, made by `make` for its first object. Only for one that hears of nothing before."""

    def __init__(self, kind: str, make: Callable[[], Reconciler]) -> None:
        self._kind = kind
        self._make = make
        self._made: Reconciler | None = None

    @property
    def kind(self) -> str:
        return self._kind

    async def reconcile(self, address: Address) -> Outcome:
        """See `Reconciler.reconcile`."""
        if self._made is None:
            self._made = self._make()
        return await self._made.reconcile(address)


class LazyWorlds:
    """`Worlds` made by `make` for the first server that is one: hardly any plan has them."""

    def __init__(self, make: Callable[[], Worlds]) -> None:
        self._make = make
        self._made: Worlds | None = None

    def offer(self, file: str, server: str) -> WorldOffer:
        """See `Worlds.offer`."""
        return self._worlds().offer(file, server)

    def call(self, file: str, tool: str, arguments: JsonObject, *, task: str, kept: JsonObject) -> WorldCall:
        """See `Worlds.call`."""
        return self._worlds().call(file, tool, arguments, task=task, kept=kept)

    def _worlds(self) -> Worlds:
        if self._made is None:
            self._made = self._make()
        return self._made
