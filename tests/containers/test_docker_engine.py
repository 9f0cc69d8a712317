"""The real engine passes the contract; then what only a real one can show."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import aclosing, suppress
from pathlib import Path

import anyio
import docker
import pytest
from docker.errors import APIError

from planloop.containers.engine import docker_errors
from planloop.containers.engine.docker_engine import DockerEngine
from planloop.containers.engine.engine import ContainerNetwork, ContainerRights, engine_address
from tests import golden_text, needs
from tests.containers import engines
from tests.containers.engine_contract import (
    EngineContract,
    RunningContract,
    ended,
    made,
    running,
    seen,
    shell,
    until,
    until_it_says,
)
from tests.containers.engines import Ground
from tests.product import (
    LISTENING,
    ContainerCreation,
    ContainerLimits,
    ContainerMount,
    EngineErrorReason,
    EngineFailed,
    ExecCommand,
    ExitCause,
    ImageBuild,
    PublishedPort,
)

pytestmark = [pytest.mark.anyio, pytest.mark.engine, pytest.mark.timeout(120)]


class Others:
    """Another client of the engine, with the engine's own terms."""

    def __init__(self) -> None:
        self.api = docker.APIClient(engine_address(os.environ), version="auto")  # noqa: TID251 - as in wiring

    async def pause(self, ref: str) -> None:
        self.api.pause(ref)

    async def kill(self, ref: str) -> None:
        self.api.kill(ref)

    def processes(self, ref: str) -> list[str]:
        """The command lines of all that runs inside; not of what has ended and was not reaped yet."""
        rows = self.api.top(ref, "-eo pid,stat,args")["Processes"]
        return [" ".join(row[2:]) for row in rows if not row[1].startswith("Z")]

    def forget(self, label: str) -> None:
        """Removes what was built under it, so that nothing of it is taken from a cache."""
        chosen = {"label": f"{engines.LABEL}={label}"}
        while found := self.api.images(filters=chosen, all=True):
            for one in found:
                with suppress(APIError):  # It went with another, or another is made of it and goes first.
                    self.api.remove_image(one["Id"], force=True)


@pytest.fixture
def outside() -> Iterator[Others]:
    others = Others()
    yield others
    others.api.close()


class TestDocker(EngineContract):
    pass


class TestRunningInDocker(RunningContract):
    @pytest.fixture(autouse=True)
    def _others(self, outside: Others) -> None:
        self.others = outside

    async def commands(self, ground: Ground, ref: str) -> int:
        return self.others.processes(ref).count("sleep 60")


