"""A real container engine around a plan: images made on the spot, a stranger's container, and what the plan has there.

What is asserted is what the engine says, asked through docker's own client and not through ours.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import docker
from docker.errors import DockerException, NotFound

from planloop.client.owner_client import OwnerGone
from planloop.client.plan_client import PlanClient
from planloop.client.plan_follower import PlanFollower
from planloop.client.plan_paths import PlanPaths, find_plan, plan_label
from planloop.containers.engine.engine import engine_address
from planloop.containers.images.archive import ImageSettings, text_entry, write_archive
from planloop.schemas.resource import conditions_of_status
from tests import needs
from tests.containers import engines
from tests.e2e.folder import Folder, Owner
from tests.product import CommandError, Resource

IMAGE: Final = "planloop-test/service:1"
BEGUN: Final = r"running +plan/p"
PLAN: Final = "p"
OWNED_LOOK_S: Final = 0.05
SERVICE: Final = """\
trap 'exit 0' TERM
echo "$NAME is up"
touch /tmp/well
while :; do
  if [ ! -e /tmp/well ]; then [ -z "$pid" ] || kill $pid; pid=
  elif [ -z "$pid" ]; then nc -ll -p 8080 -e true & pid=$!
  fi
  sleep 0.1
done
"""
"""Answers on port 8080 as long as there is /tmp/well inside.

Asked for by TCP and not by a command: an engine that pauses a container in the middle of an exec hangs for good.
"""


@dataclass
class ContainerHarness:
    """One engine, and the folder of a plan `p` that has its containers there."""

    folder: Folder
    address: str
    api: Any
    strangers: list[str] = field(default_factory=list)

    @property
    def place(self) -> PlanPaths:
        return PlanPaths(PLAN, self.folder.path / ".plan" / PLAN)

    @property
    def selected(self) -> dict[str, Any]:
        return {"label": f"planloop.plan={plan_label(self.place)}"}

    def containers(self) -> dict[str, Any]:
        """Return the plan's containers on the engine, by address. Two with one address are an error."""
        found: dict[str, Any] = {}
        for one in self.api.containers(all=True, filters=self.selected):
            address = one["Labels"]["planloop.address"]
            assert address not in found, f"two containers of {address}"
            found[address] = one
        return found

    def ref(self, name: str) -> str:
        return str(self.containers()[f"container/{name}"]["Id"])

    def inspect(self, name: str) -> Any:
        return self.api.inspect_container(self.ref(name))

    def said_inside(self, name: str, *argv: str) -> str:
        command = ["docker", f"--host={self.address}", "exec", self.ref(name), *argv]
        return subprocess.run(command, capture_output=True, check=True, text=True, timeout=30).stdout

    def networks(self) -> list[str]:
        return sorted(one["Name"] for one in self.api.networks(filters=self.selected))

    def volumes(self) -> list[str]:
        return sorted(one["Name"] for one in self.api.volumes(filters=self.selected)["Volumes"] or ())

    def left(self) -> list[str]:
        """What is on the engine of the plan, and what runs of it here."""
        processes = [f"process {pid}" for pid in self.folder.processes()]
        return sorted(self.containers()) + self.networks() + processes

    def stand_by(self, name: str, **more: Any) -> str:
        """Start a foreign container. The test must leave it and its network unchanged."""
        with suppress(NotFound):  # Of a run that was cut off.
            self.api.remove_container(name, force=True)
        host = self.api.create_host_config(network_mode=more.pop("network", "none"), port_bindings=more.pop("at", None))
        made = self.api.create_container(IMAGE, name=name, environment={"NAME": "a stranger"}, host_config=host, **more)
        self.strangers.append(made["Id"])
        self.api.start(made["Id"])
        return str(made["Id"])

    def untouched(self) -> None:
        """Raise AssertionError if a foreign object was changed."""
        for ref in self.strangers:
            found = self.api.inspect_container(ref)
            assert found["State"]["Status"] == "running", "a stranger was stopped"
            assert found["RestartCount"] == 0

    def objects(self) -> dict[str, Resource]:
        return {one.address: one for one in PlanClient(find_plan(PLAN, self.folder.path)).objects("container")}

    def until_owned(self, owner: Owner) -> None:
        """Returns when `owner` answers and knows of its containers. Raises AssertionError when it ends before."""
        while not self._is_owned():
            with suppress(subprocess.TimeoutExpired):  # No event signals that an owner answers.
                code = owner.process.wait(OWNED_LOOK_S)
                raise AssertionError(f"the owner has ended with exit code {code}")

    def _is_owned(self) -> bool:
        with suppress(CommandError, OwnerGone):
            access = PlanClient(find_plan(PLAN, self.folder.path))
            return access.is_owned() and bool(access.objects("container"))
        return False

    def following(self) -> PlanFollower:
        """From here on: what passes quickly is seen by `until` only if this was made before it began."""
        return PlanFollower(PlanClient(find_plan(PLAN, self.folder.path)))

    def until(
        self, holds: Callable[[Mapping[str, Resource]], bool], following: PlanFollower | None = None
    ) -> Mapping[str, Resource]:
        """The plan's containers when it holds of them: looked at after each record of the owner, never timed."""
        following = following or self.following()
        with closing(following.steps()) as steps:
            while not holds(seen := {one.address: one for one in following.view.list("container")}):
                assert next(steps, None) is not None, f"the owner has ended:\n{states(self.objects())}"
        return seen

    def until_states(self, **wanted: str) -> Mapping[str, Resource]:
        """`wanted` by name."""
        return self.until(lambda seen: all(seen[f"container/{name}"].state == state for name, state in wanted.items()))

    def until_settled(self) -> None:
        """Every container is up, the one that its status says, and the engine has nothing else of the plan."""
        self.until(self.is_settled)

    def is_settled(self, seen: Mapping[str, Resource]) -> bool:
        """Whether plan and engine agree, and all is well."""
        there = self.api.containers(all=True, filters=self.selected)
        running = {(one["Labels"]["planloop.address"], one["Id"]) for one in there if one["State"] == "running"}
        said = {(one.address, (one.status.get("seen") or {}).get("id")) for one in seen.values()}
        return (
            bool(seen)
            and all(one.state in ("healthy", "running") for one in seen.values())
            and len(there) == len(seen)
            and running == said
        )


