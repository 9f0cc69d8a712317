"""An engine that restarts, and one whose disk is full: the plan reports it and recovers."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import needs
from tests.e2e import command, container_harness
from tests.e2e.container_harness import BEGUN, IMAGE, ContainerHarness, OwnEngine, ready
from tests.e2e.folder import Folder

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]

DISK_BYTES = 64_000_000
PLAN = f"""\
plan: p
containers:
  db: &service
    image: {IMAGE}
    restart: always
    health: {{tcp: 8080, interval: 200ms}}
  api:
    <<: *service
    needs: {{db: healthy}}
"""
SLOW = f"""\
plan: p
containers:
  slow:
    image: {IMAGE}
    cmd: [sh, -c, 'trap "sleep 2; exit" TERM; touch /tmp/well; while :; do sleep 0.1; done']
    health: {{cmd: [test, -e, /tmp/well], interval: 200ms}}
"""


@dataclass
class Ground:
    """A namespace on a separate engine with a small disk."""

    harness: ContainerHarness
    engine: OwnEngine
    disk: Path


@pytest.fixture
def ground(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    with tempfile.TemporaryDirectory(prefix="pl-engine-") as name:
        disk = Path(name) / "data-root"
        disk.mkdir()
        needs.dockerd()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", disk], check=True)
        with container_harness.own_engine(Path(name)) as engine:
            monkeypatch.setenv("DOCKER_HOST", engine.address)
            with container_harness.harness(folder, engine.address, tmp_path) as harness:
                yield Ground(harness, engine, disk)


def test_stopped_engine_is_reported_and_its_containers_return_with_it(ground: Ground, folder: Folder) -> None:
    harness = ground.harness
    folder.write("p.yaml", PLAN)
    with folder.started("--yes", "p.yaml") as owner:
        owner.until(BEGUN)
        harness.until_settled()

        ground.engine.stop()
        seen = harness.until(lambda seen: all(ready(one)[0] == "EngineDown" for one in seen.values()))
        assert all("systemctl" in ready(one)[2] for one in seen.values())

        ground.engine.start()
        for ref in harness.strangers:
            harness.api.start(ref)
        harness.until_settled()
        assert folder.run("down").code == 0
        owner.ended()

    assert harness.left() == []


def test_full_disk_is_reported_and_waited_for(ground: Ground, folder: Folder) -> None:
    harness, filler = ground.harness, ground.disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    folder.write("p.yaml", PLAN)
    with folder.started("--yes", "p.yaml") as owner:
        owner.until(BEGUN)
        seen = harness.until(lambda seen: ready(seen["container/db"])[0] == "DiskFull")
        assert ready(seen["container/db"])[2], "there is a hint"

        filler.unlink()
        harness.until_settled()
        assert folder.run("down").code == 0
        owner.ended()

    assert harness.left() == []


def test_an_engine_that_goes_while_containers_are_taken_down_leaves_none(ground: Ground, folder: Folder) -> None:
    harness = ground.harness
    folder.write("p.yaml", SLOW)
    with folder.started("--yes", "p.yaml") as owner, closing(harness.api.events(filters={"event": "kill"})) as told:
        harness.until_owned(owner)
        harness.until_settled()
        with command.start("down", cwd=folder.path, stdout=subprocess.PIPE) as down:
            assert next(told), "it has heard TERM, and takes a while"
            ground.engine.stop()
            ground.engine.start()
            for ref in harness.strangers:
                harness.api.start(ref)
            said, _ = down.communicate()
        owner.ended()
    assert down.returncode == 0 or "container/slow is " in said, "what may be left is named"
    assert folder.run("down").code == 0
    assert harness.left() == []
