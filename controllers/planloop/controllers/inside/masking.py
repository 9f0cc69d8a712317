"""What stands in the way of the secrets of a container, in whatever comes out of it."""

from __future__ import annotations

from planloop.containers.engine import Engine, EngineFailed, Reason
from planloop.containers.hiding import masks_of
from planloop.reconciler.effects.masking import Masks


async def masks(engine: Engine, ref: str) -> Masks:
    """The masks of the container `ref`. Raises EngineFailed: NOT_FOUND where there is none.

    Of one that is gone, nobody knows the secrets any more: what it has said is then not to be told.
    """
    found = await engine.container(ref)
    if found is None:
        raise EngineFailed(Reason.NOT_FOUND, f"there is no container {ref[:12]} any more", "")
    return masks_of(found.labels, found.env)
