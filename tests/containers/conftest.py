"""A ground on a running engine, for tests that want one of their own."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from planloop.containers.engine.docker_engine import DockerEngine
from tests import needs
from tests.containers import engines
from tests.containers.engines import Ground


@pytest.fixture
def sees_host() -> bool:
    """Whether commands inside may be ended from outside."""
    return True


@pytest.fixture
async def ground(engine: DockerEngine, sees_host: bool, tmp_path: Path) -> AsyncIterator[Ground]:
    own = engine if sees_host else needs.engine(sees_host=False)
    image = await engines.image(own, tmp_path)
    async with engines.ground(own, image.id, f"{zlib.crc32(str(tmp_path).encode()):08x}") as place:
        yield place
