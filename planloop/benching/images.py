"""The images that a suite names, as the engine has them: a run records their ids, since names change their meaning."""

from __future__ import annotations

import anyio

from benchmarks.reading.suite import Suite
from containers.engine import EngineFailed
from planloop import wiring
from planloop.exits import Exit, Halt


def ids_of(suite: Suite) -> dict[str, str]:
    """The ids of all images that the suite's cases work in. Raises Halt when one is not there."""
    names = sorted({case.image for case in suite.cases.values() if case.image})
    return anyio.run(_ids, names) if names else {}


async def _ids(names: list[str]) -> dict[str, str]:
    engine, found = wiring.container_engine(), {}
    for name in names:
        try:
            image = await engine.image(name)
        except EngineFailed as failed:
            raise Halt(Exit.FAILED, f"the suite works in containers: {failed}", failed.hint) from None
        if image is None:
            short = name.removeprefix("planloop/")
            cure = f"plan image make {short}" if short != name else f"docker pull {name}"
            raise Halt(Exit.FAILED, f"there is no image {name}", cure)
        found[name] = image.id
    return found
