"""A ground on a running engine, for tests that want one of their own."""

from __future__ import annotations

import shlex
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from containers.docker_engine import DockerEngine
from tests import sets
from tests.containers import engines
from tests.containers.engines import Ground
from tests.containers.images import packages


@pytest.fixture
def sees_host() -> bool:
    """Whether commands inside may be ended from outside."""
    return True


@pytest.fixture
async def ground(engine: DockerEngine, sees_host: bool, tmp_path: Path) -> AsyncIterator[Ground]:
    own = engine if sees_host else engines.engine(sees_host=False)
    image = await engines.image(own, tmp_path)
    async with engines.ground(own, image.id, f"{zlib.crc32(str(tmp_path).encode()):08x}") as place:
        yield place


@pytest.fixture(scope="session")
def local_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """apt's configuration for a repository on this machine."""
    return packages.repository(tmp_path_factory.mktemp("packages"))


@pytest.fixture
def apt(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where apt takes packages from: a repository on this machine; in nightly and for `network`, Debian's own.

    The shell command that says the same to commands with an environment of their own.
    """
    if sets.is_nightly() or request.node.get_closest_marker("network") is not None:
        return ":"
    config = str(request.getfixturevalue("local_packages"))
    monkeypatch.setenv(packages.APT_CONFIG, config)
    return f"export {packages.APT_CONFIG}={shlex.quote(config)}"