class TestRunningInDockerFromInside(TestRunningInDocker):
    """As for people who may use the engine but not look into the processes of others."""

    @pytest.fixture
    def sees_host(self) -> bool:
        return False

    async def test_process_that_left_its_group_session_and_environment_is_ended_too(
        self, ground: Ground, outside: Others
    ) -> None:
        ref = await running(ground, bound=ContainerLimits(pids=200))
        away = "setsid sleep 71 & setsid sh -c 'sleep 72 & sleep 73' & env -i sleep 74 & (sleep 75 &) & sleep 76"

        result = await ground.engine.run(ref, ExecCommand(shell(away), "m", timeout_s=1))

        assert result.ending is ExitCause.TIMED_OUT
        assert [each for each in outside.processes(ref) if "sleep 7" in each] == []
        assert (await seen(ground, ref)).state == "running"

    async def test_fork_bomb_is_ended(self, ground: Ground, outside: Others) -> None:
        ref = await running(ground, bound=ContainerLimits(pids=60))

        result = await ground.engine.run(
            ref, ExecCommand(shell("(f() { f | f & }; f) & exec sleep 60"), "m", timeout_s=1, output_bytes_max=1 << 20)
        )

        assert result.ending in (ExitCause.TIMED_OUT, ExitCause.TOO_MUCH_OUTPUT)
        # From inside there may be no room for what ends it; then all of the container goes.
        state = (await seen(ground, ref)).state
        assert state == "exited" or [each for each in outside.processes(ref) if "sleep 600" not in each] == []

    async def test_a_command_of_another_user_is_ended_by_its_mark(self, ground: Ground, outside: Others) -> None:
        ref = await running(ground)
        left = ExecCommand(shell("setsid sleep 81 >/dev/null 2>&1 & sleep 82"), "m", user="appuser", timeout_s=0.5)

        assert (await ground.engine.run(ref, left)).ending is ExitCause.TIMED_OUT
        assert [each for each in outside.processes(ref) if "sleep 8" in each] == []

    async def test_process_of_another_user_is_ended_with_everything_else(self, ground: Ground, outside: Others) -> None:
        ref = await running(ground)
        async with anyio.create_task_group() as group:
            for user in ("appuser", ""):
                group.start_soon(ground.engine.run, ref, ExecCommand(("sleep", "60"), f"m{user}", user=user))
            await until(lambda: self.is_running(ground, ref, 2))
            await ground.engine.end(ref, "")

        assert await self.commands(ground, ref) == 0

    async def is_running(self, ground: Ground, ref: str, count: int) -> bool:
        return await self.commands(ground, ref) == count

    async def runs(self, ref: str, line: str) -> bool:
        return line in self.others.processes(ref)

    async def test_process_left_by_a_command_runs_until_its_mark_is_ended(
        self, ground: Ground, outside: Others
    ) -> None:
        ref = await running(ground)
        left = ExecCommand(shell("sleep 91 >/dev/null 2>&1 & echo left"), "m")

        assert (await ground.engine.run(ref, left)).output == b"left\n"
        await until(lambda: self.runs(ref, "sleep 91"))  # What it left may not have begun yet.
        await ground.engine.end(ref, "m")

        assert "sleep 91" not in outside.processes(ref)

    async def test_a_cancelled_command_leaves_no_process(self, ground: Ground, outside: Others) -> None:
        ref = await running(ground)
        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(ground.engine.run, ref, ExecCommand(("sleep", f"6{number}"), f"m{number}"))
            with anyio.move_on_after(0.3):  # Some have begun by then, some may not.
                await anyio.sleep_forever()
            group.cancel_scope.cancel()

        assert [each for each in outside.processes(ref) if each.startswith("sleep 6") and each != "sleep 600"] == []

    async def test_command_runs_in_its_folder_as_its_user(self, ground: Ground) -> None:
        ref = await running(ground, env={"ONE": "1"})
        inside = ExecCommand(
            shell("echo $ONE $TWO; id -u; cd -P .; echo $PWD"), "m", {"TWO": "2"}, workdir="/tmp", user="appuser"
        )

        assert (await ground.engine.run(ref, inside)).output == b"1 2\n1000\n/tmp\n"


