"""What cannot be run is told before anything of it is there, and leaves no run behind."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import benches
from tests.e2e.folder import PLAN, Folder

REFUSED = {
    "a name that is a path": ("--name", "../r"),
    "a name that no folder can have": ("--name", "n" * 300),
    "two scripts of one name": ("--model", "script:one/x.yaml", "--model", "script:two/x.yaml"),
    "reports that are a file": ("--reports", "suite.yaml"),
    "a plan that cannot run": ("--model", "script:bad.yaml"),
}


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_a_run_that_cannot_begin_says_why_and_leaves_nothing(folder: Folder, words: tuple[str, ...]) -> None:
    benches.lay(folder)
    for name, step in (("one/x", "{done: a}"), ("two/x", "{done: b}"), ("bad", "{zap: 1}")):
        path = folder.path / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'"*": [{step}]\n')

    said = folder.run("bench", "run", "suite.yaml", "--model", "nop", *words)

    assert said.code in (1, 2, 3), said.text
    assert "help:" in said.err
    assert list(folder.path.rglob("plan.json")) == []


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    def edit(run: Path) -> None:
        plan = json.loads((run / "plan.json").read_text())
        change(plan)
        (run / "plan.json").write_text(json.dumps(plan))

    return edit


BROKEN: dict[str, Callable[[Path], object]] = {
    "its plan.json is cut off": lambda run: (run / "plan.json").write_bytes(b'{"format"'),
    "its plan.json is of another format": edited(lambda plan: plan.update(format=2)),
    "an entry has no case": edited(lambda plan: plan["cases"].clear()),
    "an entry leads out of the run": edited(lambda plan: plan["entries"].update({"../../out": first_of(plan)})),
    "its log is gone": lambda run: shutil.rmtree(run / ".plan"),
    "it is no folder": lambda run: run.rename(run.with_name("away")).joinpath("plan.json").rename(run),
}


def first_of(plan: dict[str, Any]) -> Any:
    return next(iter(plan["entries"].values()))


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_run_that_cannot_be_gone_on_with_says_why_and_stays_as_it_is(folder: Folder) -> None:
    benches.lay(folder)
    assert folder.run("bench", "run", "suite.yaml", "--model", "nop", "--cases", "says", "--name", "whole").code == 0
    runs = folder.path / "reports" / "mixed"
    for why, broken in BROKEN.items():
        run = runs / "r"
        shutil.copytree(runs / "whole", run)
        broken(run)
        before = kept(runs)

        said = folder.run("bench", "resume", str(run))

        assert said.code in (1, 3, 6), said.text
        assert "help:" in said.err
        assert kept(runs) == before
        run.rename(folder.path / why.replace(" ", "-"))


def kept(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and ".plan" not in path.parts}


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_who_goes_on_with_a_run_that_goes_changes_nothing_of_it(folder: Folder) -> None:
    benches.lay(folder)
    (folder.path / "wait.yaml").write_text('"*": [{sleep: 1h}]\n')
    run = folder.path / "reports" / "mixed" / "r"
    words = [*PLAN, "bench", "run", "suite.yaml", "--model", "script:wait.yaml", "--cases", "writes", "--name", "r"]
    with (folder.path / "out").open("wb") as out, subprocess.Popen(words, cwd=folder.path, stdout=out) as process:
        try:
            while not any(event["type"] == "case/start" for event in benches.events(run)):
                time.sleep(0.02)
            before = (run / "run.plan.yaml").read_bytes()

            said = folder.run("bench", "resume", str(run))

            assert said.code == 4, said.text
            assert "another process runs" in said.err
            assert (run / "run.plan.yaml").read_bytes() == before
        finally:
            process.kill()


def test_a_verdict_on_what_was_asked_before_is_not_kept_and_a_report_is_called_by_no_path(folder: Folder) -> None:
    benches.lay(folder)
    assert folder.run("bench", "run", "suite.yaml", "--model", "nop", "--cases", "says", "--name", "r").code == 0
    run = folder.path / "reports" / "mixed" / "r"
    edited(lambda plan: first_of(plan).update(key="0" * 64))(run)

    assert folder.run("bench", "resume", str(run)).code == 0
    assert folder.run("bench", "report", str(run), "--name", "../r").code == 2

    ends = [event for event in benches.events(run) if event["type"] == "case/end"]
    assert [(end["attempt"], end["key"][:4] == "0000") for end in ends] == [(1, False), (2, True)]


def test_a_suite_may_be_larger_than_a_plan_that_people_write(folder: Folder) -> None:
    case = "{prompts: [%s], checks: {made: {require-file: a}}}" % ("p" * 150_000)
    cases = "".join(f"  case-{number}: {case}\n" for number in range(8))
    (folder.path / "suite.yaml").write_text(f"suite: large\ncases:\n{cases}")

    said = folder.run("bench", "run", "suite.yaml", "--model", "nop", "--name", "r")

    assert said.code == 0, said.text
    assert len(benches.ends(folder.path / "reports" / "large" / "r")) == 8
