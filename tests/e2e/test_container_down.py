"""Containers of a plan whose owner detaches, is stopped or is killed: on a real engine."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import golden_text, needs
from tests.e2e import container_harness
from tests.e2e.container_harness import IMAGE, ContainerHarness, ready
from tests.e2e.folder import Folder
from tests.product import CommandExit as Exit

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]

PLAN = f"""\
plan: p
containers:
  - {{name: db, image: {IMAGE}, env: {{NAME: db}}, mounts: [{{volume: data, container: /data}}]}}
  - {{name: quick, image: {IMAGE}, cmd: [echo, quick words], needs: [db]}}
  - name: app
    image: {IMAGE}
    env: {{NAME: app}}
    needs: {{db: started, quick: completed}}
    health: {{tcp: 8080, interval: 200ms}}
"""


@pytest.fixture
def harness(folder: Folder, tmp_path: Path) -> Iterator[ContainerHarness]:
    needs.engine()
    with container_harness.harness(folder, container_harness.machines_address(), tmp_path) as harness:
        folder.write("p.yaml", PLAN)
        yield harness


def test_plan_down_takes_all_down_but_data_and_what_was_written_stays(
    harness: ContainerHarness, folder: Folder
) -> None:
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("healthy +container/app")

        said = folder.run("down")

        owner.ended()
    assert "3 containers removed" in said.out
    golden_text.said_in(said.out)
    assert (harness.left(), len(volumes(harness))) == ([], 1)
    assert folder.run("logs", "container/quick").out == "quick words\n"
    assert folder.run("logs", "container/app").out == "app is up\n"

    (data,) = volumes(harness)
    said = folder.run("down", "--volumes")
    assert said.code == 0
    assert f"1 volume removed: {data}" in said.out
    assert volumes(harness) == []
    whats = {name: ready(found)[1] for name, found in harness.objects().items()}
    golden_text.said(whats["container/quick"])


def test_detaching_lists_running_containers_and_plan_down_ends_them_without_owner(
    harness: ContainerHarness, folder: Folder
) -> None:
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("healthy +container/app")
        owner.process.send_signal(signal.SIGINT)
        owner.ended()
    golden_text.said_in(said_by(owner.text), "container/db", "container/app")
    assert len(harness.containers()) == 3

    said = folder.run("down", "--volumes")

    assert "3 containers removed" in said.out
    assert (harness.left(), volumes(harness)) == ([], [])


def test_network_joined_by_a_foreign_container_is_named_and_left(harness: ContainerHarness, folder: Folder) -> None:
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("healthy +container/app")
        (network,) = harness.networks()
        (stranger,) = harness.strangers
        harness.api.disconnect_container_from_network(stranger, "none")
        harness.api.connect_container_to_network(stranger, network)
        assert folder.run("down", "--volumes").code == 0
        owner.ended()

    assert harness.left() == [network]
    assert f"{network} was not removed" in said_by(owner.text)
    harness.api.disconnect_container_from_network(stranger, network)
    assert folder.run("down").code == 0
    assert harness.left() == []


def test_reason_of_a_failure_is_still_shown_after_plan_down(harness: ContainerHarness, folder: Folder) -> None:
    folder.write("p.yaml", f"plan: p\ncontainers:\n  - {{name: c, image: {IMAGE}, cmd: [sh, -c, echo why; exit 3]}}\n")
    assert folder.run("apply", "--yes", "p.yaml").code == 10

    assert folder.run("down").code == 0

    found = harness.objects()["container/c"]
    assert found.state == "removed"
    golden_text.said(ready(found)[1])


def test_an_engine_that_cannot_be_asked_leaves_names_and_an_exit_code(
    harness: ContainerHarness, folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = tmp_path / "engine.sock"
    socket.symlink_to(harness.address.removeprefix("unix://"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("healthy +container/app")
        socket.unlink()
        of_owner = folder.run("down")
        owner.ended()
    alone = folder.run("down", "--volumes")
    made = sorted(one["Names"][0].removeprefix("/") for name, one in harness.containers().items())
    socket.symlink_to(harness.address.removeprefix("unix://"))

    again = folder.run("down", "--volumes")

    assert (of_owner.code, alone.code, again.code) == (1, 1, 0)
    golden_text.said_in(of_owner.out, f"{socket}")
    golden_text.said_in(of_owner.err)
    assert len(made) == 3
    (named,) = [line for line in alone.err.splitlines() if "may still exist" in line]
    assert all(name in named for name in made)
    assert (harness.left(), volumes(harness)) == ([], [])


def test_a_plan_that_is_done_fails_if_something_of_its_containers_stays(
    harness: ContainerHarness, folder: Folder
) -> None:
    folder.write("p.yaml", PLAN + "tasks: {t: {run: 'until test -e go; do sleep 0.05; done', containers: [app]}}\n")
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("running +task/t")
        (network,) = harness.networks()
        (stranger,) = harness.strangers
        harness.api.disconnect_container_from_network(stranger, "none")
        harness.api.connect_container_to_network(stranger, network)
        folder.write("go", "")
        assert owner.ended() == Exit.FAILED
    assert set(folder.states().values()) == {"done"}
    assert harness.left() == [network]
    golden_text.said(owner.text.splitlines()[-1])

    harness.api.disconnect_container_from_network(stranger, network)
    assert folder.run("down", "--volumes").code == 0
    assert harness.left() == []


def test_an_owner_that_is_killed_leaves_no_container(harness: ContainerHarness, folder: Folder) -> None:
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("healthy +container/app")
        owner.process.send_signal(signal.SIGSTOP)

        said = folder.run("down", "--force", "--volumes")

    assert said.code == 0, said.err
    golden_text.said(said.out.splitlines()[:3])
    assert (harness.left(), volumes(harness)) == ([], [])


def test_leaving_running_containers_is_reported_even_without_an_owner(
    harness: ContainerHarness, folder: Folder
) -> None:
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("healthy +container/app")
        owner.process.send_signal(signal.SIGSTOP)

        said = folder.run("down", "--force", "--leave")

    golden_text.said_in(said_by(said.out), "container/db", "container/app")
    assert len(harness.containers()) == 3
    assert folder.run("down", "--volumes").code == 0


def volumes(harness: ContainerHarness) -> list[str]:
    return [one["Name"] for one in harness.api.volumes(filters=harness.selected)["Volumes"] or []]


def said_by(text: str) -> str:
    return text.replace("container/app, container/db", "container/db, container/app")
