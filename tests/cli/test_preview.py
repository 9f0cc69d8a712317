"""Previews made in this process: every data snippet of the source documents, and what a preview adds in notes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from planloop.cli.main import cli
from tests.product import CommandError
from tests.product import CommandExit as Exit

GOLDEN = Path(__file__).parents[1] / "golden/seeds"
SEEDS = sorted(path for path in GOLDEN.iterdir() if path.suffix in (".edn", ".yaml"))


@pytest.mark.parametrize("seed", SEEDS, ids=lambda path: path.name)
def test_a_seed_previews_with_what_it_would_start_and_changes_nothing(
    seed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(seed, tmp_path)
    monkeypatch.chdir(tmp_path)

    said = CliRunner().invoke(cli, ["diff", seed.name], prog_name="plan")

    assert isinstance(said.exception, CommandError) and said.exception.exit is Exit.FAILED, said.output
    assert "(new; nothing is running)" in said.stdout
    assert " to add, 0 to change, 0 to remove" in said.stdout
    assert "error" not in said.stderr
    assert [path.name for path in tmp_path.iterdir()] == [seed.name]


PLAN = """plan: p
tasks:
  a: {run: "true", cwd: new/deep}
  b: {run: "true", cwd: new/deep}
  c: {run: "true", cwd: there}
  g: {cwd: only/children, tasks: {d: {run: "true", cwd: .}}}
"""


def test_a_preview_names_the_folders_that_will_be_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.plan.yaml").write_text(PLAN)
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)

    said = CliRunner().invoke(cli, ["diff", "p.plan.yaml", "-o", "json"], prog_name="plan")

    (note,) = json.loads(said.stdout)["notes"]
    assert "`new/deep`" in note and "task/a" in note
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.plan.yaml", "there"]
