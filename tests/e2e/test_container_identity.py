"""What carries our labels and was not made by us stays as it is; what we made is ours under any name.

Labels go into an image with `docker commit`, and so to whatever is run of that; other tools copy them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from docker.errors import NotFound

from planloop.client.plan_paths import plan_label
from planloop.containers.engine.names import ContainerNames
from tests.e2e.container_harness import BEGUN, IMAGE, PLAN, ContainerHarness
from tests.e2e.folder import Folder

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]

TEXT = f"""\
plan: p
containers:
  db:
    image: {IMAGE}
    env: {{NAME: db}}
    restart: always
    health: {{tcp: 8080, interval: 200ms}}
    mounts: [{{volume: data, container: /data}}]
"""
OURS = "container/db"


def names(harness: ContainerHarness) -> ContainerNames:
    return ContainerNames(PLAN, plan_label(harness.place))


def own(harness: ContainerHarness, name: str) -> Any:
    """What there is under `name`."""
    return harness.api.inspect_container(name)


@contextmanager
def stranger(harness: ContainerHarness, name: str, image: str, labels: Mapping[str, str]) -> Iterator[str]:
    """Run a foreign container; remove it and its image at the end."""
    made = harness.api.create_container(
        image, name=name, labels=dict(labels), environment={"NAME": "copy"}, network_disabled=True
    )["Id"]
    try:
        harness.api.start(made)
        harness.strangers.append(made)
        yield made
    finally:
        harness.strangers.remove(made)
        harness.api.remove_container(made, force=True)


def until_well(harness: ContainerHarness, name: str) -> str:
    """The id of our container under `name`, which the plan says is healthy."""
    seen = harness.until(
        lambda seen: (
            seen[OURS].state == "healthy"
            and (seen[OURS].status.get("seen") or {}).get("id") == own(harness, name)["Id"]
        )
    )
    return str(seen[OURS].status["seen"]["id"])


def test_foreign_container_of_our_image_is_left_alone_and_ours_is_managed(
    harness: ContainerHarness, folder: Folder
) -> None:
    folder.write("p.yaml", TEXT)
    ours, copied = names(harness).container("db"), f"planloop-test/copied-{plan_label(harness.place)}"
    try:
        with folder.started("--yes", "p.yaml") as owner:
            owner.until(BEGUN)
            ref = until_well(harness, ours)
            harness.api.commit(ref, copied)
            with stranger(harness, f"{ours}-copy", copied, {}) as copy:
                labels = own(harness, copy)["Config"]["Labels"]
                assert labels["planloop.address"] == OURS, "it has inherited them"

                harness.api.kill(ref)  # It is heard of, looked at, and made well again.
                harness.until(lambda seen: seen[OURS].state != "healthy")
                again = until_well(harness, ours)
                said = folder.run("exec", OURS, "--", "sh", "-c", "echo $NAME")
                assert said.out == "db\n", said.text
                harness.untouched()

                owner.process.kill()
                owner.process.wait()
                with folder.started("--yes", "p.yaml") as second:  # Looks at all there is.
                    harness.until_owned(second)
                    assert until_well(harness, ours) == again
                    assert folder.run("down", "--volumes").code == 0
                harness.untouched()
                with pytest.raises(NotFound):
                    own(harness, ours)
                assert harness.networks() == []
    finally:
        harness.api.remove_image(copied, force=True)


def test_renamed_container_stays_ours(harness: ContainerHarness, folder: Folder) -> None:
    file = folder.write("p.yaml", TEXT)
    ours, renamed = names(harness).container("db"), f"planloop-test-renamed-{plan_label(harness.place)}"
    with folder.started("--yes", "p.yaml") as owner:
        owner.until(BEGUN)
        ref = until_well(harness, ours)
        harness.api.rename(ref, renamed)
        harness.api.stop(ref, timeout=1)
        harness.until(lambda seen: seen[OURS].state != "healthy")
        assert until_well(harness, renamed) == ref
        owner.process.kill()
        owner.process.wait()
    with folder.started("--yes", "p.yaml") as second:
        harness.until_owned(second)
        assert until_well(harness, renamed) == ref, "the next owner knows it, too"
        assert list(harness.containers()) == [OURS]
        file.write_text(TEXT.replace("NAME: db", "NAME: renewed"))
        harness.until(lambda seen: (seen[OURS].status.get("seen") or {}).get("id", ref) != ref)
        again = until_well(harness, ours)
        assert list(harness.containers()) == [OURS], "the old one is gone"
        harness.api.rename(again, renamed)
        assert folder.run("down").code == 0
    assert harness.left() == []


GARBAGE: dict[str, dict[str, str]] = {
    "no more than the plan": {},
    "an address of nothing": {"planloop.address": "task/.", "planloop.incarnation": "1"},
    "no number": {"planloop.address": OURS, "planloop.incarnation": "²", "planloop.uid": "u"},
    "a container that was once": {
        "planloop.address": "container/gone",
        "planloop.uid": "u",
        "planloop.incarnation": "1",
        "planloop.spec": "s",
    },
}


def test_container_with_garbage_labels_is_not_ours(harness: ContainerHarness, folder: Folder) -> None:
    label, one = plan_label(harness.place), harness.api
    folder.write("p.yaml", TEXT)
    for index, labels in enumerate(GARBAGE.values()):
        harness.stand_by(f"planloop-test-{index}-{label}", labels={"planloop.plan": label, **labels})
    network, volume = f"planloop-test-net-{label}", f"planloop-test-vol-{label}"
    one.create_network(network, labels={"planloop.plan": label})
    one.create_volume(volume, labels={"planloop.plan": label})
    try:
        with folder.started("--yes", "p.yaml") as owner:
            owner.until(BEGUN)
            until_well(harness, names(harness).container("db"))
            said = folder.run("down", "--volumes")
            assert said.code == 0, said.text
            assert volume not in said.text
        harness.untouched()
        assert harness.networks() == [network]
        assert [each["Name"] for each in one.volumes(filters=harness.selected)["Volumes"]] == [volume]
    finally:
        one.remove_network(network)
        one.remove_volume(volume)


def test_container_made_before_the_folder_moved_is_left_and_reported(harness: ContainerHarness, folder: Folder) -> None:
    folder.write("p.yaml", TEXT)
    ours = names(harness).container("db")
    with folder.killed("--yes", "p.yaml") as owner:
        harness.until_owned(owner)
        ref = until_well(harness, ours)
    before = folder.path
    moved = Folder(before.rename(before.with_name("moved")))
    try:
        said = moved.run("down")
        assert (said.code, ref[:12] in said.text, "another folder" in said.text) == (1, True, True), said.text
        assert own(harness, ours)["State"]["Running"]
        assert moved.run("down").code == 0, "it was told"
    finally:
        moved.path.rename(before)
        harness.api.remove_container(ref, force=True)
        assert folder.run("down", "--volumes").code == 0
