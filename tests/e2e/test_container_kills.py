"""kill -9 while containers are brought up and taken down: the same end each time, and nothing left.

At every call of the engine that changes something, before it and after it; and at any time, by chance. That it is so at
every write of the log is shown in `tests/simulation/test_containers.py`. The set change tries some kinds of calls.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest

from planloop.client.owner_client import OwnerGone
from tests import sets
from tests.e2e import command
from tests.e2e.container_harness import IMAGE, ContainerHarness
from tests.e2e.folder import Folder
from tests.e2e.killing_proxy import KillingProxy, Point, killing_proxy
from tests.product import CommandError

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]

KILLS = range(6)
KEPT = 2  # Kills at random times in the set change.
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
"""
OVER = "plan: p\ntasks: {t: {run: 'true'}}\n"
APPLY = ("apply", "--yes", "p.yaml")
RAISING = ("POST .*/networks/create", "POST .*/volumes/create", "POST .*/containers/create", "/connect", "/start")
KINDS_KEPT = 1  # Of each tuple in the set change.
LOWERING = ("/stop", "DELETE .*/containers/", "DELETE .*/networks/")


@pytest.fixture
def gate(harness: ContainerHarness, monkeypatch: pytest.MonkeyPatch) -> Iterator[KillingProxy]:
    """Every request to the engine passes here."""
    with (
        tempfile.TemporaryDirectory(prefix="pl-killing_proxy-") as name,
        killing_proxy(Path(name), harness.address.removeprefix("unix://")) as own,
    ):
        monkeypatch.setenv("DOCKER_HOST", own.address)
        yield own


def lived(folder: Folder, gate: KillingProxy, point: Point, *words: str) -> int:
    """How a command ended that dies at the first call at which none has died yet, if there is one."""
    with (folder.path / "owner.out").open("a") as out:
        process = command.start(*words, cwd=folder.path, stdout=out, stderr=out)
    gate.point, gate.victim = point, process
    try:
        return process.wait()
    finally:
        gate.victim = None
        process.kill()


def due(gate: KillingProxy, calls: tuple[str, ...]) -> list[str]:
    """Let owners die at every call of the engine, or, in the set change, at some kinds of `calls`; return these."""
    if sets.is_nightly():
        return [*calls]
    kinds = sets.points(calls, KINDS_KEPT, calls[0])
    gate.kinds = tuple(kinds)
    return kinds


def not_met(gate: KillingProxy, *calls: str) -> list[str]:
    """Return the kinds of calls that had no kill before, or no kill after them."""
    met = [{point for point, change in gate.killed_at if re.search(call, change)} for call in calls]
    return [call for call, points in zip(calls, met, strict=True) if points != {"before", "after"}]


def settles(harness: ContainerHarness, folder: Folder, gate: KillingProxy, point: Point) -> bool:
    """Return whether the owner reaches the desired state, because no call is left to be killed at."""
    with folder.killed(*APPLY[1:]) as owner:
        gate.point, gate.victim = point, owner.process
        try:
            harness.until_owned(owner)
            harness.until_settled()
        except (AssertionError, CommandError, OwnerGone):  # It has ended under our eyes.
            assert owner.process.wait() == -9
            return False
        return True


def test_owner_killed_at_every_call_of_startup_reaches_the_same_end(
    harness: ContainerHarness, folder: Folder, gate: KillingProxy
) -> None:
    folder.write("p.yaml", PLAN_TEXT)
    points: Iterator[Point] = cycle(("before", "after"))
    kinds = due(gate, RAISING)

    while not settles(harness, folder, gate, next(points)):
        harness.containers()  # No two of one address.

    assert not_met(gate, *kinds) == []
    gate.victim = None
    with folder.started(*APPLY[1:]) as owner:
        harness.until_owned(owner)
        harness.until_settled()
        assert set(harness.inspect("api")["NetworkSettings"]["Networks"]) == set(harness.networks())
        assert folder.run("down", "--volumes").code == 0
    assert harness.left() == []
    assert harness.volumes() == []


@pytest.mark.parametrize("words", [APPLY, ("down", "--volumes")], ids=lambda words: words[0])
def test_process_killed_at_every_call_of_teardown_leaves_nothing(
    harness: ContainerHarness, folder: Folder, gate: KillingProxy, words: tuple[str, ...]
) -> None:
    folder.write("p.yaml", PLAN_TEXT)
    with folder.killed(*APPLY[1:]) as owner:
        harness.until_owned(owner)
        harness.until_settled()
    folder.write("p.yaml", OVER)
    points: Iterator[Point] = cycle(("before", "after"))
    kinds = due(gate, LOWERING)

    while (code := lived(folder, gate, next(points), *words)) == -9:
        harness.containers()  # No two of one address.

    assert code == 0
    assert harness.left() == []
    assert not_met(gate, *kinds) == []
    assert folder.run("down", "--volumes").code == 0
    assert harness.volumes() == []


def moment_s(kill: int, longest_s: float) -> float:
    """Seconds from the beginning to the kill: the same in every run of the test."""
    return hashlib.sha256(f"0/{kill}".encode()).digest()[0] / 256 * longest_s


def killed_at(folder: Folder, seconds: float) -> None:
    with folder.killed("--yes", "p.yaml") as owner:
        try:
            owner.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return
        raise AssertionError((folder.path / "owner.out").read_text())


def test_an_owner_killed_at_any_time_leaves_nothing(harness: ContainerHarness, folder: Folder) -> None:
    folder.write("p.yaml", PLAN_TEXT)
    for kill in sets.points(KILLS, KEPT, "container kills"):
        killed_at(folder, 0.4 + moment_s(kill, 2.5))
        harness.containers()  # No two of one address.
        with folder.started("--yes", "p.yaml") as owner:
            harness.until_owned(owner)
            harness.until_settled()
            assert len(harness.networks()) == 2
            down = command.start("down", cwd=folder.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                owner.process.wait(timeout=moment_s(-kill - 1, 1.5))
            except subprocess.TimeoutExpired:
                owner.process.kill()
            down.wait()
        harness.untouched()

    assert folder.run("down", "--volumes").code == 0
    assert harness.left() == []
    assert harness.volumes() == []
