"""Stock images: each runs its programs, is reproducible, and can be built again after an interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import anyio
import pytest

from planloop.containers.engine.docker_engine import DockerEngine
from planloop.containers.engine.engine import ContainerNetwork
from planloop.containers.images.archive import ImageFailed
from planloop.containers.images.packages import Apt
from planloop.containers.images.stock import STOCK
from planloop.containers.images.stock_build import build_stock_image, is_loaded, last_built_image
from tests import golden_text
from tests.architecture.tree import ROOT
from tests.containers.engines import Ground
from tests.containers.images.stocked import shared, stocked
from tests.product import ContainerCreation, ExecCommand, ExitCause

pytestmark = [pytest.mark.anyio, pytest.mark.engine, pytest.mark.timeout(180), pytest.mark.usefixtures("apt")]

PACKAGE = (
    '{"name": "a", "version": "1.0.0", "scripts": {"pretest": "echo before", "test": "true", "fails": "exit 7",'
    ' "args": "printf %s+ $npm_package_name $npm_package_version $npm_lifecycle_event"}}'
)
PACKAGES = {"shell": {"busybox-static"}, "python": {"busybox-static", "ca-certificates", "libc6", "libssl3"}}
TYPED = 'import { WebSocketServer } from "ws"; const n: number = 42; console.log(typeof WebSocketServer, n + 1)'
LISP = '(ns a (:require ["ws" :refer [WebSocketServer]])) (println (some? WebSocketServer) (inc 42))'

PROGRAMS: dict[str, list[tuple[list[str], str]]] = {
    "shell": [(["sh", "-c", "echo $((6 * 7)) | awk '{print $1 + 1}'"], "43")],
    "python": [
        (["python3", "-c", "import ssl, sqlite3, ctypes, lzma, asyncio, unittest; print(6 * 7)"], "42"),
        (["python3", "-c", "import ssl; print(len(ssl.create_default_context().get_ca_certs()) > 50)"], "True"),
        (["bash", "-lc", "[[ $(python3 -V) == Python* ]] && echo yes"], "yes"),
    ],
    "node": [
        (["node", "-e", "console.log(typeof fetch, new Intl.NumberFormat('de').format(1.5))"], "function 1,5"),
        (["bash", "-lc", f"echo '{PACKAGE}' >package.json; npm test -- \"it's\" two"], "before\n\n> a@1.0.0 test"),
        (["bash", "-lc", "npm run args \"it's\" two"], "a+1.0.0+args+it's+two+"),
        (["bash", "-lc", "npm run fails; echo code $?; npm none; true"], "code 7"),
        (["bash", "-lc", "echo 'require(`node:test`)(`a`, () => {})' >/tmp/a.js; node --test /tmp/a.js"], "# pass 1"),
    ],
    "clojure": [
        (["clojure", "-e", "(require 'clojure.test 'clojure.pprint) (println (* 6 7))"], "42"),
        (["sh", "-c", "echo '(ns a) (def b 43)' >/tmp/a.clj; clojure -cp /tmp -e \"(require 'a) a/b\""], "43"),
        (["java", "-version"], "Runtime Environment"),
    ],
    "typescript": [
        (["sh", "-c", f"echo '{TYPED}' >/tmp/a.ts; node /tmp/a.ts"], "function 43"),
        (["sh", "-c", "cd /tmp && tsc --noEmit --types node --module nodenext --target es2022 a.ts && echo ok"], "ok"),
        (["sh", "-c", "sed -i 's/42/`42`/' /tmp/a.ts; tsc --noEmit /tmp/a.ts || true"], "TS2322"),
        (["bash", "-lc", f"echo '{PACKAGE}' >package.json; npm run args"], "a+1.0.0+args+"),
    ],
    "clojurescript": [
        (["sh", "-c", f"echo '{LISP}' >/tmp/a.cljs; nbb /tmp/a.cljs"], "true 43"),
        (["nbb", "-e", "(inc 42)"], "43"),
    ],
}  # fmt: skip


def of_debian(*names: str) -> list[Any]:
    """The parameters `names`: all but `shell` need more packages than this machine has installed."""
    return [name if name == "shell" else pytest.param(name, marks=pytest.mark.network) for name in names]


async def said(ground: Ground, ref: str, argv: list[str]) -> str:
    ended = await ground.engine.run(ref, ExecCommand(tuple(argv), mark="test", timeout_s=30))
    text = ended.output.decode()
    assert (ended.ending, ended.code) == (ExitCause.EXITED, 0), text
    return text


@pytest.mark.smoke
@pytest.mark.parametrize("name", of_debian(*STOCK))
async def test_each_image_runs_its_program_without_rights_or_a_network(
    name: str, ground: Ground, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = await stocked(name, ground.engine, tmp_path_factory)
    network = ground.name()
    await ground.engine.make_network(network, ground.labels, is_internal=True)
    wanted = ContainerCreation(
        ground.name(), f"planloop/{name}", ground.labels, cmd=("sleep", "120"), network=ContainerNetwork((network,))
    )
    ref = await ground.engine.create(wanted)
    await ground.engine.start(ref)

    for argv, answer in PROGRAMS[name]:
        assert answer in await said(ground, ref, argv)
    assert (await said(ground, ref, ["sh", "-c", "id -u; pwd; touch here; echo $HOME"])).split() == [
        "1000",
        "/work",
        "/tmp",
    ]
    found = await ground.engine.image(made.tag)
    assert found is not None
    assert found == await ground.engine.image(f"planloop/{name}:latest")
    assert found.id == made.id


@pytest.mark.smoke
@pytest.mark.parametrize("name", of_debian("shell", "python", "clojure", "clojurescript"))
async def test_the_same_packages_make_the_same_bytes_in_another_folder_language_and_umask(
    name: str,
    engine: DockerEngine,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = await stocked(name, engine, tmp_path_factory)
    monkeypatch.setenv("LC_ALL", "tr_TR.UTF-8")
    monkeypatch.setenv("TZ", "Pacific/Apia")
    before = os.umask(0o077)
    try:
        second = await build_stock_image(STOCK[name], engine, tmp_path, lambda _, __: None)
    finally:
        os.umask(before)

    assert second == first
    (one,), (other,) = (list(folder.glob(f"{name}-*.tar")) for folder in (shared(tmp_path_factory), tmp_path))
    assert one.read_bytes() == other.read_bytes()
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.parametrize("name", of_debian("shell", "python"))
async def test_image_lists_its_packages(
    name: str, engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = await stocked(name, engine, tmp_path_factory)

    (archive,) = shared(tmp_path_factory).glob(f"{name}-*.tar")
    with tarfile.open(archive) as opened:
        content = opened.extractfile(f"{made.id.removeprefix('sha256:')}.json")
        assert content is not None
        labels = json.load(content)["config"]["Labels"]
    assert labels["planloop.stock"] == name
    versions = dict(one.split("=") for one in labels["planloop.packages"].split())
    assert versions == made.packages
    assert PACKAGES[name] <= versions.keys()


CUT_OFF = """
import os, signal, sys, anyio
from pathlib import Path
from planloop.containers.engine.docker_engine import DockerEngine
from planloop.containers.images.stock_build import build_stock_image
from planloop.containers.images.stock import STOCK

