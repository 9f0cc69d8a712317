"""Invalid runs are rejected before anything is created, and leave no run."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planloop.benchmarks.runs.run_compiler import SCORING
from planloop.cli import bench_run
from tests import golden_text
from tests.e2e import bench_suite, command
from tests.e2e.folder import Folder

REFUSED = {
    "a name that is a path": ("--name", "../r"),
    "a name that no folder can have": ("--name", "n" * 300),
    "two scripts of one name": ("--model", "script:one/x.yaml", "--model", "script:two/x.yaml"),
    "reports that are a file": ("--reports", "suite.yaml"),
    "a script with two steps for one case": ("--model", "script:twice.yaml"),
    "a plan that cannot run": ("--model", "script:bad.yaml"),
    "a model whose key is not there": ("--model", "openai/gpt-4o"),
    "cases that there are not": ("--cases", "no-such-*"),
    "a suite twice": ("suite.yaml",),
}


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_run_that_cannot_start_reports_why_and_leaves_nothing(folder: Folder, words: tuple[str, ...]) -> None:
    bench_suite.lay(folder)
    for name, step in (("one/x", "{done: a}"), ("two/x", "{done: b}"), ("bad", "{zap: 1}")):
        path = folder.path / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'"*": [{step}]\n')

    folder.write("twice.yaml", '"*": [{done: a}]\n"*": [{done: b}]\n')

    said = folder.run("bench", "run", "suite.yaml", "--model", "nop", *words)

    assert said.code in (1, 2, 3), said.text
    assert "help:" in said.err
    assert list(folder.path.rglob("plan.json")) == []


@pytest.mark.process
def test_no_suite_starts_when_one_of_them_cannot(folder: Folder) -> None:
    bench_suite.lay(folder)
    folder.write("other.yaml", bench_suite.SUITE.replace("suite: mixed", "suite: other"))
    words = ("--model", "nop", "--cases", "says", "--name", "r")
    assert folder.run("bench", "run", "other.yaml", *words).code == 0

    said = folder.run("bench", "run", "suite.yaml", "other.yaml", *words)

    assert (said.code, "reports/other/r exists already" in said.err) == (4, True), said.text
    assert not (folder.path / "reports/mixed").exists()


@pytest.mark.parametrize("verb", [("run", "--model", "nop"), ("validate",)], ids=["run", "validate"])
def test_unknown_cases_are_reported_with_a_list_that_can_be_requested(folder: Folder, verb: tuple[str, ...]) -> None:
    bench_suite.lay(folder)

    said = folder.run("bench", *verb, "suite.yaml", "--cases", "zz*")

    assert said.code == 2, said.text
    golden_text.said_in(said.err)


def test_an_image_that_is_missing_is_made_pulled_or_built_by_what_can_do_so() -> None:
    golden_text.said(bench_run.image_fix(["planloop/node", "planloop/nosuch"]))
    golden_text.said(bench_run.image_fix(["redis:7"]))


def test_script_for_an_unknown_case_is_reported_with_the_suggested_case(folder: Folder) -> None:
    bench_suite.lay(folder)
    folder.write("s7.yaml", "says: [{done: which}]\nclals: [{done: ok}]\n")
    folder.write("wide.yaml", '"*": [{done: which}]\nmove-review: [{done: ok}]\nrename-meeting: [{done: ok}]\n')
    asked = ("bench", "run", "suite.yaml", "--cases", "says", "--name", "r")

    said = folder.run(*asked, "--model", "script:s7.yaml", "--model", "script:wide.yaml")

    assert said.code == 0, said.text
    golden_text.said([line for line in said.err.splitlines() if line.startswith("note:")][:2])


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    def edit(run: Path) -> None:
        plan = json.loads((run / "plan.json").read_text())
        change(plan)
        (run / "plan.json").write_text(json.dumps(plan))

    return edit


def taken_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


BROKEN: dict[str, Callable[[Path], object]] = {
    "its plan.json is cut off": lambda run: (run / "plan.json").write_bytes(b'{"format"'),
    "its plan.json is of another format": edited(lambda plan: plan.update(format=2)),
    "an entry has no case": edited(lambda plan: plan["cases"].clear()),
    "an entry leads out of the run": edited(lambda plan: plan["entries"].update({"../../out": first_of(plan)})),
    "its events are a folder": lambda run: taken_by_a_folder(run / "events.jsonl"),
    "its log is gone": lambda run: shutil.rmtree(run / ".plan"),
    "it is no folder": lambda run: run.rename(run.with_name("away")).joinpath("plan.json").rename(run),
}


def first_of(plan: dict[str, Any]) -> Any:
    return next(iter(plan["entries"].values()))


@pytest.mark.process
@pytest.mark.timeout(240)
def test_run_that_cannot_be_resumed_reports_why_and_stays_unchanged(folder: Folder) -> None:
    bench_suite.lay(folder)
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


@pytest.mark.process
@pytest.mark.timeout(120)
def test_resuming_a_running_run_changes_nothing(folder: Folder) -> None:
    bench_suite.lay(folder)
    (folder.path / "wait.yaml").write_text('"*": [{sleep: 1h}]\n')
    run = folder.path / "reports" / "mixed" / "r"
    words = ("bench", "run", "suite.yaml", "--model", "script:wait.yaml", "--cases", "writes", "--name", "r")
    with (folder.path / "out").open("wb") as out, command.start(*words, cwd=folder.path, stdout=out) as process:
        try:
            while not any(event["type"] == "case/start" for event in bench_suite.events(run)):
                time.sleep(0.02)
            before = (run / "run.plan.yaml").read_bytes()

            said = folder.run("bench", "resume", str(run))

            assert said.code == 4, said.text
            golden_text.said_in(said.err)
            assert (run / "run.plan.yaml").read_bytes() == before
        finally:
            process.kill()


@pytest.mark.process
@pytest.mark.timeout(120)
def test_plan_of_a_run_names_its_resume_command_and_cannot_be_applied(folder: Folder) -> None:
    bench_suite.lay(folder)
    assert folder.run("bench", "run", "suite.yaml", "--model", "nop", "--cases", "says", "--name", "r").code == 0
    run = folder.path / "reports" / "mixed" / "r"
    plan, before = str(run / "run.plan.yaml"), kept(run)

    for words in ("tree", "get"):
        golden_text.said_in(folder.run(words, "--plan", plan).out)
    followed = folder.run("get", "tasks", "-w", "--plan", plan)
    applied = folder.run("apply", plan)

    assert (followed.code, "help: plan bench resume reports/mixed/r\n" in followed.err) == (6, True), followed.text
    assert (applied.code, "help: plan bench resume reports/mixed/r\n" in applied.err) == (4, True), applied.text
    assert kept(run) == before


@pytest.mark.process
def test_verdict_with_an_old_key_is_redone_and_a_report_name_is_not_a_path(folder: Folder) -> None:
    bench_suite.lay(folder)
    assert folder.run("bench", "run", "suite.yaml", "--model", "nop", "--cases", "says", "--name", "r").code == 0
    run = folder.path / "reports" / "mixed" / "r"
    edited(lambda plan: first_of(plan).update(key="0" * 64))(run)

    assert folder.run("bench", "resume", str(run)).code == 0
    assert folder.run("bench", "report", str(run), "--name", "../r").code == 2

    ends = [event for event in bench_suite.events(run) if event["type"] == "case/end"]
    assert [(end["attempt"], end["key"][:4] == "0000") for end in ends] == [(1, False), (2, True)]


@pytest.mark.process
def test_run_graded_by_other_rules_is_not_resumed_and_still_reported(folder: Folder) -> None:
    bench_suite.lay(folder)
    assert folder.run("bench", "run", "suite.yaml", "--model", "nop", "--cases", "says", "--name", "r").code == 0
    run = folder.path / "reports" / "mixed" / "r"
    edited(lambda plan: plan.update(scoring=SCORING - 1))(run)
    shutil.rmtree(run / ".plan")
    before = kept(run)

    for words in ((), ("--suite", "suite.yaml")):
        said = folder.run("bench", "resume", str(run), *words)

        assert said.code == 4, said.text
        golden_text.said_in(said.err, f"{SCORING - 1}", f"{SCORING}")
        golden_text.said_in(said.err)
        assert kept(run) == before
    assert folder.run("bench", "report", str(run)).code == 0


@pytest.mark.process
@pytest.mark.needs("bubblewrap")
def test_suite_may_be_larger_than_a_plan(folder: Folder) -> None:
    case = "{prompts: [%s], checks: {made: {require-file: a}}}" % ("p" * 150_000)
    cases = "".join(f"  case-{number}: {case}\n" for number in range(8))
    (folder.path / "suite.yaml").write_text(f"suite: large\ncases:\n{cases}")

    said = folder.run("bench", "run", "suite.yaml", "--model", "nop", "--name", "r")

    assert said.code == 0, said.text
    assert len(bench_suite.ends(folder.path / "reports" / "large" / "r")) == 8


ONE = "{prompts: [x], checks: {c: {require-file: a}}}"


def refused(folder: Folder) -> tuple[list[str], str]:
    """Return the first line of each error of `suite.yaml`, and the whole output."""
    said = folder.run("bench", "run", "suite.yaml", "--model", "nop", "--name", "r")

    assert said.code == 3, said.text
    return [line for line in said.err.splitlines() if "error[" in line], said.err


TOOLS = """\
suite: tools
cases:
  slips:
    prompts: [go]
    agents: {helper: {script: [{done: ok}]}}
    tools:
      - read
      - "shell(git *)"
      - code
      - agent:helper
      - reed
      - "write("
      - teleport
      - agent:halper
    checks: {made: {require-file: a}}
