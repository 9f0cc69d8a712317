"""Runs of a suite: repeated, resumed, stopped by a limit, or broken by a failing environment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import golden_text
from tests.e2e import bench_suite, command, container_harness
from tests.e2e.folder import Folder

LIMITED = """\
suite: limited
cases:
  long:
    prompts: [read a lot]
    budget: {turns: 2}
    files: {a.txt: x}
    checks: {made: {require-file: b.txt}}
    proof:
      oracles:
        slow:
          script: [{call: {read: {path: a.txt}}}, {call: {list: {}}}, {call: {read: {path: a.txt}}}, {done: ok}]
  asleep:
    prompts: [wait for nobody]
    within: 1s
    checks: {made: {require-file: b.txt}}
    proof: {oracles: {slow: {script: [{sleep: 1h}, {done: ok}]}}}
"""
HOST_NAME = "/proc/sys/kernel/hostname"
BOXED = f"""\
suite: boxed
cases:
  made:
    prompts: [make a.txt]
    image: {container_harness.IMAGE}
    checks:
      made: {{sh: "read at < a.txt; read here < {HOST_NAME}; test $at/$here = localhost/work"}}
      alone: {{sh: 'test "$(cat nets.txt)" = lo'}}
      shut: {{sh: "test ! -e open.txt -a $(wc -l < a.txt) = 2"}}
      told: {{json: {{sh: 'read here < {HOST_NAME}; echo "{{\\"host\\": \\"$here\\"}}"', subset: {{host: work}}}}}}
    proof:
      oracles:
        plain:
          script:
            - call:
                shell:
                  command: |
                    read at < {HOST_NAME}; echo $at > a.txt; echo $at
                    ls /sys/class/net > nets.txt
                    for folder in / /etc /bin; do echo x > $folder/x && echo $folder >> open.txt; done
                    echo x > /tmp/x && echo it writes /tmp >> a.txt
            - done: ok
"""
LOOKED_AT = """\
suite: looked
defaults:
  prompts: [read it]
  files: {a.txt: x}
  tools: [read]
  checks: {c: {calls: {need: [{tool: read}]}}}
  proof: {oracles: {plain: {script: [{call: {read: {path: a.txt}}}, {done: ok}]}}}
cases:
  by-its-log: {}
  by-its-size: {soft: [churn]}
  by-its-file: {checks: {f: {require-file: a.txt}}}
