"""kill -9 of the owner while it brings containers up and takes them down: the same end each time, and nothing left."""

from __future__ import annotations

import hashlib
import subprocess

import pytest

from tests.e2e.folder import PLAN as PLAN_COMMAND
from tests.e2e.folder import Folder
from tests.e2e.yards import IMAGE, Yard

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SEEDS = range(3)
KILLS = 6
PLAN_TEXT = f"""\
plan: p
containers:
  db: &service
    image: {IMAGE}
    env: {{NAME: db}}
    health: {{tcp: 8080, interval: 200ms}}
    networks: [inner]
  api:
    <<: *service
    env: {{NAME: api}}
    networks: [inner, outer]
    needs: {{db: healthy}}
    mounts: [{{volume: kept, container: /kept}}]
  web:
    <<: *service
    env: {{NAME: web}}
    needs: [api]
"""


def moment_s(seed: int, kill: int, longest_s: float) -> float:
    """Seconds from the beginning to the kill: the same in every run of the test."""
    return hashlib.sha256(f"{seed}/{kill}".encode()).digest()[0] / 256 * longest_s


def killed_at(folder: Folder, seconds: float) -> None:
    with folder.killed("--yes", "p.yaml") as owner:
        try:
            owner.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return
        raise AssertionError((folder.path / "owner.out").read_text())


@pytest.mark.parametrize("seed", SEEDS)
def test_an_owner_killed_while_it_brings_up_and_takes_down_leaves_nothing(
    yard: Yard, folder: Folder, seed: int
) -> None:
    folder.write("p.yaml", PLAN_TEXT)
    for kill in range(KILLS):
        killed_at(folder, 0.4 + moment_s(seed, kill, 2.5))
        yard.containers()  # No two of one address.
        with folder.started("--yes", "p.yaml") as owner:
            yard.until_owned()
            yard.until_settled()
            assert len(yard.networks()) == 2
            down = subprocess.Popen(
                [*PLAN_COMMAND, "down"], cwd=folder.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            try:
                owner.process.wait(timeout=moment_s(seed, -kill - 1, 1.5))
            except subprocess.TimeoutExpired:
                owner.process.kill()
            down.wait()
        yard.untouched()

    assert folder.run("down").code == 0
    assert yard.left() == []
