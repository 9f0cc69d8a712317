"""Podman passes the contract through its Docker socket. Collected only if PLANLOOP_PODMAN has the socket's address:

    podman system service --time=0 unix:///run/podman.sock

CI does not run it: where the kernel forbids root to raise limits of processes, Docker starts containers and Podman
does not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from planloop.containers.engine.docker_engine import DockerEngine
from planloop.containers.engine.engine import HOST
from tests import needs
from tests.containers.engine_contract import made, running
from tests.containers.engines import Ground
from tests.containers.test_docker_engine import Others, TestDocker, TestOnlyDocker, TestRunningInDocker
from tests.product import ContainerMount, EngineErrorReason, EngineFailed, ExecCommand

pytestmark = [pytest.mark.anyio, pytest.mark.engine]
ADDRESS = os.environ.get(needs.PODMAN, "")  # noqa: TID251


@pytest.fixture(autouse=True)
def podman(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment selects Podman as engine."""
    monkeypatch.setenv(HOST, ADDRESS)


@pytest.fixture
def engine(podman: None) -> DockerEngine:
    return DockerEngine(os.environ)  # noqa: TID251


@pytest.fixture
def outside(podman: None) -> Iterator[Others]:
    others = Others()
    yield others
    others.api.close()


class TestPodman(TestDocker):
    async def test_limits_are_moved_and_lifted_while_it_runs(self, ground: Ground) -> None:
        if int((await ground.engine.facts()).version.partition(".")[0]) >= 5:
            await super().test_limits_are_moved_and_lifted_while_it_runs(ground)
            return
        ref = await made(ground)
        with pytest.raises(EngineFailed, match="too old") as caught:
            await ground.engine.update(ref, (await ground.engine.containers(ground.labels))[0].bound)
        assert caught.value.reason is EngineErrorReason.REFUSED
        assert "Podman 5" in caught.value.hint


class TestRunningInPodman(TestRunningInDocker):
    pass


class TestOnlyPodman(TestOnlyDocker):
    # Podman lists the processes in a container with a `ps` inside, which an image without a shell lacks.
    test_an_image_without_a_shell_runs_programs_and_they_are_ended = None  # type: ignore[assignment]
    # Podman does not always notice why a container was killed.
    test_command_over_its_memory_limit_is_reported_as_such = None  # type: ignore[assignment]
    # Podman makes the folder, or refuses when it starts the container.
    test_missing_folder_is_not_mounted = None  # type: ignore[assignment]

    async def test_memory_over_a_folder_hides_what_is_in_it(self, ground: Ground, tmp_path: Path) -> None:
        (tmp_path / "secret").mkdir()
        (tmp_path / "secret/key").write_text("hush\n")
        mounts = (ContainerMount("/host", host=str(tmp_path)), ContainerMount("/host/secret", is_read_only=True))
        ref = await running(ground, mounts=mounts)

        result = await ground.engine.run(ref, ExecCommand(("ls", "-a", "/host/secret"), "m"))

        assert result.output.split() == [b".", b".."]


del TestDocker, TestOnlyDocker, TestRunningInDocker  # Those are run where they are.
