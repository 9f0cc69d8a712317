"""Containers of a plan whose owner detaches, is stopped or is killed: on a real engine."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import golden_text, needs
from tests.e2e import yards
from tests.e2e.folder import Folder
from tests.e2e.yards import IMAGE, Yard, ready
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
def yard(folder: Folder, tmp_path: Path) -> Iterator[Yard]:
    needs.engine()
    with yards.yard(folder, yards.machines_address(), tmp_path) as yard:
        folder.write("p.yaml", PLAN)
        yield yard


def test_plan_down_takes_all_down_but_data_and_what_was_written_stays(yard: Yard, folder: Folder) -> None:
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("healthy +container/app")

        said = folder.run("down")

        owner.ended()
    assert "3 containers removed" in said.out
    golden_text.said_in(said.out)
    assert (yard.left(), len(volumes(yard))) == ([], 1)
    assert folder.run("logs", "container/quick").out == "quick words\n"
    assert folder.run("logs", "container/app").out == "app is up\n"

    (data,) = volumes(yard)
    said = folder.run("down", "--volumes")
    assert said.code == 0
    assert f"1 volume removed: {data}" in said.out
    assert volumes(yard) == []
    whats = {name: ready(found)[1] for name, found in yard.objects().items()}
    golden_text.said(whats["container/quick"])


def test_who_leaves_is_told_what_goes_on_and_plan_down_ends_it_without_an_owner(yard: Yard, folder: Folder) -> None:
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("healthy +container/app")
        owner.process.send_signal(signal.SIGINT)
        owner.ended()
    golden_text.said_in(said_by(owner.text), "container/db", "container/app")
    assert len(yard.containers()) == 3

    said = folder.run("down", "--volumes")

    assert "3 containers removed" in said.out
    assert (yard.left(), volumes(yard)) == ([], [])


def test_a_network_that_a_stranger_has_joined_is_named_and_left(yard: Yard, folder: Folder) -> None:
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("healthy +container/app")
        (network,) = yard.networks()
        (stranger,) = yard.strangers
        yard.api.disconnect_container_from_network(stranger, "none")
        yard.api.connect_container_to_network(stranger, network)
        assert folder.run("down", "--volumes").code == 0
        owner.ended()

    assert yard.left() == [network]
    assert f"{network} is left" in said_by(owner.text)
    yard.api.disconnect_container_from_network(stranger, network)
    assert folder.run("down").code == 0
    assert yard.left() == []


def test_why_one_failed_is_still_there_after_plan_down(yard: Yard, folder: Folder) -> None:
    folder.write("p.yaml", f"plan: p\ncontainers:\n  - {{name: c, image: {IMAGE}, cmd: [sh, -c, echo why; exit 3]}}\n")
    assert folder.run("apply", "--yes", "p.yaml").code == 10

    assert folder.run("down").code == 0

    found = yard.objects()["container/c"]
    assert found.state == "removed"
    golden_text.said(ready(found)[1])


def test_an_engine_that_cannot_be_asked_leaves_names_and_an_exit_code(
    yard: Yard, folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = tmp_path / "engine.sock"
    socket.symlink_to(yard.address.removeprefix("unix://"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("healthy +container/app")
        socket.unlink()
        of_owner = folder.run("down")
        owner.ended()
    alone = folder.run("down", "--volumes")
    made = sorted(one["Names"][0].removeprefix("/") for name, one in yard.containers().items())
    socket.symlink_to(yard.address.removeprefix("unix://"))

    again = folder.run("down", "--volumes")

    assert (of_owner.code, alone.code, again.code) == (1, 1, 0)
    golden_text.said_in(of_owner.out, f"{socket}")
    golden_text.said_in(of_owner.err)
    assert len(made) == 3
    (named,) = [line for line in alone.err.splitlines() if "may still exist" in line]
    assert all(name in named for name in made)
    assert (yard.left(), volumes(yard)) == ([], [])


def test_a_plan_that_is_done_fails_if_something_of_its_containers_stays(yard: Yard, folder: Folder) -> None:
    folder.write("p.yaml", PLAN + "tasks: {t: {run: 'until test -e go; do sleep 0.05; done', containers: [app]}}\n")
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("running +task/t")
        (network,) = yard.networks()
        (stranger,) = yard.strangers
        yard.api.disconnect_container_from_network(stranger, "none")
        yard.api.connect_container_to_network(stranger, network)
        folder.write("go", "")
        assert owner.ended() == Exit.FAILED
    assert set(folder.states().values()) == {"done"}
    assert yard.left() == [network]
    golden_text.said(owner.text.splitlines()[-1])

    yard.api.disconnect_container_from_network(stranger, network)
    assert folder.run("down", "--volumes").code == 0
    assert yard.left() == []


def test_an_owner_that_is_killed_leaves_no_container(yard: Yard, folder: Folder) -> None:
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("healthy +container/app")
        owner.process.send_signal(signal.SIGSTOP)

        said = folder.run("down", "--force", "--volumes")

    assert said.code == 0, said.err
    golden_text.said(said.out.splitlines()[:3])
    assert (yard.left(), volumes(yard)) == ([], [])


def test_who_leaves_what_runs_is_told_of_it_also_with_nobody_there(yard: Yard, folder: Folder) -> None:
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("healthy +container/app")
        owner.process.send_signal(signal.SIGSTOP)

        said = folder.run("down", "--force", "--leave")

    golden_text.said_in(said_by(said.out), "container/db", "container/app")
    assert len(yard.containers()) == 3
    assert folder.run("down", "--volumes").code == 0


def volumes(yard: Yard) -> list[str]:
    return [one["Name"] for one in yard.api.volumes(filters=yard.selected)["Volumes"] or []]


def said_by(text: str) -> str:
    return text.replace("container/app, container/db", "container/db, container/app")
