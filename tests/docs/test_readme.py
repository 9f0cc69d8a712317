"""What the README shows is what the commands print: its sessions run again in the quickstart's folder."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.docs.verb_pages import ROOT, shell, steady

README = ROOT / "README.md"
SESSION = re.compile(r"(?ms)^```console\n(\$ .*?)^```\n")


def played(block: str, folder: Path, *, timeout_s: float = 15) -> str:
    """The session with what its commands print now."""
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    parts = [f"$ {command}\n{shell(command, folder, timeout_s=timeout_s)[0]}".rstrip() for command in commands]
    return steady("\n\n".join(parts)) + "\n"


@pytest.mark.process
@pytest.mark.timeout(120)
def test_the_sessions_of_the_readme_are_real(tmp_path: Path, is_updating: bool) -> None:
    folder = tmp_path / "quickstart"
    shutil.copytree(ROOT / "plans" / "examples" / "quickstart", folder)
    text = README.read_text()

    now = SESSION.sub(lambda found: f"```console\n{played(found[1], folder)}```\n", text)

    if is_updating:
        README.write_text(now)
    assert README.read_text() == now, "run `make docs` and look at the difference"
