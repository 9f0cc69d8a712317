"""The page on containers is true: its sessions print what it shows, on a real engine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from containers.docker_engine import DockerEngine
from schemas.fields import ChangeClass
from schemas.fields_all import TABLES
from tests.planloop.test_readme import SESSION
from tests.planloop.verb_pages import ROOT, shell, steady

PAGE = ROOT / "docs" / "containers.md"
AGE = re.compile(r"\b\d+(?:\.\d)? s\b( +(?=it ended|httpd))?")
PLAN = re.compile(r"(?ms)^```yaml\n(plan: shop\n.*?)^```\n")


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_sessions_of_the_page_are_real(engine: DockerEngine, tmp_path: Path, is_updating_docs: bool) -> None:
    text = PAGE.read_text()
    plan = PLAN.search(text)
    assert plan is not None
    (tmp_path / "shop.plan.yaml").write_text(plan[1])
    shell("plan image make shell", tmp_path, timeout_s=60)
    try:
        now = SESSION.sub(lambda found: f"```console\n{_played(found[1], tmp_path)}```\n", text)
    finally:
        shell("plan down --volumes", tmp_path)
    if is_updating_docs:
        PAGE.write_text(now)
    assert PAGE.read_text() == now, "run the tests with --update-docs and look at the difference"


def _played(block: str, folder: Path) -> str:
    """The session with what its commands print now; how old a container is differs in digits too."""
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    parts = [f"$ {command}\n{shell(command, folder, timeout_s=60)[0]}".rstrip() for command in commands]
    said = AGE.sub(lambda found: "0.1 s" + " " * 14 * bool(found[1]), steady("\n\n".join(parts)))
    return re.sub(r"(?<=FOR) +(?=RESTARTS)", " " * 5, said) + "\n"


def test_the_table_of_changes_is_that_of_the_code() -> None:
    rows = {row.split("|")[2].strip(): row.split("|")[1] for row in PAGE.read_text().splitlines() if row[:3] == "| `"}
    replaced = re.findall(r"`([a-z-]+)`", rows["the container is stopped and removed, and a new one is started"])
    later = re.findall(r"`([a-z-]+)`", rows["those of the next one; what runs stays as it is"])
    fields = TABLES["container"].fields
    assert sorted(replaced) == sorted(row.name for row in fields if row.change is ChangeClass.REPLACE)
    assert sorted(later) == sorted(row.name for row in fields if row.change is ChangeClass.NONE)
