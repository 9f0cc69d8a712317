"""The Compose file of the containers of the source documents, accepted and run by a real `docker-compose`.

Local images with the programs that the plan calls stand in for the images of the documents, under names of this test.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from planloop.containers.engine.docker_engine import DockerEngine
from planloop.containers.images.archive import ImageSettings, ImageTree, text_entry, write_archive
from tests import needs
from tests.containers import engines
from tests.e2e.folder import Folder

pytestmark = [pytest.mark.anyio, pytest.mark.engine, pytest.mark.timeout(180)]

NODE, REDIS = "planloop-test/node:20", "planloop-test/redis:7"
SEED = """{:containers
 [{:name "sut" :image "node:20" :workdir "/work" :mounts [{:host "." :container "/work"}]
   :cmd ["bash" "-lc" "npm test"] :env {"CI" "1" "ON" "on" "PRICE" "$5 ${X}" "TOKEN" "secret:COMPOSE_TOKEN"}
   :needs ["redis"]}
  {:name "redis" :image "redis:7" :ports [{:container 6379}]
   :limits {:memory "64MB" :pids 20} :health {:cmd ["redis-cli" "ping"]}}]}
"""
SHELL = "#!/bin/sh\n"
PROGRAMS = {
    "npm": 'echo "$1 of $(cat word) with CI=$CI, $ON, $PRICE and $TOKEN" > said',
    "redis-cli": "test -e /tmp/up && echo PONG",
    "redis-server": "touch /tmp/up; exec sleep 100",
    "bash": 'shift; exec sh -c "$@"',
}


def _tree() -> ImageTree:
    """Busybox with programs that answer to the words of node and redis."""
    out = engines.tree()
    for name, line in PROGRAMS.items():
        out.add(text_entry(f"bin/{name}", f"{SHELL}{line}\n", mode=0o755))
    return out


@pytest.fixture
async def images(engine: DockerEngine, tmp_path: Path) -> AsyncIterator[None]:
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    settings = ImageSettings(architecture, cmd=("redis-server",), env={"PATH": "/bin"})
    archive = tmp_path / "image.tar"
    write_archive(archive, _tree(), settings, lambda _: [NODE, REDIS])
    await engine.load(archive)
    yield


def _compose(folder: Path, *words: str, token: str | None = "hush-hush") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **({"COMPOSE_TOKEN": token} if token else {})}  # noqa: TID251 - as in wiring
    argv = [needs.compose(), "-f", "compose.yaml", "-p", f"planlooptest{os.getpid()}", *words]
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def folder(images: None, tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    seed = SEED.replace("node:20", NODE).replace("redis:7", REDIS)
    (place / "seed.plan.edn").write_text(seed)
    (place / "word").write_text("the seed")
    made = Folder(place).run("compile", "--target", "compose", "seed.plan.edn")
    assert made.code == 0, made.err
    (place / "compose.yaml").write_text(made.out)
    return place


async def test_the_containers_of_the_source_documents_run_under_compose(folder: Path) -> None:
    assert "hush" not in (folder / "compose.yaml").read_text()
    try:
        up = _compose(folder, "up", "-d")
        assert up.returncode == 0, up.stderr
        assert _compose(folder, "ps", "-q", "redis").stdout.strip()
        port = _compose(folder, "port", "redis", "6379").stdout
        assert port.startswith("127.0.0.1:")
        ended = _compose(folder, "up", "--exit-code-from", "sut", "sut")
        assert ended.returncode == 0, ended.stderr
        assert (folder / "said").read_text() == "test of the seed with CI=1, on, $5 ${X} and hush-hush\n"
    finally:
        down = _compose(folder, "down", "-v")
        assert down.returncode == 0, down.stderr


async def test_a_secret_that_is_missing_is_asked_for_by_name(folder: Path) -> None:
    refused = _compose(folder, "config", token=None)
    assert refused.returncode != 0
    assert "COMPOSE_TOKEN" in refused.stderr


async def test_compose_reads_all_that_can_be_written(folder: Path) -> None:
    written = yaml.safe_load(_compose(folder, "config").stdout)
    assert written["services"]["sut"]["depends_on"] == {"redis": {"condition": "service_healthy"}}
    assert written["services"]["redis"]["healthcheck"]["test"] == ["CMD", "redis-cli", "ping"]
    assert written["services"]["redis"]["cap_drop"] == ["ALL"]
