"""Containers of a plan when its owner stops: keep, stop, remove, report.

Containers outlive their owner. An owner that detaches (Ctrl-C, `q`) reports the running ones. `plan down` removes them,
whether an owner is running or not. When a plan ends, its owner waits until they are removed, or reports why they are
not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from planloop.client import engine_access
from planloop.client.plan_paths import PlanPaths, plan_label
from planloop.owner import build
from planloop.reconciler.engine.queue import AddressQueue
from planloop.reconciler.engine.work_pools import WorkPools
from planloop.schemas import limits, quantities
from planloop.schemas.objects.container import ContainerState
from planloop.schemas.resource import Resource
from planloop.server import opened_plan
from planloop.server.opened_plan import OpenedPlan

if TYPE_CHECKING:
    from planloop.controllers.container.context import ContainerContext
    from planloop.controllers.container.teardown import TeardownResult

NAMED_MAX: Final = 5
_UP: Final = frozenset({"running", "paused"})


def running_containers_note(containers: Iterable[Resource]) -> str:
    """Return a note on running containers; empty if none is running."""
    runs = [one.address for one in containers if _is_up(one)]
    if not runs:
        return ""
    verb, them = ("keeps", "it") if len(runs) == 1 else ("keep", "them")
    named = ", ".join(runs[:NAMED_MAX]) + (", …" if len(runs) > NAMED_MAX else "")
    return f"{quantities.pluralize(len(runs), 'container')} {verb} running: {named}; plan down removes {them}"


def _is_up(one: Resource) -> bool:
    """Return whether the container is running, or the engine is starting it."""
    return (one.status.get("seen") or {}).get("run") in _UP or one.status.get("doing") == "start"


async def wait_until_gone(core: OpenedPlan, work: WorkPools) -> None:
    """Wait until the controllers have removed the containers that an ended plan does not need, or have given up."""
    if not core.store.view.list("container"):
        return
    from planloop.controllers.container.teardown import containers_to_remove

    context = build.container_context(core, work, engine_access.container_engine())
    moved = anyio.Event()
    core.store.on_change(lambda *_: moved.set())  # Always the newest one.
    with anyio.move_on_after(limits.CONTAINERS_DOWN_S):
        while containers_to_remove(context):
            await moved.wait()
            moved = anyio.Event()


async def remove_unneeded(core: OpenedPlan, say: Callable[[str], None]) -> bool:
    """After a plan has ended, remove unneeded containers and report which stay. Return whether all were removed."""
    if not core.store.view.list("container"):
        return True
    from planloop.controllers.container import teardown

    left = await teardown.remove_leftovers(_context(core))
    for line in teardown_lines(left):
        say(line)
    return not left.faults


async def take_down(core: OpenedPlan, say: Callable[[str], None], *, with_volumes: bool) -> None:
    """Remove all containers of the plan, and report the result. Call it when no controller is running."""
    if with_volumes or core.store.view.list("container"):  # Volumes outlive their containers.
        from planloop.controllers.container import teardown

        for line in teardown_lines(await teardown.tear_down(_context(core), with_volumes=with_volumes)):
            say(line)


async def sweep_grading(core: OpenedPlan) -> None:
    """Remove the containers that a crashed owner used for grading. Ignore an engine that does not answer."""
    if core.store.view.list("case"):
        from planloop.benchmarks.grading import containers
        from planloop.containers.engine.engine import EngineFailed

        with suppress(EngineFailed):
            await containers.remove_leftovers(engine_access.container_engine(), plan_label(core.place))


def take_down_offline(place: PlanPaths, *, with_volumes: bool) -> TeardownResult:
    """Remove all containers of a plan that is not running. Raises NotOwner."""
    from planloop.controllers.container import teardown

    async def take() -> TeardownResult:
        async with opened_plan.open_plan(place) as core:
            return await teardown.tear_down(_context(core), with_volumes=with_volumes)

    return anyio.run(take)


def discard_container(place: PlanPaths, address: str) -> tuple[str, ...]:
    """Remove a kept container of a plan that is not running; return the problems. Raises NotOwner."""
    from planloop.controllers.container import teardown

    async def remove() -> tuple[str, ...]:
        async with opened_plan.open_plan(place) as core:
            return (await teardown.discard_kept(_context(core), address)).faults

    return anyio.run(remove)


def teardown_lines(left: TeardownResult) -> list[str]:
    """Return the result of a teardown as lines."""
    return removed_lines(left) + list(left.faults)


def removed_lines(left: TeardownResult) -> list[str]:
    """Return removed and intentionally kept containers as lines."""
    out = [f"{quantities.pluralize(left.removed, 'container')} removed"] if left.removed else []
    if left.volumes_removed:
        out.append(
            f"{quantities.pluralize(len(left.volumes_removed), 'volume')} removed: {', '.join(left.volumes_removed)}"
        )
    out += [f"{address} is kept; plan delete {address} removes it" for address in left.kept]
    return out + _with_data(left.volumes)


def teardown_report(
    before: Sequence[Resource], after: Sequence[Resource], *, with_volumes: bool
) -> tuple[list[str], bool]:
    """Return lines on the result of the owner's teardown, from the containers' statuses before and after it.

    Also returns whether only containers that are to be kept remain.
    """
    had = {one.address for one in before if one.status.get("seen")}
    left = [one for one in after if one.status.get("seen")]
    removed = len(had - {one.address for one in left})
    out = [f"{quantities.pluralize(removed, 'container')} removed"] if removed else []
    for one in left:
        ready = one.status.get("conditions", {}).get("Ready", {})
        out.append(f"{one.address} is {one.state}: {ready.get('message', '')}")
        out += [f"  {fix}" for fix in ready.get("unblocks", ())]
    volumes = sorted({mount["volume"] for one in after for mount in one.spec["mounts"] if mount["volume"]})
    out += [] if with_volumes else _with_data(volumes)
    return out, all(one.state == ContainerState.KEPT for one in left)


def _with_data(volumes: Sequence[str]) -> list[str]:
    them = "it" if len(volumes) == 1 else "them"
    stay = f"{quantities.pluralize(len(volumes), 'volume')} with data left: {', '.join(volumes)}"
    return [f"{stay}; plan down --volumes removes {them}"] if volumes else []


def _context(core: OpenedPlan) -> ContainerContext:
    return build.container_context(core, WorkPools(AddressQueue()), engine_access.container_engine())
