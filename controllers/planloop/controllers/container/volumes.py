"""The volumes of a container, made where they are not there. They stay when it goes, and so does whose they are.

People take up any volume of the plan. An agent takes up what it has made, or agents below it: what was left by others
is not its to read, also when no container of the plan has it any more.
"""

from __future__ import annotations

from planloop.containers.engine import EngineFailed, Reason
from planloop.controllers.container.yard import Yard
from planloop.reconciler.admitting.containing import maker_of
from planloop.reconciler.admitting.present import PresentReader
from planloop.schemas.container import ContainerSpec


async def make(yard: Yard, name: str, spec: ContainerSpec) -> None:
    """Returns when all volumes of the container `name` are there. Raises EngineFailed."""
    wanted = [mount.volume for mount in spec.mounts if mount.volume]
    labels = yard.names.of_volume(_maker(yard, name)) if wanted else {}
    for volume in wanted:
        try:
            await yard.engine.make_volume(yard.names.volume(volume), labels)
        except EngineFailed as fault:
            if fault.reason is not Reason.NAME_TAKEN or yard.names.volume(volume) not in await yard.volumes():
                raise
            why = f"the volume `{volume}` holds what others have left in it"
            raise EngineFailed(Reason.NAME_TAKEN, why, "give it another name under `mounts`") from None


def _maker(yard: Yard, name: str) -> str | None:
    plan = next(iter(yard.store.view.list("plan")), None)
    return None if plan is None else maker_of(PresentReader(yard.store, plan.address).read(), name)