def tell(step, detail):
    if step.startswith(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

anyio.run(build_stock_image, STOCK["shell"], DockerEngine(os.environ), Path(sys.argv[1]), tell)
"""


async def test_build_killed_at_any_step_continues_to_the_same_image(
    engine: DockerEngine, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = await stocked("shell", engine, tmp_path_factory)
    for step in ("resolving", "downloading", "unpacking", "writing"):
        done = await anyio.run_process(
            [sys.executable, "-c", CUT_OFF, str(tmp_path), step], check=False, cwd=ROOT, stderr=subprocess.STDOUT
        )
        assert done.returncode == -signal.SIGKILL, done.stdout.decode()
        assert last_built_image(tmp_path, "shell") is None
    (package,) = (tmp_path / "work" / "shell" / "packages").iterdir()
    package.write_bytes(b"\0" * package.stat().st_size)  # As a disk may leave it that lost its power.
    steps: list[str] = []

    assert await build_stock_image(STOCK["shell"], engine, tmp_path, lambda step, detail: steps.append(detail)) == whole
    assert any(detail.startswith("1: busybox-static ") for detail in steps)
    assert last_built_image(tmp_path, "shell") == whole
    assert await is_loaded(engine, whole)


async def test_existing_image_is_neither_fetched_nor_loaded_again(
    engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    await stocked("shell", engine, tmp_path_factory)
    steps: list[str] = []

    await build_stock_image(STOCK["shell"], engine, shared(tmp_path_factory), lambda step, _: steps.append(step))

    golden_text.said(steps)


async def test_packages_are_found_where_the_machine_has_no_lists_of_them(tmp_path: Path, engine: DockerEngine) -> None:
    apt = Apt(tmp_path)
    await apt.renew()

    (package,) = await apt.needed(("busybox-static",), ("*",))
    assert package.name == "busybox-static"
    assert any((tmp_path / "lists").glob("*Packages*"))


async def test_package_unknown_to_apt_is_reported_in_apts_words(tmp_path: Path, engine: DockerEngine) -> None:
    with pytest.raises(ImageFailed, match=r"apt-get failed .*Unable to locate package no-such-package"):
        await Apt(tmp_path).needed(("no-such-package",), ("*",))
