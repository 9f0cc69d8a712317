"""Containers of a plan when its owner ends: keep, take down, remove, report.

Containers outlive their owner. One that leaves (Ctrl-C, `q`) says so; `plan down` takes them down, with an owner or
without; a plan that is over is not left before they are gone, or it is said why they are not.
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
    """`3 containers go on: container/a, …; plan down removes them`; empty when there is none that runs."""
    runs = [one.address for one in containers if _goes_on(one)]
    if not runs:
        return ""
    verb, them = ("goes", "it") if len(runs) == 1 else ("go", "them")
    named = ", ".join(runs[:NAMED_MAX]) + (", …" if len(runs) > NAMED_MAX else "")
    return f"{quantities.pluralize(len(runs), 'container')} {verb} on running: {named}; plan down removes {them}"


def _goes_on(one: Resource) -> bool:
    """Whether it runs, or will in a moment, because the engine was asked for it already."""
    return (one.status.get("seen") or {}).get("run") in _UP or one.status.get("doing") == "start"


async def wait_until_gone(core: OpenedPlan, work: WorkPools) -> None:
    """Returns when the controllers have taken down what a plan that is over does not need, or have given up."""
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
    """After a plan is over, remove containers that are not needed, and print which stay and why. False if one stays."""
    if not core.store.view.list("container"):
        return True
    from planloop.controllers.container import teardown

    left = await teardown.remove_leftovers(_context(core))
    for line in teardown_lines(left):
        say(line)
    return not left.faults


async def take_down(core: OpenedPlan, say: Callable[[str], None], *, with_volumes: bool) -> None:
    """Takes down all containers of the plan, when no controller is at work any more, and says what became of them."""
    if with_volumes or core.store.view.list("container"):  # Volumes outlive those that had them.
        from planloop.controllers.container import teardown

        for line in teardown_lines(await teardown.tear_down(_context(core), with_volumes=with_volumes)):
            say(line)


async def sweep_grading(core: OpenedPlan) -> None:
    """Removes the containers in which an owner that died was grading. An engine that is down is told of elsewhere."""
    if core.store.view.list("case"):
        from planloop.benchmarks.grading import containers
        from planloop.containers.engine.engine import EngineFailed

        with suppress(EngineFailed):
            await containers.remove_leftovers(engine_access.container_engine(), plan_label(core.place))


def take_down_offline(place: PlanPaths, *, with_volumes: bool) -> TeardownResult:
    """The same for a plan that nobody runs: what came of it. Raises NotOwner."""
    from planloop.controllers.container import teardown

    async def take() -> TeardownResult:
        async with opened_plan.open_plan(place) as core:
            return await teardown.tear_down(_context(core), with_volumes=with_volumes)

    return anyio.run(take)


def discard_container(place: PlanPaths, address: str) -> tuple[str, ...]:
    """Removes what was kept of a container of a plan that nobody runs; what went wrong. Raises NotOwner."""
    from planloop.controllers.container import teardown

    async def remove() -> tuple[str, ...]:
        async with opened_plan.open_plan(place) as core:
            return (await teardown.discard_kept(_context(core), address)).faults

    return anyio.run(remove)


def teardown_lines(left: TeardownResult) -> list[str]:
    """What is to be said of it, one line each."""
    return removed_lines(left) + list(left.faults)


def removed_lines(left: TeardownResult) -> list[str]:
    """What has gone, and what stays because it is wanted to, one line each."""
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
    """What an owner that took the containers down has made of them, from their statuses before and now.

    And whether all is as it was to be: nothing is left that is not kept.
    """
    had = {one.address for one in before if one.status.get("seen")}
    left = [one for one in after if one.status.get("seen")]
    removed = len(had - {one.address for one in left})
    out = [f"{quantities.pluralize(removed, 'container')} removed"] if removed else []
    for one in left:
        ready = one.status.get("conditions", {}).get("Ready", {})
        out.append(f"{one.address} is {one.state}: {ready.get('message', '')}")
        out += [f"  {cure}" for cure in ready.get("unblocks", ())]
    volumes = sorted({mount["volume"] for one in after for mount in one.spec["mounts"] if mount["volume"]})
    out += [] if with_volumes else _with_data(volumes)
    return out, all(one.state == ContainerState.KEPT for one in left)


def _with_data(volumes: Sequence[str]) -> list[str]:
    them = "it" if len(volumes) == 1 else "them"
    stay = f"{quantities.pluralize(len(volumes), 'volume')} with data left: {', '.join(volumes)}"
    return [f"{stay}; plan down --volumes removes {them}"] if volumes else []


def _context(core: OpenedPlan) -> ContainerContext:
    return build.container_context(core, WorkPools(AddressQueue()), engine_access.container_engine())
