"""What runs beside the engine for as long as the owner lives: started when it is first needed, ended with the owner.

Controllers are made late, inside the engine; what they need a task for (models, tool servers) is started here, so that
it has the owner for its parent and not whoever asked for it first.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from anyio.abc import TaskGroup

Job = Callable[[], Coroutine[Any, Any, None]]


class Background:
    """A task group that can be handed out before it is open."""

    def __init__(self) -> None:
        self._waiting: list[Job] = []
        self._group: TaskGroup | None = None

    def start(self, job: Job) -> None:
        """Runs `job` until it returns or the owner ends; before `run`, it waits."""
        if self._group is None:
            self._waiting.append(job)
        else:
            self._group.start_soon(job)

    async def run(self) -> None:
        """Runs all jobs until it is cancelled."""
        async with anyio.create_task_group() as group:
            self._group = group
            for job in self._waiting:
                group.start_soon(job)
            self._waiting.clear()
            await anyio.sleep_forever()
