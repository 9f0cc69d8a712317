"""Stock images for tests that run something in one: made once in a session, whoever needs them first."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.containers.images.debian import PROGRAMS
from planloop.containers.images.making import Made, has, kept, make
from planloop.containers.images.stock import STOCK
from tests import needs
from tests.product import Engine


async def stocked(name: str, engine: Engine, factory: pytest.TempPathFactory) -> Made:
    """The stock image `name`, in the engine. Needs apt, because stock images are made of Debian packages."""
    for program in PROGRAMS:
        needs.program(program, "apt", "run the tests on Debian or Ubuntu")
    there = kept(shared(factory), name)
    if there is not None and await has(engine, there):
        return there
    return await make(STOCK[name], engine, shared(factory), lambda _, __: None)


def shared(factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of the session have in common; the first to come makes, the others wait for it."""
    base = factory.getbasetemp()
    return (base.parent if base.name.startswith("popen-") else base) / "stock-images"
