"""Agents that try to come by a verdict without the work, or to have others' runs end: neither works."""

from __future__ import annotations

import pytest

from tests.e2e import benches
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


@pytest.mark.slow
def test_links_and_cases_of_its_own_give_an_agent_no_verdict_and_stop_no_run(folder: Folder) -> None:
    for name, text in (("suite", SUITE), ("links", LINKS), ("forges", FORGES)):
        folder.write(f"{name}.yaml", text)

    said = folder.run(
        "bench", "run", "suite.yaml", "--model", "script:links.yaml", "--model", "script:forges.yaml", "--name", "r"
    )

    assert said.code == 0, said.text
    ends = benches.ends(folder.path / "reports/attacked/r")
    assert {name: (end["verdict"], end["why"]) for name, end in ends.items()} == {
        "one forges 1": ("fail", "right: out.txt is not there"),
        "one links 1": ("fail", "right: out.txt is not there"),
    }
