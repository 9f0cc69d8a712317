"""What becomes of a plan's containers when nobody runs it any more. Of plans without any, nothing here is ever loaded.

Containers outlive their owner. One that leaves (Ctrl-C, `q`) says so; `plan down` takes them down, with an owner or
without; a plan that is over is not left before they are gone, or it is said why they are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from planloop.app import wiring
from planloop.app.core import Core, label_of
from planloop.app.places import Place
from planloop.reconciler.driving.queueing import AddressQueue
from planloop.reconciler.driving.working_pools import WorkPools
from planloop.schemas import amounts, limits
from planloop.schemas.container import ContainerState
from planloop.schemas.resource import Resource

if TYPE_CHECKING:
    from planloop.controllers.container import Left, Yard

NAMED_MAX: Final = 5
_UP: Final = frozenset({"running", "paused"})


def going_on(containers: Iterable[Resource]) -> str:
    """`3 containers go on: container/a, …; plan down removes them`; empty when there is none that runs."""
    runs = [one.address for one in containers if _goes_on(one)]
    if not runs:
        return ""
    verb, them = ("goes", "it") if len(runs) == 1 else ("go", "them")
    named = ", ".join(runs[:NAMED_MAX]) + (", …" if len(runs) > NAMED_MAX else "")
    return f"{amounts.plural(len(runs), 'container')} {verb} on running: {named}; plan down removes {them}"


def _goes_on(one: Resource) -> bool:
    """Whether it runs, or will in a moment, because the engine was asked for it already."""
    return (one.status.get("seen") or {}).get("run") in _UP or one.status.get("doing") == "start"


async def until_gone(core: Core, work: WorkPools) -> None:
    """Returns when the controllers have taken down what a plan that is over does not need, or have given up."""
    if not core.store.view.list("container"):
        return
    from planloop.controllers.container import remaining

    yard = wiring.container_yard(core, work, wiring.container_engine())
    moved = anyio.Event()
    core.store.on_change(lambda *_: moved.set())  # Always the newest one.
    with anyio.move_on_after(limits.CONTAINERS_DOWN_S):
        while remaining(yard):
            await moved.wait()
            moved = anyio.Event()


async def clear(core: Core, say: Callable[[str], None]) -> bool:
    """After a plan is over, remove containers that are not needed, and print which stay and why. False if one stays."""
    if not core.store.view.list("container"):
        return True
    from planloop.controllers import container

    left = await container.clear(_yard(core))
    for line in lines(left):
        say(line)
    return not left.faults


async def take_down(core: Core, say: Callable[[str], None], *, with_volumes: bool) -> None:
    """Takes down all containers of the plan, when no controller is at work any more, and says what became of them."""
    if with_volumes or core.store.view.list("container"):  # Volumes outlive those that had them.
        from planloop.controllers import container

        for line in lines(await container.take_down(_yard(core), with_volumes=with_volumes)):
            say(line)


async def sweep_grading(core: Core) -> None:
    """Removes the containers in which an owner that died was grading. An engine that is down is told of elsewhere."""
    if core.store.view.list("case"):
        from planloop.benchmarks.grading import program
        from planloop.containers.engine import EngineFailed

        with suppress(EngineFailed):
            await program.sweep(wiring.container_engine(), label_of(core.place))


def without_owner(place: Place, *, with_volumes: bool) -> Left:
    """The same for a plan that nobody runs: what came of it. Raises NotOwner."""
    from planloop.controllers import container

    async def take() -> Left:
        async with wiring.opened(place) as core:
            return await container.take_down(_yard(core), with_volumes=with_volumes)

    return anyio.run(take)


def discard(place: Place, address: str) -> tuple[str, ...]:
    """Removes what was kept of a container of a plan that nobody runs; what went wrong. Raises NotOwner."""
    from planloop.controllers import container

    async def remove() -> tuple[str, ...]:
        async with wiring.opened(place) as core:
            return (await container.discard(_yard(core), address)).faults

    return anyio.run(remove)


def lines(left: Left) -> list[str]:
    """What is to be said of it, one line each."""
    return done(left) + list(left.faults)


def done(left: Left) -> list[str]:
    """What has gone, and what stays because it is wanted to, one line each."""
    out = [f"{amounts.plural(left.removed, 'container')} removed"] if left.removed else []
    if left.volumes_removed:
        out.append(f"{amounts.plural(len(left.volumes_removed), 'volume')} removed: {', '.join(left.volumes_removed)}")
    out += [f"{address} is kept; plan delete {address} removes it" for address in left.kept]
    return out + _with_data(left.volumes)


def told(before: Sequence[Resource], after: Sequence[Resource], *, with_volumes: bool) -> tuple[list[str], bool]:
    """What an owner that took the containers down has made of them, from their statuses before and now.

    And whether all is as it was to be: nothing is left that is not kept.
    """
    had = {one.address for one in before if one.status.get("seen")}
    left = [one for one in after if one.status.get("seen")]
    removed = len(had - {one.address for one in left})
    out = [f"{amounts.plural(removed, 'container')} removed"] if removed else []
    for one in left:
        ready = one.status.get("conditions", {}).get("Ready", {})
        out.append(f"{one.address} is {one.state}: {ready.get('message', '')}")
        out += [f"  {cure}" for cure in ready.get("unblocks", ())]
    volumes = sorted({mount["volume"] for one in after for mount in one.spec["mounts"] if mount["volume"]})
    out += [] if with_volumes else _with_data(volumes)
    return out, all(one.state == ContainerState.KEPT for one in left)


def _with_data(volumes: Sequence[str]) -> list[str]:
    them = "it" if len(volumes) == 1 else "them"
    stay = f"{amounts.plural(len(volumes), 'volume')} with data left: {', '.join(volumes)}"
    return [f"{stay}; plan down --volumes removes {them}"] if volumes else []


def _yard(core: Core) -> Yard:
    return wiring.container_yard(core, WorkPools(AddressQueue()), wiring.container_engine())
