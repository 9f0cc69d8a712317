"""Runs of a suite as people have them: the same again, gone on with, cut off by a limit or by a world that fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e import benches
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


@pytest.mark.slow
def test_two_deterministic_runs_are_the_same_but_for_times(folder: Folder) -> None:
    benches.lay(folder)
    words = ("bench", "run", "suite.yaml", "--model", "oracle", "--model", "nop", "--deterministic", "--name")
    for name in ("one", "two"):
        assert folder.run(*words, name).code == 0

    one, two = (folder.path / "reports" / "mixed" / name for name in ("one", "two"))

    assert (one / "plan.json").read_bytes() == (two / "plan.json").read_bytes()
    assert list(map(benches.untimed, benches.events(one))) == list(map(benches.untimed, benches.events(two)))
    assert {end["verdict"] for end in benches.ends(one).values()} == {"pass", "fail"}


@pytest.mark.slow
def test_a_limit_is_judged_and_says_why(folder: Folder) -> None:
    folder.write("suite.yaml", LIMITED)

    said = folder.run("bench", "run", "suite.yaml", "--model", "oracle:slow", "--name", "r")

    assert said.code == 0, said.text
    ends = benches.ends(folder.path / "reports" / "limited" / "r")
    assert {name: end["verdict"] for name, end in ends.items()} == {
        "long oracle:slow 1": "fail",
        "asleep oracle:slow 1": "fail",
    }
    assert "budget of turns is used up" in ends["long oracle:slow 1"]["why"]
    assert "not done within 1 s" in ends["asleep oracle:slow 1"]["why"]


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_model_that_cannot_be_asked_is_an_error_and_is_tried_again(folder: Folder) -> None:
    benches.lay(folder)
    words = ("--model", "openai/gpt-4o", "--cases", "says", "--name", "r")

    said = folder.run("bench", "run", "suite.yaml", *words)

    run = folder.path / "reports" / "mixed" / "r"
    (end,) = benches.ends(run).values()
    assert (end["verdict"], said.code) == ("error", 10)
    assert "OPENAI_API_KEY" in end["why"]
    assert not summary(run)["complete"]
    assert f"plan bench resume {Path('reports/mixed/r')}" in said.text
    assert folder.run("bench", "resume", str(run)).code == 10
    assert [event["attempt"] for event in benches.events(run) if event["type"] == "case/end"] == [1, 2]


def summary(run: Path) -> dict[str, object]:
    whole: dict[str, object] = json.loads((run / "summary.json").read_text())
    return whole
