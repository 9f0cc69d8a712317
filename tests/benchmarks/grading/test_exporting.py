"""What is graded is a copy out of reach, without what leads out of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.grading import exporting
from benchmarks.grading.exporting import export


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / "src" / "a.txt").write_text("a")
    (tmp_path / "secret").write_text("s")
    return work


def test_files_folders_and_inner_links_are_copied(work: Path, tmp_path: Path) -> None:
    (work / "run").write_text("#!/bin/sh\n")
    (work / "run").chmod(0o755)
    (work / "src" / "link").symlink_to("a.txt")

    found = export(work, tmp_path / "graded")

    assert (found.files, found.size_bytes, found.dropped) == (2, 11, ())
    assert (found.folder / "src" / "link").read_text() == "a"
    assert os.access(found.folder / "run", os.X_OK)
    assert found.folder.stat().st_mode & 0o777 == 0o777


@pytest.mark.parametrize("target", ["../secret", "/etc/passwd", "../../graded", "src/../../secret"])
def test_a_link_that_leads_out_is_left_out(work: Path, tmp_path: Path, target: str) -> None:
    (work / "link").symlink_to(target)

    found = export(work, tmp_path / "graded")

    assert found.dropped == ("link",)
    assert not (found.folder / "link").is_symlink()


def test_a_link_through_a_link_cannot_lead_out(work: Path, tmp_path: Path) -> None:
    (work / "up").symlink_to("src")
    (work / "src" / "out").symlink_to("../../secret")
    (work / "far").symlink_to("up/out")

    found = export(work, tmp_path / "graded")

    assert not (found.folder / "far").exists()


def test_a_link_that_leads_out_by_way_of_another_is_left_out(work: Path, tmp_path: Path) -> None:
    (work / "src" / "up").symlink_to("..")
    (work / "far").symlink_to("src/up/../secret")
    (tmp_path / "graded" / "..").resolve().joinpath("secret").write_text("s")

    found = export(work, tmp_path / "graded")

    assert found.dropped == ("far",)
    assert (found.folder / "src" / "up").resolve() == found.folder


def test_history_pipes_and_what_was_there_before_are_left_out(work: Path, tmp_path: Path) -> None:
    (work / ".git").mkdir()
    (work / "src" / ".git").write_text("gitdir: elsewhere")
    os.mkfifo(work / "pipe")
    (tmp_path / "graded").mkdir()
    (tmp_path / "graded" / "old").write_text("from an earlier try")

    found = export(work, tmp_path / "graded")

    assert found.dropped == (".git", "pipe", "src/.git")
    assert sorted(one.name for one in found.folder.iterdir()) == ["src"]


def test_a_workspace_that_is_not_there_or_is_a_link_is_empty(work: Path, tmp_path: Path) -> None:
    (tmp_path / "away").symlink_to(work)

    assert export(tmp_path / "none", tmp_path / "graded").files == 0
    assert export(tmp_path / "away", tmp_path / "graded").files == 0


def test_too_much_is_told(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "FILES_MAX", 0)

    with pytest.raises(exporting.TooLarge, match="more than 0 files"):
        export(work, tmp_path / "graded")
