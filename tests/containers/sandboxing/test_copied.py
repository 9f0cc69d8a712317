"""A plan's folder that was copied while commands of it ran in containers: the copy knows of them and ends none."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.containers.sandboxing import enclosures
from tests.product import CommandSandbox, ProcessCommand

pytestmark = pytest.mark.anyio


class Remembering:
    """Rooms that note what was to be ended, and whose engine is down first."""

    def __init__(self) -> None:
        self.is_up = False
        self.asked: list[tuple[str, str]] = []

    def enclosed(self, op: str, command: ProcessCommand) -> tuple[str, ProcessCommand]:
        del op
        return "its-id", replace(command, sandbox=None)

    async def end(self, ref: str, op: str) -> bool:
        self.asked.append((ref, op))
        return self.is_up


async def test_a_copy_ends_nothing_of_the_original(tmp_path: Path) -> None:
    (tmp_path / "a/run").mkdir(parents=True)
    rooms = Remembering()
    original = enclosures.enclosing(tmp_path / "a", tmp_path / "a/run", rooms=rooms)
    await original.run("op", ProcessCommand(str(tmp_path), argv=("true",), sandbox=CommandSandbox(3, "sut")))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (tmp_path / "way").symlink_to("a")
    rooms.is_up = True
    rooms.asked.clear()

    await enclosures.enclosing(tmp_path / "b", tmp_path / "b/run", rooms=rooms).sweep(frozenset())
    assert rooms.asked == []
    assert not (tmp_path / "b/run/enclosed/op").exists()

    await enclosures.enclosing(tmp_path / "way", tmp_path / "way/run", rooms=rooms).sweep(frozenset())
    assert rooms.asked == [("its-id", "op")]
    assert not (tmp_path / "a/run/enclosed/op").exists()