"""


def test_error_in_the_tools_of_a_case_is_reported_at_its_line_of_the_suite(folder: Folder) -> None:
    folder.write("suite.yaml", TOOLS)

    faults, _ = refused(folder)

    golden_text.said(faults)
    assert not (folder.path / "reports").exists()


CALLS = """\
suite: calls
worlds: {shelf: shelf.yaml, counter: counter.yaml}
cases:
  slips:
    prompts: [go]
    world: shelf
    agents: {helper: {script: [{done: ok}]}}
    tools: [shelf.put, agent:helper, "shell(git *)"]
    checks:
      right:
        calls:
          need:
            - tool: shelf.puts
              args: {id: book-1}
            - tool: [shelf.put, shelf.pt]
            - counter.tidy
            - agent:helper
          free:
            - raeds
            - reads
            - counter.tidy
            - shell
          forbid:
            - shelf.pu
            - shelf.burn-it-all
            - "counter.*"
            - {decoys: true}
      says:
        abstain:
          free: [sehll]
"""


def test_error_in_the_tools_of_a_call_check_is_reported_at_its_line(folder: Folder) -> None:
    bench_suite.lay(folder)
    folder.write("counter.yaml", bench_suite.SHELF.replace("shelf", "counter").replace("counter.put", "counter.tidy"))
    folder.write("suite.yaml", CALLS)

    faults, said = refused(folder)

    golden_text.said(faults)
    golden_text.said_in(said, "shelf.put")
    golden_text.said_in(said, "reads")


def test_agents_of_a_case_must_be_a_map(folder: Folder) -> None:
    folder.write("suite.yaml", TOOLS.replace("{helper: {script: [{done: ok}]}}", "[helper]"))

    said = folder.run("bench", "run", "suite.yaml", "--model", "nop", "--name", "r")

    golden_text.said_in(said.err, "suite.yaml:5:13", "P0202", "agents")


def test_run_with_too_many_entries_reports_the_limit_and_writes_nothing(folder: Folder) -> None:
    cases = "".join(f"  c{number}: {{}}\n" for number in range(800))
    folder.write("suite.yaml", f"suite: big\ndefaults: {ONE}\ncases:\n{cases}")

    said = folder.run("bench", "run", "suite.yaml", "--model", "nop", "--trials", "10", "--name", "r")

    assert said.code == 2, said.text
    golden_text.said_in(said.err)
    golden_text.said_in(said.err)
    assert not (folder.path / "reports").exists()
