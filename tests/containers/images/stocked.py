"""Stock images for tests: built once per session, by the first test that needs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.containers.images.packages import APT_PROGRAMS
from planloop.containers.images.stock import STOCK
from planloop.containers.images.stock_build import BuiltImage, build_stock_image, is_loaded, last_built_image
from tests import needs
from tests.product import ContainerEngine


async def stocked(name: str, engine: ContainerEngine, factory: pytest.TempPathFactory) -> BuiltImage:
    """The stock image `name`, in the engine. Needs apt, because stock images are made of Debian packages."""
    for program in APT_PROGRAMS:
        needs.program(program, "apt", "run the tests on Debian or Ubuntu")
    there = last_built_image(shared(factory), name)
    if there is not None and await is_loaded(engine, there):
        return there
    return await build_stock_image(STOCK[name], engine, shared(factory), lambda _, __: None)


def shared(factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of the session have in common; the first to come makes, the others wait for it."""
    base = factory.getbasetemp()
    return (base.parent if base.name.startswith("popen-") else base) / "stock-images"
