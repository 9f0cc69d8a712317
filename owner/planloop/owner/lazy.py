"""Parts of an owner that are created on first use: background jobs, reconcilers, worlds."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from planloop.reconciler.engine.reconcile import Outcome, Reconciler
from planloop.schemas.address import Address
from planloop.schemas.canonical_json import JsonObject

# Background jobs start when they are first needed, and end with the owner.
#
# Controllers are created late, inside the engine. Their jobs (models, tool servers) are started here, so that they are
# children of the owner's task and not of the task that first needs them.

Job = Callable[[], Coroutine[Any, Any, None]]


class BackgroundJobs:
    """A task group that can be handed out before it is open."""

    def __init__(self) -> None:
        self._waiting: list[Job] = []
        self._group: TaskGroup | None = None

    def start(self, job: Job) -> None:
        """Run `job` until it returns or the owner stops. Before `run`, the job waits."""
        if self._group is None:
            self._waiting.append(job)
        else:
            self._group.start_soon(job)

    async def run(self) -> None:
        """Run all jobs until cancelled."""
        async with anyio.create_task_group() as group:
            self._group = group
            for job in self._waiting:
                group.start_soon(job)
            self._waiting.clear()
            await anyio.sleep_forever()


# Controllers are created when first needed: importing the agent controller takes 100 ms, which many plans can save.

if TYPE_CHECKING:
    from planloop.controllers.shared.simulated_worlds import WorldCall, WorldOffer, Worlds


class LazyReconciler:
    """A `Reconciler` for `kind` that `make` creates for the first object. Not for one that needs earlier events."""

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
    """`Worlds` that `make` creates for the first simulated server. Few plans have one."""

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
