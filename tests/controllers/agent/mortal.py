"""Owners that die at a write of the log, one after the other, until one lives to the end.

A test says what an owner does in `Play`: apply the plan if it is missing, wait for its end, look whether it is as it
should be. It is the same for the owner that dies and for the one that comes after it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypedDict, Unpack

import anyio

from planloop.reconciler.errors import StoreFailed
from planloop.reconciler.store.sqlite.sqlite_store import StoreOptions
from tests.controllers.agent.arena import Arena, Wrapping, arena

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planloop.controllers.agent.tools.tool import Tool
    from tests.product import ModelClient

REST_S = 45.0  # For the owner that lives: less than the minute after which a timer makes up for a lost wake-up.

Play: TypeAlias = Callable[[Arena], Awaitable[None]]


class Place(TypedDict, total=False):
    """Further arguments of `arena`."""

    tools: Mapping[str, Tool]
    models: ModelClient
    git: Wrapping


def crashing(after: int) -> StoreOptions:
    """A store that dies after it has made `after` batches durable, before the caller learns of the last one."""
    left = after

    def hook(point: str, rev: int) -> None:
        nonlocal left
        if point == "after-commit":
            left -= 1
            if left <= 0:
                raise StoreFailed("crash", "none")

    return StoreOptions(hook=hook)


async def lived(play: Play, folder: Path, epoch: int, after: int | None = None, **place: Unpack[Place]) -> bool:
    """Run `play` with an owner that dies after this number of batches (None: never). Returns whether it finished."""
    is_over = False
    options = None if after is None else crashing(after)
    try:
        async with arena(folder, epoch=epoch, options=options, is_inline=True, **place) as here:
            await play(here)
            is_over = True
    except* StoreFailed:
        pass
    return is_over


async def live_and_die(play: Play, folder: Path, lives: Sequence[int], **place: Unpack[Place]) -> None:
    """Run one owner after another, each of which dies after this number of batches, then one to the end."""
    for epoch, after in enumerate(lives, start=1):
        if await lived(play, folder, epoch, after, **place):
            return
    with anyio.fail_after(REST_S):
        assert await lived(play, folder, len(lives) + 1, **place)


async def to_the_end(here: Arena, text: str) -> None:
    """Apply the plan unless an earlier owner did, and return when it is done or has failed, and is at rest."""
    if here.find("plan/arena") is None:
        await here.apply(text)
    await here.until_state("task/.", "done", "failed")
    await here.settled()
