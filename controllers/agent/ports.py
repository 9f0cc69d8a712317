"""What the agent controller needs from outside, in one value, and the gate as it sees it.

`planloop/wiring.py` builds the real World; tests build one over a real store, real processes and a temporary folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from reconciler.clock import Clock, Ids
from reconciler.driving.working import WorkPlane
from reconciler.effects.processes import Processes
from reconciler.storing.store import Store
from schemas.frozen import frozen
from schemas.patch import Patch, Verdict


class Gate(Protocol):
    """Takes patches of the plan document: `reconciler/admitting/gate.py`."""

    async def submit(self, patch: Patch) -> Verdict: ...


@frozen
class World:
    """`plan` is the plan's address, `folder` the absolute folder of the plan file.

    `env` is the clean environment that commands start from; a task's own `env` is added to it. `python` is the
    interpreter for Python minds. `pool` and `mind_pool` are the work plane's bounds for calls and for asking minds.
    """

    store: Store
    clock: Clock
    ids: Ids
    processes: Processes
    work: WorkPlane
    gate: Gate
    plan: str
    folder: Path
    env: Mapping[str, str]
    python: str
    pool: str = "tools"
    mind_pool: str = "minds"
