"""The images that a suite names, as the engine has them: a run records their ids, since names change their meaning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import anyio

from planloop.app import wiring
from planloop.app.exits import Exit, Halt
from planloop.benchmarks.reading.suite import Case
from planloop.containers.engine import EngineFailed
from planloop.containers.images.stock import PREFIX, STOCK

_STOCK: Final = frozenset(f"{PREFIX}{name}" for name in STOCK)


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
        raise Halt(Exit.FAILED, f"there is no image {', '.join(missing)}", cure(missing))
    return {name: image.id for name, image in found.items() if image is not None}


def cure(missing: Sequence[str]) -> str:
    """The commands after which the images in `missing` are there."""
    stock = [name.removeprefix(PREFIX) for name in missing if name in _STOCK]
    made = [f"plan image make {' '.join(stock)}"] if stock else []
    return " · ".join([*made, *map(_own_cure, (name for name in missing if name not in _STOCK))])


def _own_cure(name: str) -> str:
    """How an image that is none of ours comes to be there: nobody publishes one under our prefix."""
    built = f"docker build -t {name} DIR"
    return built if name.startswith(PREFIX) else f"docker pull {name}, or {built}"
