"""The `ws` check: passes when websocket clients receive what its steps state."""

from __future__ import annotations

from planloop.controllers.task.checks.contract import CheckEnvironment, CheckFinding
from planloop.schemas.objects.task import CheckSpec

__all__ = ["check_ws"]


async def check_ws(spec: CheckSpec, bench: CheckEnvironment) -> CheckFinding:
    """Holds when there is a way in which all steps do."""
    from planloop.controllers.task.checks.ws import conversation  # noqa: PLC0415 - takes 14 ms, and most plans have no such check

    return await conversation.check_conversation(spec, bench)
