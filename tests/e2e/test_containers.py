"""Containers under `plan apply` on a real engine: brought up, changed in the live file, and gone without a trace."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e import container_harness
from tests.e2e.container_harness import BEGUN, ContainerHarness
from tests.e2e.folder import Folder
from tests.product import Resource

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]

SEED = Path(__file__).parents[1] / "golden" / "seeds" / "containers.edn"
NODE = {
    "bash": 'exec sh "$@"\n',
    "npm": '[ "$1" = test ] && echo "tests in $PWD with CI=$CI" && ls && touch made && rm made && exit 0\nexit 1\n',
}
TO_USER = """set -e
if [ "$(id -u)" = 0 ]; then
  mkdir -p /data
  busybox chown appuser /data
  chmod 700 /data
  busybox find /data ! -user appuser -exec busybox chown appuser {} +
  exec busybox su -s /bin/sh appuser -c "exec $0"
fi
touch /data/made
echo "user $(id -u)"
"""
"""What the entrypoints of official databases do: their files go to a user of their own, and they become that one."""
REDIS = {
    "redis-server": f"{TO_USER}echo Ready to accept connections\nexec nc -ll -p 6379 -e pong\n",
    "pong": "echo PONG\n",
    "redis-cli": '[ "$1" = ping ] && nc 127.0.0.1 6379 </dev/null\n',
}


@pytest.fixture
def harness(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ContainerHarness]:
    """On an engine of its own, because the names of these images belong to others. One has their port."""
    with (
        Path(tempfile.gettempdir(), "planloop-test-seeds").open("w") as turn,
        tempfile.TemporaryDirectory(prefix="pl-engine-") as name,
        container_harness.own_engine(Path(name)) as engine,
    ):
        fcntl.flock(turn, fcntl.LOCK_EX)
        monkeypatch.setenv("DOCKER_HOST", engine.address)
        with container_harness.harness(folder, engine.address, tmp_path) as harness:
            container_harness.load(harness.api, tmp_path, "node:20", NODE, ("sh",))
            container_harness.load(harness.api, tmp_path, "node:22", NODE | {"npm": "echo on 22\n"}, ("sh",))
            container_harness.load(harness.api, tmp_path, "redis:7", REDIS, ("redis-server",))
            yield harness


@pytest.mark.parametrize("owner_uid", [0, 1000], ids=["a folder of root", "a folder of an ordinary user"])
def test_the_containers_of_the_seeds_run_as_written(harness: ContainerHarness, folder: Folder, owner_uid: int) -> None:
    file = folder.path / "p.plan.edn"
    shutil.copy(SEED, file)
    for path in (folder.path, file):
        os.chown(path, owner_uid, owner_uid)
    folder.path.chmod(0o700)
    before = {path.name for path in folder.path.iterdir()}
    with folder.started("--yes", file.name) as owner:
        owner.until(BEGUN)
        harness.until_states(sut="completed", redis="healthy")
        assert harness.said_inside("redis", "redis-cli", "ping") == "PONG\n"
        assert "tests in /work with CI=1\n" in folder.run("logs", "container/sut").out
        assert "p.plan.edn" in folder.run("logs", "container/sut").out
        assert "user 1000\nReady to accept connections" in folder.run("logs", "container/redis").out
        assert harness.inspect("sut")["Config"]["User"] == (f"{owner_uid}:{owner_uid}" if owner_uid else "")
        redis = harness.ref("redis")

        saved = file.read_text().replace('"CI" "1"', '"CI" "2"')
        file.with_suffix(".new").write_text(saved)
        diff = folder.run("diff", file.with_suffix(".new").name)
        file.with_suffix(".new").unlink()
        assert diff.code == 1, diff.text
        assert "container/sut" in diff.out
        assert "container/redis" not in diff.out
        file.write_text(saved)
        harness.until(lambda seen: "CI=2" in str(seen["container/sut"].status.get("last")))
        assert harness.ref("redis") == redis, "what has not changed is left alone"

        assert folder.run("down").code == 0
        owner.ended()

    assert harness.left() == []
    assert {path.name for path in folder.path.iterdir()} - before == {".plan"}


DATABASE = """
plan: p
containers:
  db:
    image: redis:7
    mounts: MOUNTS
    health: {cmd: [redis-cli, ping]}
    MORE: x
"""


def test_database_restarts_on_its_data_and_reports_missing_capabilities(
    harness: ContainerHarness, folder: Folder
) -> None:
    kept = DATABASE.replace("MOUNTS", "[{volume: v, container: /data}]")
    file = folder.write("p.plan.yaml", kept.replace("MORE: x", "labels: {run: first}"))
    with folder.started("--yes", file.name) as owner:
        owner.until(BEGUN)
        harness.until_states(db="healthy")
        # Its files are there now, of another user and closed to others.
        file.write_text(kept.replace("MORE: x", "env: {RUN: second}"))
        harness.until(lambda seen: seen["container/db"].status.get("incarnation") == 2 and _is_healthy(seen))

        (folder.path / "data").mkdir()
        mounted = DATABASE.replace("MOUNTS", "{data: /data}")
        file.with_suffix(".new").write_text(mounted.replace("MORE: x", "restart: 'no'"))
        said = folder.run("diff", file.with_suffix(".new").name).out
        assert "may write `data`" in said and "SETUID" in said and "containers.db" in said
        file.with_suffix(".new").rename(file)
        failed = harness.until_states(db="failed")["container/db"]
        (hint,) = failed.status["conditions"]["Ready"]["unblocks"]
        (line,) = re.findall("`(cap-add: .*?)`", hint)

        file.write_text(mounted.replace("MORE: x", line))
        harness.until_states(db="healthy")
        assert (folder.path / "data/made").stat().st_uid == 1000
        assert folder.run("down", "--volumes").code == 0
        owner.ended()


def _is_healthy(seen: Mapping[str, Resource]) -> bool:
    return seen["container/db"].state == "healthy"


def test_image_limits_and_ports_of_the_seeds_change_in_the_live_file(harness: ContainerHarness, folder: Folder) -> None:
    file = folder.path / "p.plan.edn"
    shutil.copy(SEED, file)
    with folder.started("--yes", file.name) as owner:
        owner.until(BEGUN)
        harness.until_states(sut="completed", redis="healthy")
        redis = harness.ref("redis")

        _saved(file, '"node:20"', '"node:22"')
        harness.until(lambda seen: "on 22" in str(seen["container/sut"].status.get("last")))
        assert harness.ref("redis") == redis

        _saved(file, ':image "redis:7"', ':image "redis:7" :limits {:memory "32MB"}')
        harness.until(lambda seen: _seen(seen, "memory_bytes") == 32_000_000)
        assert harness.ref("redis") == redis, "it keeps running with other limits"
        assert harness.inspect("redis")["HostConfig"]["Memory"] == 32_000_000

        _saved(file, ":host 6379", ":host 6399")
        harness.until(
            lambda seen: seen["container/redis"].state == "healthy" and _seen(seen, "ports") == [[6379, 6399]]
        )
        assert harness.ref("redis") != redis
        assert harness.api.port(harness.ref("redis"), 6379) == [{"HostIp": "127.0.0.1", "HostPort": "6399"}]
        assert harness.said_inside("redis", "redis-cli", "ping") == "PONG\n"

        assert folder.run("down").code == 0
        owner.ended()

    assert harness.left() == []


def _saved(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def _seen(seen: Mapping[str, Resource], what: str) -> object:
    return (seen["container/redis"].status.get("seen") or {}).get(what)
