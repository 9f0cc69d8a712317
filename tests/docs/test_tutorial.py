"""The tutorial works as it is written: its plan is saved, its commands run in order, and its output is real."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.test_readme import SESSION, played
from tests.docs.verb_pages import ROOT, shell

TUTORIAL = ROOT / "docs/start/tutorial.md"


@pytest.mark.process
@pytest.mark.timeout(120)
def test_the_tutorial_can_be_followed_to_its_end(tmp_path: Path, is_updating: bool) -> None:
    text = TUTORIAL.read_text()
    plan = re.search(r"(?ms)^```yaml\n(.*?)^```\n", text)
    assert plan is not None
    (tmp_path / "report.plan.yaml").write_text(plan[1])
    try:
        now = SESSION.sub(lambda found: f"```console\n{played(found[1], tmp_path, timeout_s=40)}```\n", text)
    finally:
        shell("plan down", tmp_path, timeout_s=15)

    if is_updating:
        TUTORIAL.write_text(now)
    assert (tmp_path / "book.txt").read_text().splitlines()[-4:] == [f"part {number}" for number in (1, 2, 3, 4)]
    assert (tmp_path / "report.txt").read_text().endswith("files in this folder\n")
    assert TUTORIAL.read_text() == now, "run `make docs` and look at the difference"
