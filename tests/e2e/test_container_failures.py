"""Containers that others stop, remove, pause or harm, and an engine that refuses: it converges, or says why not.

A stranger's container stands by in every test and is not touched; at the end nothing of the plan is left.

| what happens | where it is tried on a real engine |
| --- | --- |
| kill -9 at each call of the engine, up and down; at any time | `test_container_kills.py` |
| kill -9 at each write of the log | `tests/simulation/test_containers.py`, in virtual time |
| stopped, killed, removed, paused, unwell; name or port taken; image, command, folder or memory; a need ends | here |
| paused, deaf to TERM or busy when it is to go | `test_container_endings.py` |
| the engine goes and comes back, also in the middle of taking down; its disk is full | `test_container_engines.py` |
| renamed, its labels copied, an image made of it | `test_container_identity.py` |
| an owner that leaves; a stranger in a network | `test_container_down.py` |
| sixty of these by chance | `test_container_random_faults.py` |
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from planloop.client.plan_paths import plan_label
from planloop.containers.engine.names import ContainerNames
from tests.e2e.container_harness import BEGUN, IMAGE, PLAN, ContainerHarness, ready
from tests.e2e.folder import Folder
from tests.golden_text import said_in

pytestmark = [pytest.mark.engine, pytest.mark.timeout(120)]

SERVICES = f"""\
plan: p
containers:
  db: &service
    image: {IMAGE}
    env: {{NAME: db}}
    restart: always
    health: {{tcp: 8080, interval: 200ms, retries: 2}}
  api:
    <<: *service
    env: {{NAME: api}}
    needs: {{db: healthy}}
  web:
    <<: *service
    env: {{NAME: web}}
    needs: [api]