"""


@pytest.mark.process
def test_two_deterministic_runs_are_the_same_but_for_times(folder: Folder) -> None:
    bench_suite.lay(folder)
    words = ("bench", "run", "suite.yaml", "--model", "oracle", "--model", "nop", "--deterministic", "--name")
    for name in ("one", "two"):
        assert folder.run(*words, name).code == 0

    one, two = (folder.path / "reports" / "mixed" / name for name in ("one", "two"))

    assert (one / "plan.json").read_bytes() == (two / "plan.json").read_bytes()
    assert list(map(bench_suite.untimed, bench_suite.events(one))) == list(
        map(bench_suite.untimed, bench_suite.events(two))
    )
    assert {end["verdict"] for end in bench_suite.ends(one).values()} == {"pass", "fail"}


@pytest.mark.process
@pytest.mark.timeout(300)
def test_two_deterministic_runs_in_closed_containers_have_equal_host_names_too(folder: Folder, tmp_path: Path) -> None:
    address = container_harness.machines_address()
    with container_harness.harness(folder, address, tmp_path):
        folder.write("suite.yaml", BOXED)
        for name in ("one", "two"):
            said = folder.run("bench", "run", "suite.yaml", "--model", "oracle", "--deterministic", "--name", name)
            assert said.code == 0, said.text
    one, two = (folder.path / "reports" / "boxed" / name for name in ("one", "two"))

    assert json.loads((one / "plan.json").read_text())["images"][container_harness.IMAGE].startswith("sha256:")
    assert (one / "plan.json").read_bytes() == (two / "plan.json").read_bytes()
    assert list(map(bench_suite.untimed, bench_suite.events(one))) == list(
        map(bench_suite.untimed, bench_suite.events(two))
    )
    assert {end["verdict"] for end in bench_suite.ends(one).values()} == {"pass"}


@pytest.mark.process
@pytest.mark.needs("bubblewrap")
def test_limit_is_graded_with_a_reason(folder: Folder) -> None:
    folder.write("suite.yaml", LIMITED)

    said = folder.run("bench", "run", "suite.yaml", "--model", "oracle:slow", "--name", "r")

    assert said.code == 0, said.text
    ends = bench_suite.ends(folder.path / "reports" / "limited" / "r")
    assert {name: end["verdict"] for name, end in ends.items()} == {
        "long oracle:slow 1": "fail",
        "asleep oracle:slow 1": "fail",
    }
    assert "budget of turns is used up" in ends["long oracle:slow 1"]["why"]
    golden_text.said(ends["asleep oracle:slow 1"]["why"], "1 s")


@pytest.mark.process
@pytest.mark.timeout(120)
def test_a_model_that_cannot_be_asked_is_an_error_and_is_tried_again(folder: Folder) -> None:
    bench_suite.lay(folder)
    words = ("--model", "replay/none.jsonl", "--cases", "says", "--name", "r")

    said = folder.run("bench", "run", "suite.yaml", *words)

    run = folder.path / "reports" / "mixed" / "r"
    (end,) = bench_suite.ends(run).values()
    assert (end["verdict"], said.code) == ("error", 10)
    assert "none.jsonl" in end["why"]
    assert not summary(run)["complete"]
    golden_text.said_in(said.text, f"{Path('reports/mixed/r')}")
    assert folder.run("bench", "resume", str(run)).code == 10
    assert [event["attempt"] for event in bench_suite.events(run) if event["type"] == "case/end"] == [1, 2]


@pytest.mark.process
def test_workspace_is_copied_only_where_a_check_or_a_figure_reads_it(folder: Folder) -> None:
    folder.write("suite.yaml", LOOKED_AT)

    assert folder.run("bench", "run", "suite.yaml", "--model", "oracle", "--name", "r").code == 0

    run = folder.path / "reports" / "looked" / "r"
    assert {end["verdict"] for end in bench_suite.ends(run).values()} == {"pass"}
    assert sorted(copy.name for copy in (run / "graded").iterdir()) == [
        "by-its-file--oracle--1",
        "by-its-size--oracle--1",
    ]


def summary(run: Path) -> dict[str, object]:
    whole: dict[str, object] = json.loads((run / "summary.json").read_text())
    return whole


@pytest.mark.process
def test_only_the_edited_cases_of_an_edited_suite_are_tried_again(folder: Folder) -> None:
    bench_suite.lay(folder)
    words = ("--model", "oracle", "--model", "nop", "--cases", "[cs]*", "--name", "r")
    assert folder.run("bench", "run", "suite.yaml", *words).code == 0
    folder.write("suite.yaml", bench_suite.SUITE.replace("asks-or-says: /which/", "asks-or-says: /which|what/"))

    said = folder.run("bench", "resume", "mixed/r", "--suite", "suite.yaml")

    assert said.code == 0, said.text
    counts = [line.split()[0] for line in said.out.splitlines() if " says  " in line]
    assert counts == ["1/2", "2/2"], "of what is tried again"
    ends = [
        event for event in bench_suite.events(folder.path / "reports" / "mixed" / "r") if event["type"] == "case/end"
    ]
    tried = sorted((end["case"], end["model"], end["attempt"], end["data"]["verdict"]) for end in ends)
    assert tried == [
        ("calls", "nop", 1, "fail"),
        ("calls", "oracle", 1, "pass"),
        ("says", "nop", 1, "fail"),
        ("says", "nop", 2, "fail"),
        ("says", "oracle", 1, "pass"),
        ("says", "oracle", 2, "pass"),
    ]
    assert folder.run("bench", "report", "mixed/r").code == 0, "and the events are still what the log says"
    folder.write("suite.yaml", bench_suite.SUITE.replace("  says:", "  speaks:"))
    said = folder.run("bench", "resume", "mixed/r", "--suite", "suite.yaml")
    assert said.code == 4, said.text
    golden_text.said_in(said.err)


WAITS = """\
suite: waits
defaults:
  prompts: [wait]
  within: 6s
  checks: {made: {require-file: b.txt}}
  proof: {oracles: {slow: {script: [{sleep: 1h}, {done: ok}]}}}
cases: {one: {}, two: {}}
"""


@pytest.mark.process
@pytest.mark.needs("bubblewrap")
def test_only_the_entry_whose_task_an_operator_changes_is_marked(folder: Folder) -> None:
    folder.write("suite.yaml", WAITS)
    run = folder.path / "reports" / "waits" / "r"
    words = ("bench", "run", "suite.yaml", "--model", "oracle", "--name", "r")
    with (folder.path / "out").open("wb") as out, command.start(*words, cwd=folder.path, stdout=out) as process:
        plan = ("--plan", str(run / "run.plan.yaml"))
        while process.poll() is None and folder.run("patch", "task/one--oracle--1", "notes=hurry", *plan).code != 0:
            pass  # Its plan is not there yet.
        assert process.wait(30) == 0
    assert {name: end["touched"] for name, end in bench_suite.ends(run).items()} == {
        "one oracle 1": True,
        "two oracle 1": False,
    }
