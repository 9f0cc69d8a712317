"""When a reader of lines is told of a container: one that fails again and again is told of ever more seldom.

The first failure is told at once. More of the same is told when it has gone on for 10 s, 30 s, 70 s and so on, always
with how often it was tried and when it is tried next. That it runs is told once it has stayed so, because one that
crashes does run each time. What has another end is told at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from planloop.schemas import limits
from planloop.schemas.condition import of_status
from planloop.schemas.container import ContainerState
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource

FIRST_S: Final = 10.0
LONGEST_S: Final = 300.0


@frozen
class _Trouble:
    """What was told of it at `told_at`, and is not told again for `pause_s`. `up_at`: since when it runs again."""

    what: str
    is_crash: bool
    told_at: float
    pause_s: float = FIRST_S
    up_at: float | None = None


class Folding:
    """Of the containers of one plan. Times are seconds since 1970."""

    def __init__(self) -> None:
        self._troubles: dict[str, _Trouble] = {}

    @property
    def is_holding(self) -> bool:
        """Whether `due` will have something to tell if nothing happens."""
        return any(one.up_at is not None for one in self._troubles.values())

    def is_told(self, item: Resource, at: float) -> bool:
        """Whether the state that `item` came into at `at` is told now."""
        before, what = self._troubles.get(item.address), _trouble(item)
        if what:
            return self._is_news(item, what, at)
        if before is None:
            return True
        if item.state == ContainerState.STARTING or (item.state == ContainerState.RUNNING and before.is_crash):
            up_at = at if item.state == ContainerState.RUNNING else None
            self._troubles[item.address] = replace(before, up_at=up_at)
            return False
        if item.state != ContainerState.PREPARING:
            del self._troubles[item.address]
        return True

    def due(self, at: float) -> list[str]:
        """The addresses of those that have run for long enough to be told of; each once."""
        held = {address: one.up_at for address, one in self._troubles.items() if one.up_at is not None}
        found = [address for address, up_at in held.items() if at - up_at >= limits.CONTAINER_STEADY_S]
        for address in found:
            del self._troubles[address]
        return found

    def _is_news(self, item: Resource, what: str, at: float) -> bool:
        before = self._troubles.get(item.address)
        if before is not None and before.what == what:
            is_late = at - before.told_at >= before.pause_s
            pause_s = min(before.pause_s * 2, LONGEST_S) if is_late else before.pause_s
            told_at = at if is_late else before.told_at
            self._troubles[item.address] = replace(before, told_at=told_at, pause_s=pause_s, up_at=None)
            return is_late
        # That the engine does not answer is told once, and not of each container.
        is_said = bool(item.status.get("engine")) and any(one.what == what for one in self._troubles.values())
        self._troubles[item.address] = _Trouble(what, item.state == ContainerState.RESTARTING, at)
        return not is_said


def _trouble(item: Resource) -> str:
    """What is tried again, in the same words each time; empty when nothing is."""
    ready = of_status(item.status).get("Ready")
    if ready is None or item.state not in (ContainerState.WAITING, ContainerState.RESTARTING):
        return ""
    if (engine := item.status.get("engine")) is not None:
        return f"{engine.get('reason', '')} {engine.get('why', '')}"
    return f"{ready.reason} {item.status.get('why', '')}" if item.status.get("retry_at") is not None else ""
