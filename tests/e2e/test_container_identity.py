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
from tests.e2e.folder import Folder
from tests.e2e.yards import BEGUN, IMAGE, PLAN, Yard

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


def names(yard: Yard) -> ContainerNames:
    return ContainerNames(PLAN, plan_label(yard.place))


def own(yard: Yard, name: str) -> Any:
    """What there is under `name`."""
    return yard.api.inspect_container(name)


@contextmanager
def stranger(yard: Yard, name: str, image: str, labels: Mapping[str, str]) -> Iterator[str]:
    """Run a foreign container; remove it and its image at the end."""
    made = yard.api.create_container(
        image, name=name, labels=dict(labels), environment={"NAME": "copy"}, network_disabled=True
    )["Id"]
    try:
        yard.api.start(made)
        yard.strangers.append(made)
        yield made
    finally:
        yard.strangers.remove(made)
        yard.api.remove_container(made, force=True)


def until_well(yard: Yard, name: str) -> str:
    """The id of our container under `name`, which the plan says is healthy."""
    seen = yard.until(
        lambda seen: (
            seen[OURS].state == "healthy" and (seen[OURS].status.get("seen") or {}).get("id") == own(yard, name)["Id"]
        )
    )
    return str(seen[OURS].status["seen"]["id"])


def test_what_is_run_of_an_image_made_of_ours_is_left_alone_and_ours_is_managed(yard: Yard, folder: Folder) -> None:
    folder.write("p.yaml", TEXT)
    ours, copied = names(yard).container("db"), f"planloop-test/copied-{plan_label(yard.place)}"
    try:
        with folder.started("--yes", "p.yaml") as owner:
            owner.until(BEGUN)
            ref = until_well(yard, ours)
            yard.api.commit(ref, copied)
            with stranger(yard, f"{ours}-copy", copied, {}) as copy:
                labels = own(yard, copy)["Config"]["Labels"]
                assert labels["planloop.address"] == OURS, "it has inherited them"

                yard.api.kill(ref)  # It is heard of, looked at, and made well again.
                yard.until(lambda seen: seen[OURS].state != "healthy")
                again = until_well(yard, ours)
                said = folder.run("exec", OURS, "--", "sh", "-c", "echo $NAME")
                assert said.out == "db\n", said.text
                yard.untouched()

                owner.process.kill()
                owner.process.wait()
                with folder.started("--yes", "p.yaml") as second:  # Looks at all there is.
                    yard.until_owned(second)
                    assert until_well(yard, ours) == again
                    assert folder.run("down", "--volumes").code == 0
                yard.untouched()
                with pytest.raises(NotFound):
                    own(yard, ours)
                assert yard.networks() == []
    finally:
        yard.api.remove_image(copied, force=True)


def test_one_that_somebody_renames_stays_ours(yard: Yard, folder: Folder) -> None:
    file = folder.write("p.yaml", TEXT)
    ours, renamed = names(yard).container("db"), f"planloop-test-renamed-{plan_label(yard.place)}"
    with folder.started("--yes", "p.yaml") as owner:
        owner.until(BEGUN)
        ref = until_well(yard, ours)
        yard.api.rename(ref, renamed)
        yard.api.stop(ref, timeout=1)
        yard.until(lambda seen: seen[OURS].state != "healthy")
        assert until_well(yard, renamed) == ref
        owner.process.kill()
        owner.process.wait()
    with folder.started("--yes", "p.yaml") as second:
        yard.until_owned(second)
        assert until_well(yard, renamed) == ref, "the next owner knows it, too"
        assert list(yard.containers()) == [OURS]
        file.write_text(TEXT.replace("NAME: db", "NAME: anew"))
        yard.until(lambda seen: (seen[OURS].status.get("seen") or {}).get("id", ref) != ref)
        again = until_well(yard, ours)
        assert list(yard.containers()) == [OURS], "the old one is gone"
        yard.api.rename(again, renamed)
        assert folder.run("down").code == 0
    assert yard.left() == []


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


def test_garbage_in_labels_is_none_of_ours(yard: Yard, folder: Folder) -> None:
    label, one = plan_label(yard.place), yard.api
    folder.write("p.yaml", TEXT)
    for index, labels in enumerate(GARBAGE.values()):
        yard.stand_by(f"planloop-test-{index}-{label}", labels={"planloop.plan": label, **labels})
    network, volume = f"planloop-test-net-{label}", f"planloop-test-vol-{label}"
    one.create_network(network, labels={"planloop.plan": label})
    one.create_volume(volume, labels={"planloop.plan": label})
    try:
        with folder.started("--yes", "p.yaml") as owner:
            owner.until(BEGUN)
            until_well(yard, names(yard).container("db"))
            said = folder.run("down", "--volumes")
            assert said.code == 0, said.text
            assert volume not in said.text
        yard.untouched()
        assert yard.networks() == [network]
        assert [each["Name"] for each in one.volumes(filters=yard.selected)["Volumes"]] == [volume]
    finally:
        one.remove_network(network)
        one.remove_volume(volume)


def test_what_was_made_before_the_folder_moved_is_left_and_told(yard: Yard, folder: Folder) -> None:
    folder.write("p.yaml", TEXT)
    ours = names(yard).container("db")
    with folder.killed("--yes", "p.yaml") as owner:
        yard.until_owned(owner)
        ref = until_well(yard, ours)
    before = folder.path
    moved = Folder(before.rename(before.with_name("moved")))
    try:
        said = moved.run("down")
        assert (said.code, ref[:12] in said.text, "another folder" in said.text) == (1, True, True), said.text
        assert own(yard, ours)["State"]["Running"]
        assert moved.run("down").code == 0, "it was told"
    finally:
        moved.path.rename(before)
        yard.api.remove_container(ref, force=True)
        assert folder.run("down", "--volumes").code == 0
