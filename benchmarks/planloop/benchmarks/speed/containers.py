"""Start and stop a network and three containers, each healthy before the next: `plan apply` against the bare engine.

Floor, alternating in the same run: raw HTTP on the engine's socket, with the same image, limits, settings and health
loop, but nothing durable. The time of `plan apply` is measured from its first record until the last container is
healthy, and from the request to stop until nothing is left; the time of the whole process is printed, too. Also
measures the delay of the event loop while the engine's client works: a 5 ms timer in a process that inspects, uses,
follows and removes containers.

Needs an engine and a static busybox. Removes everything that it creates.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from planloop.containers.engine.docker_engine import DockerEngine
from planloop.containers.engine.engine import ContainerCreation, ExecCommand, engine_address
from planloop.containers.images.archive import ImageSettings, ImageTree, data_entry, symlink_entry, write_archive

ROUNDS = 5
GOAL = 1.1
LATE_GOAL_MS = 50.0
PROBE_S = 0.1
IMAGE = "planloop-speed/service:1"
NAMES = ("db", "api", "web")
COMMAND = ["sh", "-c", "trap 'exit 0' TERM; touch /tmp/well; while :; do sleep 0.05; done"]
WELL = ["test", "-e", "/tmp/well"]
LABEL = "planloop.speed"
ROOT = Path(__file__).parents[4]


class PlanRun(http.client.HTTPConnection):
    """HTTP on a local socket. Connects again if the engine closed the connection after a response."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.host)


class Bare:
    """Direct use of the engine's API: one connection, one request after the other."""

    def __init__(self, path: str) -> None:
        self.connection = PlanRun(path)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        text = None if body is None else json.dumps(body)
        self.connection.request(method, path, text, {"Content-Type": "application/json", "Host": "engine"})
        answer = self.connection.getresponse()
        said = answer.read()
        assert answer.status < 400, said
        return json.loads(said) if said and answer.headers.get_content_type() == "application/json" else said

    def up(self) -> None:
        self.ask("POST", "/networks/create", {"Name": "planloop-speed", "CheckDuplicate": True})
        for name in NAMES:
            config = {
                "Image": IMAGE,
                "Cmd": COMMAND,
                "HostConfig": {
                    "Init": True,
                    "NetworkMode": "planloop-speed",
                    "CapDrop": ["ALL"],
                    "SecurityOpt": ["no-new-privileges"],
                },
            }
            self.ask("POST", f"/containers/create?name=planloop-speed-{name}", config)
            self.ask("POST", f"/containers/planloop-speed-{name}/start")
            while not self.is_well(name):
                time.sleep(PROBE_S)

    def is_well(self, name: str) -> bool:
        body = {"Cmd": WELL, "AttachStdout": True, "AttachStderr": True}
        made = self.ask("POST", f"/containers/planloop-speed-{name}/exec", body)
        self.ask("POST", f"/exec/{made['Id']}/start", {"Detach": False, "Tty": False})
        return bool(self.ask("GET", f"/exec/{made['Id']}/json")["ExitCode"] == 0)

    def down(self) -> None:
        for name in reversed(NAMES):
            self.ask("POST", f"/containers/planloop-speed-{name}/stop?t=10")
            self.ask("DELETE", f"/containers/planloop-speed-{name}?force=1&v=1")
        self.ask("DELETE", "/networks/planloop-speed")


def plan() -> str:
    """A plan with the same three containers."""
    rows = ["plan: speed", "containers:"]
    for name, needed in zip(NAMES, (None, *NAMES), strict=False):
        rows += [f"  {name}:", f"    image: {IMAGE}", f"    cmd: {json.dumps(COMMAND)}"]
        rows += [f"    health: {{cmd: {json.dumps(WELL)}}}"]
        rows += [f"    needs: {{{needed}: healthy}}"] if needed else []
    return "\n".join(rows) + "\n"


def timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@contextmanager
def applied(folder: Path) -> Iterator[Any]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    (folder / "speed.plan.yaml").write_text(plan())
    command = [sys.executable, "-m", "planloop"]
    options: Any = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    with subprocess.Popen([*command, "apply", "--yes", "speed.plan.yaml"], **options) as owner:
        try:
            yield owner, lambda: subprocess.run([*command, "down"], check=True, **options)
        finally:
            owner.terminate()


