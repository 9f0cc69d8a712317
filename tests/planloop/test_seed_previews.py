"""Every data snippet of the source documents, as written there, previewed in this process."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from planloop.cli.main import cli
from tests.product import CommandExit as Exit
from tests.product import Halt

GOLDEN = Path(__file__).parents[1] / "golden/seeds"
SEEDS = sorted(path for path in GOLDEN.iterdir() if path.suffix in (".edn", ".yaml"))


@pytest.mark.parametrize("seed", SEEDS, ids=lambda path: path.name)
def test_a_seed_previews_with_what_it_would_start_and_changes_nothing(
    seed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(seed, tmp_path)
    monkeypatch.chdir(tmp_path)

    said = CliRunner().invoke(cli, ["diff", seed.name], prog_name="plan")

    assert isinstance(said.exception, Halt) and said.exception.exit is Exit.FAILED, said.output
    assert "(new; nothing is running)" in said.stdout
    assert " to add, 0 to change, 0 to remove" in said.stdout
    assert "error" not in said.stderr
    assert [path.name for path in tmp_path.iterdir()] == [seed.name]
