"""`rootfs:` on a real engine: a tar becomes an image that runs, once, however many ask for it and whatever was left."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from planloop.containers.engine.docker_engine import DockerEngine
from planloop.containers.images.rootfs import NAME, ensure_rootfs_image, rootfs_digest
from tests import needs
from tests.containers.engines import Ground
from tests.golden_text import said
from tests.product import ContainerCreation, EngineErrorReason, EngineFailed, ExecCommand

pytestmark = [pytest.mark.anyio, pytest.mark.engine]


def busybox_tar(path: Path, word: str) -> Path:
    """A small system with a name for `busybox` that leads there by a hard link, in gzip."""
    program = needs.busybox().read_bytes()
    with tarfile.open(path, "w:gz") as opened:
        for name, link in (("./bin/busybox", ""), ("./bin/sh", "./bin/busybox"), ("./dev/null", "")):
            info = tarfile.TarInfo(name)
            info.mode, info.uid, info.gid, info.mtime = 0o755, 5, 6, 1_000_000
            if name == "./dev/null":
                info.type = tarfile.CHRTYPE
            elif link:
                info.type, info.linkname = tarfile.LNKTYPE, link
            else:
                info.size = len(program)
            opened.addfile(info, io.BytesIO(program))
        info = tarfile.TarInfo("word")
        info.size = len(word)
        opened.addfile(info, io.BytesIO(word.encode()))
    return path


@pytest.fixture
async def tars(engine: DockerEngine, tmp_path: Path) -> AsyncIterator[Path]:
    """A folder for tars whose images go at the end; their names are unlike those of any other run."""
    (tmp_path / "tars").mkdir()
    yield tmp_path / "tars"
    for tar in (tmp_path / "tars").iterdir():
        await anyio.run_process(["docker", "rmi", "--force", f"{NAME}:{rootfs_digest(tar)}"], check=False)


@pytest.mark.smoke
async def test_tar_becomes_a_runnable_image_and_the_second_time_is_a_no_op(
    ground: Ground, tmp_path: Path, tars: Path
) -> None:
    tar = busybox_tar(tars / "root.tar.gz", ground.label)
    steps: list[str] = []
    image = await ensure_rootfs_image(tar, ground.engine, tmp_path / "cache", steps.append)
    ref = await ground.engine.create(
        ContainerCreation(ground.name(), image.id, ground.labels, cmd=("sh", "-c", "sleep 60"))
    )
    await ground.engine.start(ref)

    ask = ExecCommand(("busybox", "stat", "-c", "%h %u %g %Y %a", "/bin/sh", "/word"), mark="test")
    ended = await ground.engine.run(ref, ask)

    assert ended.output.decode().splitlines() == ["2 5 6 1000000 755", "1 0 0 0 644"]
    said(steps)
    tar.rename(tars / "other name.tar")
    assert await ensure_rootfs_image(tars / "other name.tar", ground.engine, tmp_path / "cache", steps.append) == image
    assert len(steps) == 2
    assert await ground.engine.image(f"{NAME}:{rootfs_digest(tars / 'other name.tar')}") == image
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [".lock"]


async def test_concurrent_users_write_a_root_once_even_over_what_a_killed_process_left(
    engine: DockerEngine, tmp_path: Path, tars: Path
) -> None:
    tar = busybox_tar(tars / "root.tar.gz", hashlib.sha256(os.fsencode(tmp_path)).hexdigest())
    (tmp_path / "cache" / "rootfs").mkdir(parents=True)
    (tmp_path / "cache" / "rootfs" / "rootfs.tar.part").write_bytes(b"half an arch")
    steps: list[str] = []
    ids: set[str] = set()

    async def want() -> None:
        ids.add((await ensure_rootfs_image(tar, engine, tmp_path / "cache", steps.append)).id)

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(want)

    assert (len(ids), len(steps)) == (1, 2)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [".lock"]


async def test_invalid_image_reports_why_and_leaves_nothing(engine: DockerEngine, tmp_path: Path) -> None:
    (tmp_path / "poem.tar").write_bytes(b"I am a poem " * 100)
    with tarfile.open(tmp_path / "out.tar", "w") as opened:
        opened.addfile(tarfile.TarInfo("../../etc/passwd"))
    faults = {}
    for name in ("nothing.tar", ".", "poem.tar", "out.tar"):
        with pytest.raises(EngineFailed) as told:
            await ensure_rootfs_image(tmp_path / name, engine, tmp_path / "cache", lambda _: None)
        faults[name] = (told.value.reason, str(told.value).replace(f"{tmp_path}/", ""), bool(told.value.hint))

    assert faults == {
        "nothing.tar": (EngineErrorReason.NO_IMAGE, "the file nothing.tar does not exist", True),
        ".": (EngineErrorReason.NO_IMAGE, f"the file {tmp_path} does not exist", True),
        "poem.tar": (EngineErrorReason.BUILD_FAILED, "poem.tar is not a complete tar: invalid header", True),
        "out.tar": (EngineErrorReason.BUILD_FAILED, "`../../etc/passwd` points outside of the tar", True),
    }
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [".lock"]


async def test_full_disk_is_reported_and_is_transient(engine: DockerEngine, tmp_path: Path) -> None:
    tar = busybox_tar(tmp_path / "root.tar.gz", os.fspath(tmp_path))
    (tmp_path / "cache" / "rootfs").mkdir(parents=True)
    (tmp_path / "cache" / "rootfs" / "rootfs.tar.part").symlink_to("/dev/full")

    with pytest.raises(EngineFailed) as told:
        await ensure_rootfs_image(tar, engine, tmp_path / "cache", lambda _: None)
    said(str(told.value))
    assert told.value.reason is EngineErrorReason.DISK_FULL
