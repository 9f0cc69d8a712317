"""The `ws` check: holds when clients of a websocket hear of each other what its steps say, in some usual way."""

from __future__ import annotations

from planloop.controllers.task.checking.contract import Bench, Finding
from planloop.schemas.task import CheckSpec

__all__ = ["check"]


async def check(spec: CheckSpec, bench: Bench) -> Finding:
    """Holds when there is a way in which all steps do."""
    from planloop.controllers.task.checking.ws import trying  # noqa: PLC0415 - takes 14 ms, and most plans have no such check

    return await trying.check(spec, bench)
