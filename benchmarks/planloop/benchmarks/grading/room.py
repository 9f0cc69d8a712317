"""A fresh container for checks that are commands: of the image that was worked in, without any network.

It is no container of the plan: it has labels of its own, by which the next owner removes what one that died left.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio

from planloop.benchmarks.grading.program import BOUND, HOST_NAME, LABEL
from planloop.benchmarks.inside import ENV, HOME, INSIDE
from planloop.containers.engine import Creation, Ended, Engine, EngineFailed, Inside, Placed
from planloop.schemas.encoding import digest
from planloop.schemas.frozen import frozen

CHECKS: Final = "/checks"


@frozen
class Room:
    """A running container with the graded workspace at /work, for commands that judge it."""

    engine: Engine
    ref: str

    async def run(self, argv: tuple[str, ...], mark: str, timeout_s: float, env: Mapping[str, str]) -> Ended:
        """Runs a command in it to its end, and ends what that left running. Raises EngineFailed."""
        try:
            return await self.engine.run(self.ref, Inside(argv, mark, env, INSIDE, timeout_s=timeout_s))
        finally:
            with anyio.CancelScope(shield=True), suppress(EngineFailed):
                await self.engine.end(self.ref, mark)


@asynccontextmanager
async def opened(engine: Engine, run: str, name: str, image: str, workspace: Path, checks: Path) -> AsyncIterator[Room]:
    """A room for the attempt `name` of `run`, which finds its `checks` at /checks. Raises EngineFailed."""
    full = f"planloop-bench-checks-{digest(f'{run} {name}'.encode())[:12]}"
    mounts = (Placed(INSIDE, str(workspace)), Placed(CHECKS, str(checks), is_read_only=True), Placed(HOME))
    creation = Creation(
        full,
        image,
        {LABEL: run},
        cmd=("sleep", "infinity"),
        entrypoint=(),
        env=ENV,
        workdir=INSIDE,
        host_name=HOST_NAME,
        mounts=mounts,
        bound=BOUND,
        is_read_only=True,
    )
    await _remove(engine, full)
    try:
        ref = await engine.create(creation)
        await engine.start(ref)
        yield Room(engine, ref)
    finally:
        with anyio.CancelScope(shield=True), suppress(EngineFailed):
            await _remove(engine, full)


async def _remove(engine: Engine, name: str) -> None:
    found = await engine.container(name)
    if found is not None and LABEL in found.labels:
        await engine.remove(found.id)
