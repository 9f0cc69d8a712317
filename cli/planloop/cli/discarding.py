"""Throws away stopped containers that were kept for somebody to look into."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import click

from planloop.app.access import Access
from planloop.app.exits import Exit, Halt
from planloop.schemas.resource import Resource


def discard(access: Access, addresses: Sequence[str], *, dry_run: bool) -> None:
    """Removes what is left of the containers at `addresses`; their plan stays as it is. Raises Halt.

    The owner of the plan, where there is one, sees that they have gone and notes it itself.
    """
    for address in addresses:
        if dry_run:
            click.echo(f"{address}: what was kept of it would be removed; plan logs {address} stays")
            continue
        access.refuse_insiders()
        if access.is_owned():
            _remove(access, access.object(address))
        else:
            from planloop.app import parting

            if faults := parting.discard(access.place, address):
                raise Halt(Exit.FAILED, "\n".join(faults))
        click.echo(f"{address}: what was kept of it is removed; plan logs {address} stays")


def _remove(access: Access, item: Resource) -> None:
    from planloop.app import wiring
    from planloop.containers.engine import EngineFailed

    async def remove() -> None:
        engine = wiring.container_engine()
        for one in await wiring.containers_of(access.place, item):
            if one.state not in ("running", "paused", "restarting"):
                await engine.remove(one.id)

    try:
        anyio.run(remove)
    except EngineFailed as failed:
        raise Halt(Exit.FAILED, f"{item.address}: {failed}", failed.hint) from failed
