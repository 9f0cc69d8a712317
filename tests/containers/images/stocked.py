"""Stock images for tests that run something in one: made once in a session, whoever needs them first."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from containers.engine import Engine
from containers.images.debian import PROGRAMS
from containers.images.making import Made, has, kept, make
from containers.images.stock import STOCK
from tests.containers import engines


async def stocked(name: str, engine: Engine, factory: pytest.TempPathFactory) -> Made:
    """The stock image `name`, in the engine. Skips the test, or fails it, where there is no apt."""
    if any(shutil.which(program) is None for program in PROGRAMS):
        engines.without("no apt: stock images are made of Debian packages")
    there = kept(shared(factory), name)
    if there is not None and await has(engine, there):
        return there
    return await make(STOCK[name], engine, shared(factory), lambda _, __: None)


def shared(factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of the session have in common; the first to come makes, the others wait for it."""
    base = factory.getbasetemp()
    return (base.parent if base.name.startswith("popen-") else base) / "stock-images"
