"""The variables of a container with what they point at."""

from __future__ import annotations

from planloop.containers.engine import EngineFailed, Reason
from planloop.controllers.container.yard import Yard
from planloop.reconciler.effects import secrets
from planloop.schemas.container import ContainerSpec


def environment(spec: ContainerSpec, yard: Yard, *, has_home: bool = True) -> dict[str, str]:
    """Each variable with its value, looked up now and kept nowhere. Raises EngineFailed when a secret is not there.

    Without `has_home`, for a user that the image may not know, HOME is a folder that everybody may write.
    """
    try:
        return ({} if has_home else {"HOME": "/tmp"}) | {
            name: secrets.resolved(value, yard.environment, yard.folder) for name, value in spec.env.items()
        }
    except secrets.NotThere as missing:
        hint = "put it there, or set the variable and run plan apply with it; nothing else need change"
        raise EngineFailed(Reason.NO_SECRET, str(missing), hint) from None
