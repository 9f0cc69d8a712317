"""Owners that die at a write of the log, one after the other, until one lives to the end.

A test says what an owner does in `Play`: apply the plan if there is none, wait for its end, look whether it is as it
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
    """What else an owner is given, as in `arena`."""

    tools: Mapping[str, Tool]
    models: ModelClient
    git: Wrapping


def crashing(after: int) -> StoreOptions:
    """A store that dies when it has made `after` batches durable, before anybody hears of the last."""
    left = after

    def hook(point: str, rev: int) -> None:
        nonlocal left
        if point == "after-commit":
            left -= 1
            if left <= 0:
                raise StoreFailed("crash", "none")

    return StoreOptions(hook=hook)


async def lived(play: Play, folder: Path, epoch: int, after: int | None = None, **place: Unpack[Place]) -> bool:
    """Has an owner play, which dies after so many batches (None: never). Whether it came to the end."""
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
    """One owner after the other dies after so many batches; then one that lives plays to the end."""
    for epoch, after in enumerate(lives, start=1):
        if await lived(play, folder, epoch, after, **place):
            return
    with anyio.fail_after(REST_S):
        assert await lived(play, folder, len(lives) + 1, **place)


async def to_the_end(here: Arena, text: str) -> None:
    """Applies the plan unless an earlier owner did, and returns when it is done or has failed, and nothing moves."""
    if here.find("plan/arena") is None:
        await here.apply(text)
    await here.until_state("task/.", "done", "failed")
    await here.settled()
