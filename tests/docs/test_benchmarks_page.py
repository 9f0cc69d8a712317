"""The page on benchmarks is true: its suite is valid, and its commands print what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from planloop.benchmarks.runs.contestants import case_cheats
from tests.architecture.tree import ROOT
from tests.benchmarks.validating.suites import SOUND, suite_of
from tests.docs.sessions import Terminal, check, replayed

PAGE = ROOT / "docs" / "benchmarks" / "index.md"


@pytest.mark.process
@pytest.mark.needs("bubblewrap")
@pytest.mark.timeout(240)
def test_the_sessions_of_the_page_are_real(tmp_path: Path, is_updating: bool) -> None:
    text = PAGE.read_text()
    (suite,) = re.findall(r"(?ms)^```yaml\n(suite: .*?)^```\n", text)
    (tmp_path / "notes.yaml").write_text(suite)
    for name, content in re.findall(r"(?ms)^```yaml\n# (suites/\S+)\n(.*?)^```\n", text):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)

    now = replayed(text, Terminal(tmp_path, timeout_s=60))

    check(PAGE, now, is_updating=is_updating)


def test_the_page_names_every_standard_cheat() -> None:
    case = suite_of(one=SOUND | {"serve": "auto", "image": "planloop/node"}).cases["one"]
    rows = re.findall(r"(?m)^\| ([a-z][a-z, -]+) \| ", PAGE.read_text().partition("| cheat | does |")[2])

    named = [name for row in rows for name in row.split(", ")]

    assert set(case_cheats(case)) == set(named[: len(case_cheats(case))])
