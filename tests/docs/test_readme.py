"""What the README shows is what the commands print: its sessions run again in the quickstart's folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.docs.sessions import Terminal, check, replayed

README = ROOT / "README.md"


@pytest.mark.process
@pytest.mark.timeout(120)
def test_the_sessions_of_the_readme_are_real(tmp_path: Path, is_updating: bool) -> None:
    folder = tmp_path / "quickstart"
    shutil.copytree(ROOT / "plans" / "examples" / "quickstart", folder)
    text = README.read_text()

    now = replayed(text, Terminal(folder))

    check(README, now, is_updating=is_updating)