def ours() -> tuple[float, float, float, float]:
    """Seconds to start and to stop, according to the log and for the whole processes."""
    with tempfile.TemporaryDirectory(prefix="containers-") as name:
        folder, start = Path(name), time.perf_counter()
        with applied(folder) as (owner, down):
            while not all_are(folder, "healthy"):
                assert owner.poll() is None, "plan apply ended before its containers were up"
                time.sleep(0.01)
            up_whole = time.perf_counter() - start
            down_whole = timed(down)
        log = [json.loads(line) for line in (folder / ".plan" / "speed" / "events.jsonl").read_text().splitlines()]
    began = next(row["at"] for row in log if row["type"] == "patch.committed" or row["rev"] == 2)
    healthy = [number for number, row in enumerate(log) if row.get("data", {}).get("state") == "healthy"]
    last = healthy[len(NAMES) - 1]
    return log[last]["at"] - began, log[-1]["at"] - log[last + 1]["at"], up_whole, down_whole


def all_are(folder: Path, state: str) -> bool:
    log = folder / ".plan" / "speed" / "events.jsonl"
    return log.exists() and log.read_text().count(f'"data":{{"state":"{state}"') >= len(NAMES)


async def lateness_ms(address: str) -> list[float]:
    """Delays of a timer, in milliseconds, while a container is started, used and removed."""
    late: list[float] = []
    engine = DockerEngine({"DOCKER_HOST": address})

    async def tick() -> None:
        while True:
            start = time.perf_counter()
            await anyio.sleep(0.005)
            late.append((time.perf_counter() - start - 0.005) * 1e3)

    async def work(name: str) -> None:
        ref = await engine.create(ContainerCreation(name, IMAGE, {LABEL: "1"}, cmd=tuple(COMMAND)))
        await engine.start(ref)
        for number in range(10):
            await engine.run(ref, ExecCommand(tuple(WELL), f"m{number}"))
            await engine.containers({LABEL: "1"})
        await engine.remove(ref)

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        async with anyio.create_task_group() as working:
            for name in NAMES:
                working.start_soon(work, f"planloop-speed-late-{name}")
        group.cancel_scope.cancel()
    return sorted(late)


def load(address: str) -> None:
    """Load an image with busybox into the engine."""
    busybox = shutil.which("busybox")
    assert busybox, "apt-get install busybox-static"
    tree = ImageTree()
    tree.add(data_entry("bin/busybox", Path(busybox).read_bytes(), mode=0o755))
    for word in ("sh", "test", "touch", "sleep"):
        tree.add(symlink_entry(f"bin/{word}", "busybox"))
    tree.add(data_entry("tmp/.keep", b"", mode=0o644))
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    with tempfile.TemporaryDirectory() as name:
        archive = Path(name) / "image.tar"
        write_archive(archive, tree, ImageSettings(architecture, env={"PATH": "/bin"}), lambda _: [IMAGE])
        anyio.run(DockerEngine({"DOCKER_HOST": address}).load, archive)


def main() -> None:
    address = engine_address(os.environ)
    load(address)
    bare = Bare(address.removeprefix("unix://"))
    floor_up, floor_down, runs = [], [], []
    for _ in range(ROUNDS):
        floor_up.append(timed(bare.up))
        floor_down.append(timed(bare.down))
        runs.append(ours())
    floors = (statistics.median(floor_up), statistics.median(floor_down))
    titles = (
        "up, first record to the last healthy",
        "down, first record of it to the last",
        "up, whole",
        "down, whole",
    )
    print(f"{'':38}{'s':>8}{'floor':>8}{'× floor':>9}")
    for number, title in enumerate(titles):
        seconds, floor = statistics.median(run[number] for run in runs), floors[number % 2]
        print(f"{title:38}{seconds:>8.2f}{floor:>8.2f}{seconds / floor:>9.2f}")
    late = anyio.run(lateness_ms, address)
    print(
        f"delay of the loop: median {statistics.median(late):.1f} ms, 99 % {late[int(len(late) * 0.99)]:.1f} ms, ",
        end="",
    )
    print(f"at most {late[-1]:.1f} ms of {len(late):,}")
    print(f"goal: at most {GOAL} × floor; delay at most {LATE_GOAL_MS:.0f} ms")


if __name__ == "__main__":
    main()
