"""Folders that are put out of their place around the start of a real container, each time at another moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planloop.containers.engine.docker_engine import DockerEngine
from planloop.controllers.container import start_jobs
from planloop.controllers.shared import container_exec
from planloop.schemas.objects.container import ContainerSpec, Mount
from tests.containers.engine_contract import seen
from tests.containers.engines import Ground
from tests.product import ContainerCreation, ContainerMount, EngineErrorReason, EngineFailed

pytestmark = [pytest.mark.anyio, pytest.mark.engine, pytest.mark.timeout(120)]
SPEC = ContainerSpec(image="i", mounts=(Mount("/w", host="data"), Mount("/tmp")))


class Swapping:
    """An engine with another client that calls `before` and `after` each start."""

    def __init__(self, engine: DockerEngine, before: Callable[[], object], after: Callable[[], object]) -> None:
        self._engine, self._before, self._after = engine, before, after

    async def start(self, ref: str) -> None:
        self._before()
        await self._engine.start(ref)
        self._after()

    async def remove(self, ref: str) -> None:
        await self._engine.remove(ref)


def nothing() -> None: ...


async def created(ground: Ground, folder: Path) -> str:
    (folder / "data").mkdir()
    mounts, cmd = (ContainerMount("/w", host=str(folder / "data")),), ("sleep", "1000")
    return await ground.engine.create(
        ContainerCreation(ground.name(), ground.image, ground.labels, cmd=cmd, mounts=mounts)
    )


@pytest.mark.parametrize("way", ["a link in the start", "a link after it", "another folder"])
async def test_container_that_may_have_started_with_another_folder_is_removed(
    ground: Ground, tmp_path: Path, way: str
) -> None:
    ref, data = await created(ground, tmp_path), tmp_path / "data"

    def link() -> None:
        data.rename(tmp_path / "away")
        data.symlink_to("/")

    def other() -> None:
        data.rename(tmp_path / "away")
        data.mkdir()

    before = link if way == "a link in the start" else nothing
    after = link if way == "a link after it" else other if way == "another folder" else nothing
    with pytest.raises(EngineFailed) as failed:
        swapping: Any = Swapping(ground.engine, before, after)  # type: ignore[arg-type]  # all it asks
        await start_jobs.start_with_checked_mounts(swapping, ref, SPEC, container_exec.MountRoots(tmp_path, tmp_path))

    assert failed.value.reason is EngineErrorReason.REFUSED
    assert await ground.engine.container(ref) is None


async def test_restarted_container_is_inspected_again(ground: Ground, tmp_path: Path) -> None:
    ref, data = await created(ground, tmp_path), tmp_path / "data"
    await start_jobs.start_with_checked_mounts(ground.engine, ref, SPEC, container_exec.MountRoots(tmp_path, tmp_path))
    assert (await seen(ground, ref)).state == "running"
    await ground.engine.stop(ref, 0)

    data.rename(tmp_path / "away")
    data.symlink_to("/")
    with pytest.raises(EngineFailed, match="is a link to /"):
        await start_jobs.start_with_checked_mounts(
            ground.engine, ref, SPEC, container_exec.MountRoots(tmp_path, tmp_path)
        )

    assert (await seen(ground, ref)).state == "exited"
