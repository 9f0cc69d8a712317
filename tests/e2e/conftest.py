"""Each test has its own folder. Tests with containers also have a namespace on this machine's engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import command, container_harness
from tests.e2e.folder import Folder


@pytest.fixture(scope="session", autouse=True)
def _fork_server() -> None:
    command.prepare()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def harness(folder: Folder, tmp_path: Path) -> Iterator[container_harness.ContainerHarness]:
    with container_harness.harness(folder, container_harness.machines_address(), tmp_path) as harness:
        yield harness
