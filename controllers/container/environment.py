"""The variables of a container with what they point at, and how their secrets are kept out of what it writes."""

from __future__ import annotations

from collections.abc import Iterator

from containers.engine import EngineFailed, Reason
from controllers.container.yard import Yard
from reconciler.effects import secrets
from reconciler.storing.masking import Masks
from schemas.container import ContainerSpec
from schemas.secret import SECRET


def environment(spec: ContainerSpec, yard: Yard) -> dict[str, str]:
    """Each variable with its value, looked up now and kept nowhere. Raises EngineFailed when a secret is not there."""
    try:
        return {name: secrets.resolved(value, yard.environment, yard.folder) for name, value in spec.env.items()}
    except secrets.NotThere as missing:
        hint = "put it there, or set the variable and run plan apply with it; nothing else need change"
        raise EngineFailed(Reason.NO_SECRET, str(missing), hint) from None


def masks(spec: ContainerSpec, yard: Yard) -> Masks:
    """What stands in the way of its `secret:` values, wherever it prints them."""
    return Masks().with_secrets(_values(spec, yard))


def _values(spec: ContainerSpec, yard: Yard) -> Iterator[str]:
    for value in spec.env.values():
        if value.startswith(SECRET):
            try:
                yield secrets.secret(value, yard.environment, yard.folder)
            except secrets.NotThere:
                continue