class TestOnlyDocker:
    async def test_an_image_without_a_shell_runs_programs_and_they_are_ended(
        self, ground: Ground, outside: Others, tmp_path: Path
    ) -> None:
        image = await engines.image(ground.engine, tmp_path, is_bare=True)
        ref = await ground.engine.create(
            ContainerCreation(ground.name(), image.id, ground.labels, entrypoint=("/sleep",), cmd=("600",))
        )
        await ground.engine.start(ref)

        result = await ground.engine.run(ref, ExecCommand(("/sleep", "60"), "m", timeout_s=0.3))
        assert result.ending is ExitCause.TIMED_OUT
        assert "/sleep 60" not in outside.processes(ref)

        blind = needs.engine(sees_host=False)
        with pytest.raises(EngineFailed, match="from inside") as caught:
            await blind.run(ref, ExecCommand(("/sleep", "60"), "m", timeout_s=0.3))
        assert "/bin/sh" in caught.value.hint
        await ground.engine.end(ref, "m")

    async def test_names_resolve_across_a_network_and_an_internal_one_has_no_exit(self, ground: Ground) -> None:
        network = ground.name()
        await ground.engine.make_network(network, ground.labels, is_internal=True)
        await running(ground, shell("nc -ll -p 80 -e echo hello"), network=ContainerNetwork((network,), ("greeter",)))
        other = await running(ground, network=ContainerNetwork((network,)))

        async def is_greeted() -> bool:
            said = await ground.engine.run(other, ExecCommand(shell("nc -w 1 greeter 80"), "m", timeout_s=10))
            return said.output == b"hello\n"

        await until(is_greeted)  # It may not listen yet.
        away = await ground.engine.run(other, ExecCommand(shell("nc -w 1 192.0.2.1 80"), "m", timeout_s=10))
        assert away.code == 1

    async def test_a_published_port_answers_on_the_loopback(self, ground: Ground) -> None:
        network = ground.name()
        await ground.engine.make_network(network, ground.labels, is_internal=False)
        ref = await running(
            ground,
            shell("nc -ll -p 80 -e echo hello"),
            network=ContainerNetwork((network,), ports=(PublishedPort(80),)),
        )
        host = (await seen(ground, ref)).ports[80]

        async def is_answered() -> bool:
            try:
                async with await anyio.connect_tcp("127.0.0.1", host) as stream:
                    return await stream.receive() == b"hello\n"
            except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):  # It is up before its program listens.
                return False

        await until(is_answered)

    async def test_command_over_its_memory_limit_is_reported_as_such(self, ground: Ground, outside: Others) -> None:
        """Of one that it kills whole, Docker under load may not hear why; it is waited for while this one lives on."""
        ref = await running(ground, bound=ContainerLimits(memory_bytes=16 << 20))
        async with aclosing(ground.engine.events(ground.labels)) as events:
            assert await anext(events) == LISTENING
            hog = ExecCommand(shell("tail -c 200m /dev/zero"), "m")
            assert (await ground.engine.run(ref, hog)).code == 137
            while (await anext(events)).action != "oom":
                pass
        await outside.kill(ref)

        found = await ended(ground, ref)

        assert (found.last_run.exit_code, found.last_run.is_out_of_memory) == (137, True)

    async def test_mounts_are_present_and_read_only_ones_stay_unchanged(self, ground: Ground, tmp_path: Path) -> None:
        volume = ground.name()
        await ground.engine.make_volume(volume, ground.labels)
        (tmp_path / "file").write_text("from the host\n")
        ref = await running(
            ground,
            rights=ContainerRights(is_read_only=True),
            mounts=(
                ContainerMount("/host", host=str(tmp_path), is_read_only=True),
                ContainerMount("/data", volume=volume),
                ContainerMount("/tmp"),
            ),
        )
        script = "cat /host/file; touch /data/x /tmp/x && echo both; touch /host/x || touch /x || echo neither"

        result = await ground.engine.run(ref, ExecCommand(shell(f"({script}) 2>/dev/null"), "m"))

        assert result.output == b"from the host\nboth\nneither\n"

    async def test_container_without_capabilities_has_few_permissions(self, ground: Ground) -> None:
        ref = await running(ground)

        result = await ground.engine.run(ref, ExecCommand(shell("grep -E 'Cap(Eff|Bnd)|NoNew' /proc/self/status"), "m"))

        assert result.output.split() == [b"CapEff:", b"0" * 16, b"CapBnd:", b"0" * 16, b"NoNewPrivs:", b"1"]

    async def test_missing_folder_is_not_mounted(self, ground: Ground, tmp_path: Path) -> None:
        with pytest.raises(EngineFailed, match="mount") as caught:
            await made(ground, mounts=(ContainerMount("/host", host=str(tmp_path / "none")),))

        assert caught.value.reason is EngineErrorReason.REFUSED
        assert not (tmp_path / "none").exists()

    @pytest.fixture
    def head(self, ground: Ground, outside: Others) -> Iterator[str]:
        """The first lines of a Dockerfile whose images are of this test alone, and go with it."""
        outside.forget(ground.label)
        yield f"FROM {engines.IMAGE}\nLABEL {engines.LABEL}={ground.label}\n"
        outside.forget(ground.label)

    async def test_image_is_built_from_a_folder_and_a_failure_shows_its_last_lines(
        self, ground: Ground, head: str, tmp_path: Path
    ) -> None:
        (tmp_path / "Dockerfile").write_text(
            f"{head}ARG WHAT=x\nRUN echo building $WHAT\nRUN test $WHAT = good || (echo no; exit 9)\n"
        )
        lines: list[str] = []
        build = ImageBuild(tmp_path, args={"WHAT": "good"})

        image = await ground.engine.build(build, lines.append)

        assert await ground.engine.image(image.id) == image
        assert "building good" in lines
        with pytest.raises(EngineFailed, match=r"(?s)RUN test .*\nno\n.*9") as caught:
            await ground.engine.build(ImageBuild(tmp_path, args={"WHAT": "bad"}), lines.append)
        assert caught.value.reason is EngineErrorReason.BUILD_FAILED
        assert caught.value.hint == "correct the Dockerfile"
        with pytest.raises(EngineFailed, match="no Other"):
            await ground.engine.build(ImageBuild(tmp_path, file="Other"), lines.append)

    async def test_a_build_step_without_network_gets_a_hint_about_the_network(
        self, ground: Ground, head: str, tmp_path: Path
    ) -> None:
        (tmp_path / "Dockerfile").write_text(
            f"{head}RUN echo \"Temporary failure resolving 'deb.debian.org'\" >&2; exit 100\n"
        )

        with pytest.raises(EngineFailed) as caught:
            await ground.engine.build(ImageBuild(tmp_path), lambda _: None)

        assert caught.value.reason is EngineErrorReason.BUILD_FAILED
        assert caught.value.hint == docker_errors.BUILD_NETWORK_HINT

    async def test_build_context_excludes_the_state_of_plans(self, ground: Ground, head: str, tmp_path: Path) -> None:
        for folder in (tmp_path / ".plan/secrets", tmp_path / "sub/.plan/secrets"):
            folder.mkdir(parents=True)
            (folder / "KEY").write_text("hush\n")
        (tmp_path / ".dockerignore").write_text("!.plan/secrets/KEY\n!sub/.plan\n")
        (tmp_path / "Dockerfile").write_text(
            f"{head}COPY . /all\nRUN cd /all && ls -a . sub && test ! -e .plan -a ! -e sub/.plan\n"
        )
        lines: list[str] = []

        await ground.engine.build(ImageBuild(tmp_path), lines.append)

        assert ".dockerignore" in lines
        with pytest.raises(EngineFailed) as caught:
            await ground.engine.build(ImageBuild(tmp_path, file=".plan/secrets/KEY"), lines.append)
        golden_text.said(str(caught.value), "plan/secrets/KEY")

    async def test_an_archive_without_an_image_is_refused(self, engine: DockerEngine, tmp_path: Path) -> None:
        (tmp_path / "a.tar").write_bytes(bytes(10240))

        with pytest.raises(EngineFailed):
            await engine.load(tmp_path / "a.tar")

    async def test_engine_reports_its_version(self, engine: DockerEngine) -> None:
        facts = await engine.facts()

        assert facts.version
        assert facts.address == engine_address(os.environ)  # noqa: TID251
        assert facts.bounds <= {"cpu", "memory", "pids"}

    async def test_a_container_that_takes_term_ends_by_itself(self, ground: Ground) -> None:
        ref = await running(ground, shell("trap 'exit 7' TERM; echo ready; while true; do sleep 0.05; done"))
        await until_it_says(ground, ref, b"ready")

        await ground.engine.stop(ref, 10)

        assert (await seen(ground, ref)).last_run.exit_code == 7