def states(objects: Mapping[str, Resource]) -> str:
    return "\n".join(f"{one.address} {one.state} {ready(one)}" for one in objects.values())


def ready(one: Resource) -> tuple[str, str, str]:
    """Return reason, text and hint of the `Ready` condition."""
    found = conditions_of_status(one.status).get("Ready")
    return ("", "", "") if found is None else (found.reason, found.message, "; ".join(found.unblocks))


@contextmanager
def harness(folder: Folder, address: str, tmp_path: Path) -> Iterator[ContainerHarness]:
    """A namespace with a foreign container. At its end nothing of the plan is left on the engine."""
    api = docker.APIClient(address, version="auto", timeout=60)
    own = ContainerHarness(folder, address, api)
    try:
        load(api, tmp_path, IMAGE, {"service": SERVICE}, ("service",))
        own.stand_by(f"planloop-test-stranger-{plan_label(own.place)}")
        yield own
        own.untouched()
    finally:
        with suppress(DockerException):
            clear(own)
        api.close()


def clear(own: ContainerHarness) -> None:
    """Takes away whatever a failed test has left."""
    for ref in own.strangers + [one["Id"] for one in own.api.containers(all=True, filters=own.selected)]:
        with suppress(NotFound):
            if own.api.inspect_container(ref)["State"]["Paused"]:
                own.api.unpause(ref)  # Or the engine hangs.
            own.api.remove_container(ref, force=True, v=True)
    for one in own.api.networks(filters=own.selected):
        own.api.remove_network(one["Id"])
    for name in own.volumes():
        own.api.remove_volume(name)


def load(api: Any, folder: Path, name: str, scripts: Mapping[str, str], cmd: tuple[str, ...]) -> None:
    """Gives the engine behind `api` an image of busybox and `scripts`, unless it has it."""
    tree = engines.tree()
    for word, script in scripts.items():
        tree.add(text_entry(f"bin/{word}", f"#!/bin/sh\n{script}", mode=0o755))
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    archive = folder / "image.tar"
    written = write_archive(archive, tree, ImageSettings(architecture, cmd=cmd, env={"PATH": "/bin"}), lambda _: [name])
    if written.id not in {one["Id"] for one in api.images(name)}:
        with archive.open("rb") as file:
            for said in api.load_image(file):
                assert "error" not in said, said
    archive.unlink()


@dataclass
class OwnEngine:
    """A `dockerd` of the test's own, that may be stopped and started. `folder` is short: sockets' names are."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None
    has_run: bool = False

    @property
    def address(self) -> str:
        return f"unix://{self.folder}/sock"

    def start(self) -> None:
        """Returns when it answers."""
        dockerd = needs.dockerd()
        where = [f"--{name}={self.folder}/{name}" for name in ("data-root", "exec-root", "pidfile")]
        # Nothing of the machine's own engine is taken: `--bridge=none` would remove its bridge, and chains are shared.
        # Nor of another test's: two that look for free addresses at the same moment find the same ones.
        pool = f"--default-address-pool=base=10.213.{os.getpid() % 16 * 16}.0/20,size=24"
        pools = ("--bridge=docker0", "--iptables=false", pool)
        # It takes its containers with it, as when the machine goes down.
        command = [dockerd, *where, f"--host={self.address}", *pools]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        while not self.answers():
            if self.process.poll() is not None:
                self.process = None
                assert not self.has_run, f"dockerd does not start again: {(self.folder / 'log').read_text()[-500:]}"
                needs.missing("an engine of the test's own", needs.SETUP, (self.folder / "log").read_text()[-500:])
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)
        self.has_run = True

    def answers(self) -> bool:
        """Return whether the engine answers. Docker's client would leave its socket open if it does not."""
        with socket.socket(socket.AF_UNIX) as line:
            try:
                line.connect(f"{self.folder}/sock")
                line.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return b"200 OK" in line.recv(100)
            except OSError:
                return False

    def stop(self) -> None:
        """Returns when it has ended, with what ran in it.

        A dockerd that has little processor time leaves mounts of its containers, and the next one cannot remove those.
        """
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None
        self.unmount("*/overlay2/*/merged")

    def unmount(self, pattern: str) -> None:
        """Unmounts what is mounted in its folder at paths of this pattern."""
        for name in reversed([line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]):
            if Path(name).is_relative_to(self.folder) and Path(name).match(pattern):
                subprocess.run(["umount", "-l", name], check=False)


@contextmanager
def own_engine(folder: Path) -> Iterator[OwnEngine]:
    """Running inside the block; nothing of it is left after."""
    own = OwnEngine(folder)
    try:
        own.start()
        yield own
    finally:
        own.stop()
        own.unmount("*")


def machines_address() -> str:
    """The address of this machine's container engine."""
    needs.engine()
    return engine_address(os.environ)  # noqa: TID251 - as in wiring
