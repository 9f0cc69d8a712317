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
from tests.e2e import command, yards
from tests.e2e.folder import Folder
from tests.e2e.yards import BEGUN, IMAGE, OwnEngine, Yard, ready

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

    yard: Yard
    engine: OwnEngine
    disk: Path


@pytest.fixture
def ground(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    with tempfile.TemporaryDirectory(prefix="pl-engine-") as name:
        disk = Path(name) / "data-root"
        disk.mkdir()
        needs.dockerd()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", disk], check=True)
        with yards.own_engine(Path(name)) as engine:
            monkeypatch.setenv("DOCKER_HOST", engine.address)
            with yards.yard(folder, engine.address, tmp_path) as yard:
                yield Ground(yard, engine, disk)


def test_an_engine_that_goes_is_told_and_what_ran_on_it_comes_back_with_it(ground: Ground, folder: Folder) -> None:
    yard = ground.yard
    folder.write("p.yaml", PLAN)
    with folder.started("--yes", "p.yaml") as owner:
        owner.until(BEGUN)
        yard.until_settled()

        ground.engine.stop()
        seen = yard.until(lambda seen: all(ready(one)[0] == "EngineDown" for one in seen.values()))
        assert all("systemctl" in ready(one)[2] for one in seen.values())

        ground.engine.start()
        for ref in yard.strangers:
            yard.api.start(ref)
        yard.until_settled()
        assert folder.run("down").code == 0
        owner.ended()

    assert yard.left() == []


def test_a_full_disk_is_told_and_waited_for(ground: Ground, folder: Folder) -> None:
    yard, filler = ground.yard, ground.disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    folder.write("p.yaml", PLAN)
    with folder.started("--yes", "p.yaml") as owner:
        owner.until(BEGUN)
        seen = yard.until(lambda seen: ready(seen["container/db"])[0] == "DiskFull")
        assert ready(seen["container/db"])[2], "there is a hint"

        filler.unlink()
        yard.until_settled()
        assert folder.run("down").code == 0
        owner.ended()

    assert yard.left() == []


def test_an_engine_that_goes_while_containers_are_taken_down_leaves_none(ground: Ground, folder: Folder) -> None:
    yard = ground.yard
    folder.write("p.yaml", SLOW)
    with folder.started("--yes", "p.yaml") as owner, closing(yard.api.events(filters={"event": "kill"})) as told:
        yard.until_owned(owner)
        yard.until_settled()
        with command.start("down", cwd=folder.path, stdout=subprocess.PIPE) as down:
            assert next(told), "it has heard TERM, and takes a while"
            ground.engine.stop()
            ground.engine.start()
            for ref in yard.strangers:
                yard.api.start(ref)
            said, _ = down.communicate()
        owner.ended()
    assert down.returncode == 0 or "container/slow is " in said, "what may be left is named"
    assert folder.run("down").code == 0
    assert yard.left() == []
