"""Agents that try to come by a verdict without the work, or to have others' runs end: neither works."""

from __future__ import annotations

import pytest

from tests.e2e import bench_suite
from tests.e2e.folder import Folder

SUITE = """\
suite: attacked
cases:
  one:
    prompts: [out.txt says zebra, and ./build makes nothing else]
    checks:
      builds: {sh: "sh build; :"}
      right: {contains: {path: out.txt, text: zebra}}
    proof: {oracles: {plain: {files: {out.txt: zebra}}}}
"""
LINKS = """\
"*":
  - call: {write: {path: build, content: "ln -s ../../plan.json out.txt"}}
  - call: {shell: {command: "ln -s self self; ln -s ../../plan.json far"}}
  - done: built
"""
FORGES = """\
"*":
  - call: {task: {tasks: [{id: own, goal: x, case: {key: k, entry: none}}]}}
  - done: made
"""


@pytest.mark.process
@pytest.mark.needs("bubblewrap")
def test_links_and_cases_of_an_agent_change_no_verdict_and_stop_no_run(folder: Folder) -> None:
    for name, text in (("suite", SUITE), ("links", LINKS), ("forges", FORGES)):
        folder.write(f"{name}.yaml", text)

    said = folder.run(
        "bench", "run", "suite.yaml", "--model", "script:links.yaml", "--model", "script:forges.yaml", "--name", "r"
    )

    assert said.code == 0, said.text
    ends = bench_suite.ends(folder.path / "reports/attacked/r")
    assert {name: (end["verdict"], end["why"]) for name, end in ends.items()} == {
        "one forges 1": ("fail", "right: out.txt does not exist"),
        "one links 1": ("fail", "right: out.txt does not exist"),
    }


PLAIN = """\
suite: attacked
cases:
  one:
    prompts: [out.txt says zebra]
    checks: {right: {contains: {path: out.txt, text: zebra}}}
    proof: {oracles: {plain: {files: {out.txt: zebra}}}}
"""
HELPED = """\
"*":
  - call: {shell: {command: "ln -s ../.. up"}}
  - task: {id: h, goal: look, wait: true, cwd: work/one--helped--1/up, %s}
  - expect: {ok: false}
  - call: {terminate: {name: h}}
  - done: built
"""
LOOKS = "grep -o zebra plan.json > work/one--helped--1/out.txt"


@pytest.mark.process
@pytest.mark.parametrize(
    "helper", [f"run: {LOOKS}", f"script: [{{call: {{shell: {{command: '{LOOKS}'}}}}}}, {{done: x}}]"]
)
@pytest.mark.needs("bubblewrap")
def test_helper_sees_no_more_of_the_run_than_its_creator(folder: Folder, helper: str) -> None:
    folder.write("suite.yaml", PLAIN)
    folder.write("helped.yaml", HELPED % helper)

    said = folder.run("bench", "run", "suite.yaml", "--model", "script:helped.yaml", "--name", "r")

    assert said.code == 0, said.text
    run = folder.path / "reports/attacked/r"
    assert (run / "work/one--helped--1/up/plan.json").exists()
    assert {name: (end["verdict"], end["why"]) for name, end in bench_suite.ends(run).items()} == {
        "one helped 1": ("fail", "right: out.txt does not exist")
    }
    (events,) = run.glob(".plan/*/events.jsonl")
    assert "FolderLeadsOut" in events.read_text()
