"""The images that a suite names, as the engine has them: a run records their ids, since names change their meaning."""

from __future__ import annotations

from collections.abc import Iterable

import anyio

from benchmarks.reading.suite import Case
from containers.engine import EngineFailed
from containers.images.stock import PREFIX
from planloop import wiring
from planloop.exits import Exit, Halt


def ids_of(cases: Iterable[Case]) -> dict[str, str]:
    """The ids of all images that `cases` work in. Raises Halt when one is not there."""
    names = sorted({case.image for case in cases if case.image})
    return anyio.run(_ids, names) if names else {}


async def _ids(names: list[str]) -> dict[str, str]:
    engine = wiring.container_engine()
    try:
        found = {name: await engine.image(name) for name in names}
    except EngineFailed as failed:
        raise Halt(Exit.FAILED, f"the suite works in containers: {failed}", failed.hint) from None
    missing = [name for name, image in found.items() if image is None]
    if missing:
        raise Halt(Exit.FAILED, f"there is no image {', '.join(missing)}", _cure(missing))
    return {name: image.id for name, image in found.items() if image is not None}


def _cure(missing: list[str]) -> str:
    stock = [name.removeprefix(PREFIX) for name in missing if name.startswith(PREFIX)]
    made = [f"plan image make {' '.join(stock)}"] if stock else []
    return " · ".join([*made, *(f"docker pull {name}" for name in missing if not name.startswith(PREFIX))])
