"""Failures outside of the measured agent are errors, not failed cases. The run reports that it is incomplete."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import docker
import pytest

from planloop.benchmarks.grading.containers import LABEL
from planloop.client.plan_paths import paths_of_file, plan_label
from planloop.server.bench.run_folder import PLAN_FILE
from tests import golden_text, needs
from tests.e2e import bench_suite, command, container_harness
from tests.e2e.container_harness import IMAGE, OwnEngine
from tests.e2e.folder import Folder
from tests.e2e.test_disk import small_disk
from tests.e2e.test_full_disk import fill

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

SUITE = f"""\
suite: boxed
cases:
  made:
    prompts: [make a.txt]
    image: {IMAGE}
    checks: {{made: {{sh: test -s a.txt}}}}
    proof:
      oracles:
        quick: {{files: {{a.txt: x}}}}
        slow: {{script: [{{call: {{shell: {{command: sleep 600}}}}}}, {{done: ok}}]}}
"""


@pytest.fixture
def engine(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnEngine]:
    """An engine of the test's own, with the image of the suite."""
    with tempfile.TemporaryDirectory(prefix="pl-engine-") as name:
        needs.dockerd()
        with container_harness.own_engine(Path(name)) as engine:
            monkeypatch.setenv("DOCKER_HOST", engine.address)
            with container_harness.harness(folder, engine.address, tmp_path) as harness:
                folder.write("suite.yaml", SUITE)
                yield engine
                for ref in harness.strangers:
                    harness.api.start(ref)


def run_of(model: str) -> tuple[str, ...]:
    return ("bench", "run", "suite.yaml", "--model", model, "--name", "r")


def test_missing_image_is_reported_before_anything_runs(folder: Folder) -> None:
    container_harness.machines_address()
    folder.write("suite.yaml", SUITE.replace(IMAGE, "planloop-test/not-there"))

    said = folder.run(*run_of("oracle:quick"))

    assert said.code == 1
    golden_text.said_in(said.err)
    assert not (folder.path / "reports").exists()


def test_engine_that_stops_during_a_run_is_an_error_and_the_run_can_resume(folder: Folder, engine: OwnEngine) -> None:
    run = folder.path / "reports" / "boxed" / "r"
    with begun(folder, "oracle:slow") as (process, out):
        until_called(run)
        engine.stop()
        assert process.wait() == 10, out.read_text()

    is_incomplete(run, out.read_text())
    engine.start()
    (run / "plan.json").rename(run / "kept")  # The second attempt uses the oracle that does not wait.
    plan = json.loads((run / "kept").read_text())
    plan["entries"]["made--oracle-slow--1"]["agent"] = {"script": [{"call": {"shell": {"command": "echo x > a.txt"}}}]}
    (run / "plan.json").write_text(json.dumps(plan))
    said = folder.run("bench", "resume", str(run))
    assert said.code == 0, said.text
    assert verdicts(run) == {"pass"}


def test_image_removed_before_a_run_resumes_is_an_error(folder: Folder, engine: OwnEngine) -> None:
    run = copied(folder, "oracle:quick")
    plan = json.loads((run / "plan.json").read_text())
    (run / "plan.json").write_text(json.dumps(plan | {"images": {IMAGE: f"sha256:{'0' * 64}"}}))

    said = folder.run("bench", "resume", str(run), timeout_s=120)

    assert said.code == 10, said.text
    is_incomplete(run, said.text)


def test_a_disk_that_is_full_where_it_is_graded_is_an_error(folder: Folder) -> None:
    bench_suite.lay(folder)
    run = copied(folder, "oracle:plain", "--cases", "writes")
    graded = run / "graded"
    graded.mkdir()
    with small_disk(graded):
        fill(graded)
        said = folder.run("bench", "resume", str(run))

        assert said.code == 10, said.text
        is_incomplete(run, said.text)
        golden_text.said_in(said.text)
    assert folder.run("bench", "resume", str(run)).code == 0
    assert verdicts(run) == {"pass"}


@pytest.mark.parametrize("full", [".plan", "work"])
def test_full_disk_names_the_command_that_resumes_the_run_and_it_works(folder: Folder, full: str) -> None:
    bench_suite.lay(folder)
    run = copied(folder, "oracle:plain", "--cases", "writes")
    disk = run / full
    disk.mkdir()
    with small_disk(disk):
        filler = fill(disk)

        said = folder.run("bench", "resume", str(run))

        assert (said.code, "full" in said.err, f"plan bench resume {run}" in said.err) == (1, True, True), said.text
        assert "plan apply" not in said.text
        filler.unlink()
        assert folder.run("bench", "resume", str(run)).code == 0
        assert verdicts(run) == {"pass"}


