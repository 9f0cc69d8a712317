"""The disk fills up during a plan: one error line with a hint, and the plan continues once there is space."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import golden_text
from tests.e2e.folder import Folder
from tests.e2e.test_disk import small_disk

PLAN_TEXT = """\
plan: p
tasks:
  first: {run: echo first >> effects}
  gate: {needs: [first], run: "echo gate >> effects; cat door"}
""" + "".join(f"  t{n}: {{needs: [gate], run: echo t{n} >> effects}}\n" for n in range(20))

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]


def fill(disk: Path) -> Path:
    """A file that leaves no byte on `disk`."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass
    return filler


def test_a_disk_that_fills_up_ends_the_owner_and_loses_nothing(folder: Folder) -> None:
    state = folder.path / ".plan"
    state.mkdir()
    os.mkfifo(folder.path / "door")
    folder.write("p.yaml", PLAN_TEXT)
    with small_disk(state):
        with folder.started("p.yaml") as owner:
            owner.until(r"running +task/gate")
            with (folder.path / "door").open("w"):
                filler = fill(state)
            code = owner.ended()

        assert code == 1, owner.text
        assert "Traceback" not in owner.text
        assert "full" in owner.text
        golden_text.said_in(owner.text)
        assert folder.run("get", "tasks").code == 0, "it can still be read"
        assert folder.run("apply", "p.yaml").code == 1
        patched = folder.run("patch", "task/t1", "notes=x")
        assert patched.code == 1
        assert "full" in patched.err

        filler.unlink()
        said = folder.run("apply", "p.yaml")

        assert said.code in (0, 10), said.text
        effects = (folder.path / "effects").read_text().split()
        assert len(effects) == len(set(effects)), "nothing ran twice"
        assert effects[:2] == ["first", "gate"]
        assert said.code == 0, said.text
        assert len(effects) == 22
        assert folder.run("replay").code == 0
