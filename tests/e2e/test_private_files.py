"""Files of `.plan` are open to their user alone, whatever the umask is; files of the workspace follow the umask."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path
from typing import Final

import pytest

from planloop.client import process
from tests.controllers.fork.repository import Home
from tests.e2e import command
from tests.e2e.folder import Folder

pytestmark = [pytest.mark.process, pytest.mark.needs("git")]

PLAN: Final = """\
plan: p
goal: x
tasks:
  large: {run: "head -c 300000 /dev/zero | tr '\\\\0' x"}
  forked: {fork: true, run: "echo new > new"}
  writes: {goal: g, agent: {tools: [write], script: [{call: {write: {path: written, content: x}}}, {done: so}]}}
  last: {needs: [large, forked, writes], run: "umask > mask; sleep 60"}
"""


def open_to_others(folder: Path) -> list[str]:
    """Working trees of forks are left out: they are workspaces, in a folder that is closed."""
    found = [folder, *folder.rglob("*")]
    return [
        str(one)
        for one in found
        if "forks" not in one.parent.parts and not one.is_symlink() and stat.S_IMODE(one.stat().st_mode) & 0o077
    ]


@pytest.mark.parametrize("mask", ["000", "022"])
def test_state_is_private_and_the_workspace_is_not(tmp_path: Path, mask: str) -> None:
    Home(tmp_path).begin(all="x\n")
    folder = Folder(tmp_path)
    folder.write("p.plan.yaml", PLAN)
    line = ["sh", "-c", f'umask {mask}; exec "$@"', "sh", *command.PLAN, "apply", "--yes", "p.plan.yaml"]
    with subprocess.Popen(line, cwd=tmp_path, env=process.environment(), stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert any("running" in line and "task/last" in line for line in owner.stdout)
        while not (tmp_path / "mask").exists() or not (tmp_path / "mask").read_text():
            continue
        assert any((tmp_path / ".plan/p/run").glob("*.state"))
        found = open_to_others(tmp_path / ".plan")
        owner.kill()
    for pid in folder.processes():
        subprocess.run(["kill", "-9", str(pid)], check=False)
    assert found == []
    expected = 0o666 & ~int(mask, 8)
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("new", "written", "mask")} == {expected}
    assert int((tmp_path / "mask").read_text(), 8) == int(mask, 8)


def test_owner_closes_the_state_that_an_older_version_left_open(folder: Folder) -> None:
    folder.write("p.plan.yaml", "plan: p\ngoal: x\ntasks: {a: {run: 'true'}}\n")
    assert folder.run("apply", "--yes", "p.plan.yaml").code == 0
    state = folder.path / ".plan"
    for one in (state, state / "p", state / "p/log.db"):
        one.chmod(0o755 if one.is_dir() else 0o644)

    assert folder.run("apply", "--yes", "p.plan.yaml").code == 0

    assert open_to_others(state) == []