@pytest.mark.parametrize("cure", ["resume", "down"])
def test_leftovers_of_an_owner_killed_during_grading_are_removed(folder: Folder, tmp_path: Path, cure: str) -> None:
    address = container_harness.machines_address()
    with (
        container_harness.harness(folder, address, tmp_path),
        closing(docker.APIClient(address, version="auto")) as api,
    ):
        folder.write("suite.yaml", SUITE.replace("test -s a.txt", "sleep 3; test -s a.txt"))
        run = folder.path / "reports" / "boxed" / "r"
        ours = {"label": f"{LABEL}={plan_label(paths_of_file(run / PLAN_FILE, 'run'))}"}
        with begun(folder, "oracle:quick") as (process, _):
            while not api.containers(filters=ours):
                time.sleep(0.02)
            process.kill()
        assert api.containers(filters=ours)

        words = ["bench", "resume", str(run)] if cure == "resume" else ["down", "--plan", str(run / PLAN_FILE)]
        said = folder.run(*words)

        assert said.code == 0, said.text
        assert cure == "down" or verdicts(run) == {"pass"}
        assert not api.containers(all=True, filters=ours)
        assert not api.networks(filters=ours)


@pytest.mark.parametrize("how", ["kill", "remove"])
def test_container_removed_during_work_is_an_error(folder: Folder, engine: OwnEngine, how: str) -> None:
    run = folder.path / "reports" / "boxed" / "r"
    with begun(folder, "oracle:slow") as (process, out), closing(docker.APIClient(engine.address)) as api:
        until_called(run)
        gone(api, {"label": "planloop.uid"}, how)
        assert process.wait() == 10, out.read_text()

    is_incomplete(run, out.read_text())


@pytest.mark.parametrize(("how", "verdict"), [("kill", "pass"), ("remove", "error")])
def test_container_that_vanishes_during_grading_is_not_the_works_failure(
    folder: Folder, engine: OwnEngine, how: str, verdict: str
) -> None:
    folder.write("suite.yaml", SUITE.replace("test -s a.txt", "sleep 3; test -s a.txt"))
    run = folder.path / "reports" / "boxed" / "r"
    with begun(folder, "oracle:quick") as (process, out), closing(docker.APIClient(engine.address)) as api:
        gone(api, {"label": LABEL}, how)
        process.wait()

    assert verdicts(run) == {verdict}, out.read_text()


def test_work_that_always_kills_its_grading_process_fails(folder: Folder, engine: OwnEngine) -> None:
    folder.write("suite.yaml", SUITE.replace("test -s a.txt", "kill -9 -1; false"))

    said = folder.run(*run_of("oracle:quick"))

    assert said.code != 10, said.text
    assert verdicts(folder.path / "reports" / "boxed" / "r") == {"fail"}


def test_an_engine_that_stops_while_it_is_graded_is_an_error(folder: Folder, engine: OwnEngine) -> None:
    folder.write("suite.yaml", SUITE.replace("test -s a.txt", "sleep 3; test -s a.txt"))
    run = folder.path / "reports" / "boxed" / "r"
    with begun(folder, "oracle:quick") as (process, out), closing(docker.APIClient(engine.address)) as api:
        running(api, {"label": LABEL})
        engine.stop()
        assert process.wait() == 10, out.read_text()

    is_incomplete(run, out.read_text())
    engine.start()


def running(api: docker.APIClient, which: dict[str, str]) -> str:
    """The id of the first container that runs; the test's timeout is the bound."""
    while not (found := api.containers(filters=which)):
        time.sleep(0.02)
    return str(found[0]["Id"])


def gone(api: docker.APIClient, which: dict[str, str], how: str) -> None:
    """Kill or remove the first running container from outside."""
    ref = running(api, which)
    if how == "kill":
        api.kill(ref)
    else:
        api.remove_container(ref, force=True)


@contextmanager
def begun(folder: Folder, model: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Yield the running benchmark and its output file."""
    out = folder.path / "out"
    with out.open("wb") as file:
        process = command.start(*run_of(model), cwd=folder.path, stdout=file, stderr=file)
    try:
        yield process, out
    finally:
        process.kill()
        process.wait()


def until_called(run: Path) -> None:
    """Returns when an agent of the run has called a tool; the test's timeout is the bound."""
    while not any(event["type"] == "tool/call" for event in bench_suite.events(run)):
        time.sleep(0.02)


def copied(folder: Folder, model: str, *more: str) -> Path:
    """A run of which nothing has begun: planned as one that ended was."""
    assert folder.run(*run_of(model), *more).code == 0
    (whole,) = (folder.path / "reports").glob("*/r")
    run = whole.with_name("again")
    run.mkdir()
    (run / "plan.json").write_bytes((whole / "plan.json").read_bytes())
    if (whole / "worlds").exists():
        (whole / "worlds").rename(run / "worlds")
    return run


def verdicts(run: Path) -> set[str]:
    return {end["verdict"] for end in bench_suite.ends(run).values()}


def is_incomplete(run: Path, said: str) -> None:
    assert verdicts(run) == {"error"}
    assert not json.loads((run / "summary.json").read_text())["complete"]
    assert "plan bench resume" in said
