"""Checks of containers: their state in the store, and commands inside a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from planloop.containers.engine import exec_kill
from planloop.containers.engine.docker_engine import DockerEngine
from planloop.controllers.shared.container_exec import PlanContainers, containers_summary
from planloop.controllers.task.checks.run import CheckEnvironment, CheckFinding, run_check
from planloop.reconciler.effects.local_processes import LocalProcesses
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore
from planloop.schemas.objects.container import ContainerSpec, Health
from tests import golden_text
from tests.containers import engines
from tests.controllers.task.harness import ENV
from tests.product import (
    CheckSpec,
    ContainerCreation,
    Drop,
    ExecCommand,
    JsonObject,
    Put,
    RandomIds,
    RecordDraft,
    SetStatus,
    SystemClock,
    Uid,
)

pytestmark = pytest.mark.anyio

DB, UID = "container/db", Uid("u")
WELL = ContainerSpec(image="x", health=Health(tcp=1))


def no_engine() -> DockerEngine:
    raise AssertionError("nothing is asked of the engine")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore.open(tmp_path / "plan", clock=SystemClock(), epoch=1) as opened:
        yield opened


@pytest.fixture
def bench(store: SqliteStore, tmp_path: Path) -> CheckEnvironment:
    processes = LocalProcesses(tmp_path / "run", str(tmp_path), 1)
    return CheckEnvironment(
        processes, RandomIds(), str(tmp_path), None, ENV, lambda: PlanContainers(store, no_engine), "task"
    )


@pytest.fixture
async def inside(
    engine: DockerEngine, bench: CheckEnvironment, store: SqliteStore, tmp_path: Path
) -> AsyncIterator[CheckEnvironment]:
    """A bench with the container `db`, which runs."""
    image = await engines.image(engine, tmp_path)
    async with engines.ground(engine, image.id, f"checks-{tmp_path.name}") as ground:
        made = ContainerCreation(
            ground.name(), image.id, ground.labels, ("sleep", "600"), env={"WHO": "db"}, workdir="/tmp"
        )
        identity = await engine.create(made)
        await engine.start(identity)
        stands(store, "running", identity, ContainerSpec(image="x"))
        yield replace(bench, containers=lambda: PlanContainers(store, lambda: engine))


def stands(store: SqliteStore, state: str, identity: str = "", spec: ContainerSpec = WELL, why: str = "") -> None:
    ready: JsonObject = {"status": "False", "reason": "X", "message": why, "since": 0.0, "observed_generation": 1}
    status: JsonObject = {"state": state, "conditions": {"Ready": ready}, "seen": {"id": identity}}
    put = () if store.view.get(DB) else (Put(DB, UID, spec.to_json()),)
    store.propose(RecordDraft("container.observed", "controller:container", DB, (*put, SetStatus(DB, UID, status))))


async def find(bench: CheckEnvironment, kind: str, timeout_s: float = 10.0, **arguments: Any) -> CheckFinding:
    return await run_check(CheckSpec("0", kind, arguments, timeout_s), bench)


@pytest.mark.parametrize(
    ("state", "spec", "result"),
    [
        ("healthy", WELL, "pass"),
        ("running", ContainerSpec(image="x"), "pass"),
        ("unhealthy", WELL, "fail"),
        ("failed", WELL, "fail"),
        ("completed", WELL, "fail"),
        ("removed", WELL, "fail"),
    ],
)
async def test_a_container_holds_when_it_is_healthy_or_runs_without_a_health_check(
    store: SqliteStore, bench: CheckEnvironment, state: str, spec: ContainerSpec, result: str
) -> None:
    stands(store, state, "id", spec, "no answer on 6379")

    found = await find(bench, "container", name="db")

    assert found.result == result
    assert result == "pass" or found.message == f"`db` is {state}: no answer on 6379"


async def test_a_container_that_is_being_started_is_waited_for(store: SqliteStore, bench: CheckEnvironment) -> None:
    stands(store, "starting")
    findings = []

    async def look() -> None:
        findings.append(await find(bench, "container", name="db"))

    async with anyio.create_task_group() as group:
        group.start_soon(look)
        await anyio.wait_all_tasks_blocked()
        assert findings == []
        stands(store, "healthy", "id")

    assert [one.result for one in findings] == ["pass"]


async def test_unknowable_result_is_an_error_and_not_a_failure(store: SqliteStore, bench: CheckEnvironment) -> None:
    nowhere = await find(replace(bench, containers=None), "container", name="db")
    missing = await find(bench, "container", name="db")
    stands(store, "preparing", why="pulling")
    late = await find(bench, "container", timeout_s=0.01, name="db")
    stands(store, "failed", why="no such image")
    down = await find(bench, "run-in", container="db", shell="true")
    store.propose(RecordDraft("container.observed", "controller:container", DB, (Drop(DB, UID),)))
    gone = await find(bench, "run-in", container="db", shell="true")

    assert {one.result for one in (nowhere, missing, late, down, gone)} == {"error"}
    golden_text.said([one.message for one in (missing, late, down)])


@pytest.mark.engine(keep=5)
@pytest.mark.parametrize(
    ("arguments", "result", "words"),
    [
        ({"shell": "test $WHO = db && pwd"}, "pass", "exit code 0"),
        ({"argv": ["test", "-d", "/bin"]}, "pass", "test -d /bin in `db`: exit code 0"),
        ({"shell": "echo 2 of 9 failed; exit 1"}, "fail", "exit code 1: 2 of 9 failed"),
        ({"shell": "no-such-program"}, "error", "exit code 127"),
        ({"argv": ["no-such-program"]}, "error", "could not start"),
    ],
)
async def test_run_in_holds_when_the_command_inside_ends_well(
    inside: CheckEnvironment, arguments: JsonObject, result: str, words: str
) -> None:
    found = await find(inside, "run-in", container="db", **arguments)

    assert found.result == result, found.message
    assert words in found.message
    assert inside.cwd.encode() not in found.output, "it runs in the container's own folder"


@pytest.mark.engine(keep=5)
@pytest.mark.parametrize(
    ("command", "timeout_s", "result"), [("sleep 4321", 0.3, "error"), ("kill -9 $$", 10.0, "fail")]
)
async def test_processes_started_by_a_command_inside_end_with_it(
    inside: CheckEnvironment, engine: DockerEngine, command: str, timeout_s: float, result: str
) -> None:
    line = f"setsid sleep 4321 >/dev/null 2>&1 & {command}"

    found = await find(inside, "run-in", timeout_s, container="db", shell=line)

    assert found.result == result, found.message
    assert inside.containers is not None
    db = inside.containers().find("db")
    assert db is not None
    seen = await engine.run(db.id, ExecCommand(("ps",), "look"))
    assert b"4321" not in seen.output


@pytest.mark.engine
async def test_check_left_running_by_a_crashed_owner_is_ended_by_the_next(
    inside: CheckEnvironment, engine: DockerEngine
) -> None:
    """Its command is found again by its mark, which is the same for the same check of the same task."""
    assert inside.containers is not None
    db = inside.containers().find("db")
    assert db is not None
    said = (await find(inside, "run-in", container="db", shell=f"echo ${exec_kill.VARIABLE}")).output.decode().strip()
    left = ExecCommand(("sh", "-c", "sleep 4321 >/dev/null 2>&1 &"), said.removesuffix(exec_kill.END))
    await engine.run(db.id, left)

    found = await find(inside, "run-in", container="db", shell="ps | grep '[4]321'")

    assert found.result == "fail", found.output


async def test_agent_is_told_the_state_of_its_tasks_containers(store: SqliteStore) -> None:
    stands(store, "unhealthy", "id", why="no answer on 6379")
    other = ContainerSpec(image="x", task="a/b")
    store.propose(RecordDraft("plan.patched", "human:file", DB, (Put("container/own", Uid("o"), other.to_json()),)))

    golden_text.said(containers_summary(store.view, "task/a/b", ()), "own")
    golden_text.said(containers_summary(store.view, "task/a", (DB,)), "db")
    assert containers_summary(store.view, "task/a", ()) == ""
