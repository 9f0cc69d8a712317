"""The commands of the page on backup restore a plan."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.docs.sessions import shell

PAGE = ROOT / "docs" / "operate" / "backup.md"
PLAN = "plan: webchat\ngoal: a long text\ntasks:\n  write: {run: seq 50000}\n"


@pytest.mark.process
@pytest.mark.timeout(120)
@pytest.mark.parametrize("way", ["stopped", "running"])
def test_a_plan_is_restored_from_a_backup(way: str, tmp_path: Path) -> None:
    stopped, running, restore = (
        "set -e\n"
        + block.replace("/backup", f"{tmp_path}/backup").replace("webchat.plan.yaml", "--yes webchat.plan.yaml")
        for block in re.findall(r"(?ms)^```console\n(.*?)^```\n", PAGE.read_text())
    )
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "webchat.plan.yaml").write_text(PLAN)
    shell("plan apply --yes webchat.plan.yaml", folder)

    saved = shell(stopped if way == "stopped" else running, folder)
    restored = shell(restore, folder, timeout_s=30)

    assert saved[1] == 0, saved[0]
    assert restored[1] == 0, restored[0]
    assert "✔ write" in shell("plan tree", folder)[0]
    assert shell("plan replay", folder)[1] == 0