"""


FROM_OUTSIDE: dict[str, Callable[[ContainerHarness, str], object]] = {
    "stopped": lambda harness, ref: harness.api.stop(ref, timeout=2),
    "killed": lambda harness, ref: harness.api.kill(ref),
    "removed": lambda harness, ref: harness.api.remove_container(ref, force=True),
    "paused": lambda harness, ref: harness.api.pause(ref),
}


@pytest.mark.parametrize("fault", FROM_OUTSIDE)
def test_external_change_is_reverted(harness: ContainerHarness, folder: Folder, fault: str) -> None:
    folder.write("p.yaml", SERVICES)
    with folder.started("--yes", "p.yaml") as owner:
        owner.until(BEGUN)
        harness.until_settled()
        before = {name: harness.inspect(name) for name in ("db", "web")}
        following = harness.following()
        FROM_OUTSIDE[fault](harness, harness.ref("api"))

        harness.until(lambda seen: seen["container/api"].state != "healthy", following)
        harness.until_settled()

        after = {name: harness.inspect(name) for name in ("db", "web")}
        assert [after[name]["State"]["StartedAt"] for name in after] == [
            before[name]["State"]["StartedAt"] for name in before
        ], "others are left alone"
        assert list(harness.inspect("api")["NetworkSettings"]["Networks"]) == harness.networks()
        assert folder.run("down").code == 0
        owner.ended()

    assert harness.left() == []


def test_unhealthy_container_is_reported_and_its_recovery_too(harness: ContainerHarness, folder: Folder) -> None:
    folder.write("p.yaml", SERVICES)
    with folder.started("--yes", "p.yaml") as owner:
        owner.until(BEGUN)
        harness.until_settled()
        harness.said_inside("db", "rm", "/tmp/well")
        found = harness.until_states(db="unhealthy")
        assert "port 8080" in ready(found["container/db"])[1]
        harness.said_inside("db", "touch", "/tmp/well")
        harness.until_settled()
        assert folder.run("down").code == 0

    assert harness.left() == []


def one(more: str, image: str = IMAGE) -> str:
    return f"plan: p\ncontainers:\n  c:\n    image: {image}\n" + "".join(f"    {line}\n" for line in more.splitlines())


REFUSED = {
    "an image that is nowhere": (one("", "planloop-test/there-is-none:1"), ("NoImage", "NoRegistry"), "image"),
    "a program that is not there": (one("cmd: [no-such-program]"), ("NoCommand",), "cmd"),
    "a program that ends with an error": (
        one("cmd: [sh, -c, 'echo why; exit 3']"),
        ("Exited",),
        "plan logs container/c",
    ),
    "a folder that is not there": (one("mounts: [{host: nowhere, container: /x}]"), ("Refused",), "mounts"),
    "more memory than it may": (
        one("cmd: [sh, -c, 'x=x; while :; do x=$x$x; done']\nlimits: {memory: 8mb}"),
        ("OutOfMemory", "Exited"),  # Docker under load forgets now and then why it was killed.
        "memory",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_of_the_engine_is_reported_with_a_fix(harness: ContainerHarness, folder: Folder, case: str) -> None:
    text, reasons, cure = REFUSED[case]
    folder.write("p.yaml", text)
    with folder.started("--yes", "p.yaml") as owner:
        owner.until(BEGUN)
        found = harness.until(lambda seen: ready(seen["container/c"])[0] in reasons)
        assert cure in ready(found["container/c"])[2]
        assert folder.run("down").code in (0, 1)

    assert harness.left() == []


def test_a_port_that_a_stranger_has_is_waited_for(harness: ContainerHarness, folder: Folder) -> None:
    stranger = harness.stand_by(
        f"{harness.strangers[0][:12]}-port", ports=[80], network="bridge", at={80: ("127.0.0.1", None)}
    )
    port = harness.api.port(stranger, 80)[0]["HostPort"]
    folder.write("p.yaml", one(f"ports: [{{container: 80, host: {port}}}]"))
    with folder.started("--yes", "p.yaml") as owner:
        owner.until(BEGUN)
        found = harness.until(lambda seen: ready(seen["container/c"])[0] == "PortTaken")
        assert port in ready(found["container/c"])[1]
        harness.untouched()

        harness.strangers.remove(stranger)
        harness.api.remove_container(stranger, force=True)
        harness.until_settled()
        assert folder.run("down").code == 0

    assert harness.left() == []


def test_foreign_container_with_the_name_is_reported_and_left_unchanged(
    harness: ContainerHarness, folder: Folder
) -> None:
    names = ContainerNames(PLAN, plan_label(harness.place))
    stranger = harness.stand_by(names.container("c"))
    folder.write("p.yaml", one(""))
    with folder.started("--yes", "p.yaml") as owner:
        owner.until(BEGUN)
        found = harness.until(lambda seen: ready(seen["container/c"])[0] == "NameTaken")
        assert f"docker rm {names.container('c')}" in ready(found["container/c"])[2]
        owner.ended()
    harness.untouched()
    assert harness.left() == []

    harness.strangers.remove(stranger)
    harness.api.remove_container(stranger, force=True)
    folder.write("p.yaml", one("env: {NAME: renewed}"))
    with folder.started("--yes", "p.yaml") as owner:
        harness.until_owned(owner)
        harness.until_settled()
        assert folder.run("down").code == 0
    assert harness.left() == []


def test_dependent_of_a_failed_container_gets_its_last_words_and_recovers_with_it(
    harness: ContainerHarness, folder: Folder
) -> None:
    alive = "tasks:\n  alive: {run: cat door}\n"
    broken = SERVICES.replace(
        "    restart: always\n    health", "    cmd: [sh, -c, 'echo it burns; exit 3']\n    health", 1
    )
    os.mkfifo(folder.path / "door")
    file = folder.write("p.yaml", broken + alive)
    with folder.started("--yes", "p.yaml") as owner:
        owner.until(BEGUN)
        found = harness.until(lambda seen: ready(seen["container/api"])[0] == "NeedFailed")
        assert "it burns" in ready(found["container/api"])[1]

        file.write_text(SERVICES + alive)
        harness.until_settled()
        (folder.path / "door").write_text("")
        assert owner.ended() == 0, owner.text

    assert harness.left() == []


def test_a_plan_of_containers_that_failed_is_tried_again_by_apply(harness: ContainerHarness, folder: Folder) -> None:
    health = "    health: {cmd: ['true']}\n"
    chain = "".join(
        f"  {name}:\n    image: {IMAGE}\n{health}    needs: [{need}]\n"
        for name, need in (("api", "db"), ("web", "api"))
    )
    folder.write("p.yaml", one("cmd: [sh, -c, 'echo it burns; exit 3']").replace("  c:", "  db:") + chain)

    first = folder.run("apply", "--yes", "p.yaml")

    assert first.code == 10, first.text
    reasons = {name: ready(found)[:2] for name, found in harness.objects().items()}
    assert [reasons[f"container/{name}"][0] for name in ("db", "api", "web")] == ["Exited", "NeedFailed", "NeedFailed"]
    assert all("it burns" in why for _, why in reasons.values()), reasons
    said_in(first.err, "container/db")
    said_in(first.err)

    again = folder.run("apply", "--yes", "p.yaml")

    assert again.code == 10, again.text
    assert "plan/p" in again.out and "it burns" in again.out, "it ran once more"
    assert harness.left() == []
