"""Grading uses a copy of the workspace that the agent cannot reach, without links out of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planloop.benchmarks.grading.export import WorkspaceTooLarge, WorkspaceUnreadable, export_workspace
from planloop.schemas import limits
from tests.golden_text import said
from tests.rights import without_rights

LINKS_MAX = 40  # In one path: path_resolution(7).
PATH_BYTES_MAX = 4096  # With the byte that ends it: PATH_MAX of Linux.


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / "src" / "a.txt").write_text("a")
    (tmp_path / "secret").write_text("s")
    return work


@pytest.fixture
def graded(tmp_path: Path) -> Path:
    return tmp_path / "graded"


def test_files_folders_and_inner_links_are_copied(work: Path, graded: Path) -> None:
    (work / "run").write_text("#!/bin/sh\n")
    (work / "run").chmod(0o755)
    (work / "src" / "link").symlink_to("a.txt")

    export_workspace(work, graded)

    assert (graded / "src" / "link").read_text() == "a"
    assert os.access(graded / "run", os.X_OK)
    assert graded.stat().st_mode & 0o777 == 0o777


@pytest.mark.parametrize("target", ["../secret", "/etc/passwd", "../../graded", "src/../../secret"])
def test_link_out_of_the_workspace_is_not_copied(work: Path, graded: Path, target: str) -> None:
    (work / "link").symlink_to(target)

    export_workspace(work, graded)

    assert [one.name for one in graded.iterdir()] == ["src"]


def test_link_through_a_link_cannot_escape(work: Path, graded: Path) -> None:
    (work / "up").symlink_to("src")
    (work / "src" / "out").symlink_to("../../secret")
    (work / "far").symlink_to("up/out")

    export_workspace(work, graded)

    assert not (graded / "far").exists()


def test_indirect_link_out_of_the_workspace_is_not_copied(work: Path, graded: Path) -> None:
    (work / "src" / "up").symlink_to("..")
    (work / "far").symlink_to("src/up/../secret")

    export_workspace(work, graded)

    assert not (graded / "far").is_symlink()
    assert (graded / "src" / "up").resolve() == graded


def test_circular_links_and_undecodable_names_are_left_out(work: Path, graded: Path) -> None:
    (work / "self").symlink_to("self")
    (work / "to").symlink_to("fro")
    (work / "fro").symlink_to("to")
    Path(os.fsdecode(bytes(work) + b"/\xff.cljs")).write_text("a name that no event can hold")

    export_workspace(work, graded)

    assert [one.name for one in graded.iterdir()] == ["src"]


def test_links_that_the_system_does_not_resolve_are_left_out(work: Path, graded: Path) -> None:
    chain = [work / f"{number:04}" for number in range(1_200)]  # Longer than functions may call each other.
    for link, before in zip(chain, [work / "src" / "a.txt", *chain], strict=False):
        link.symlink_to(before.relative_to(work))
    (work / "long").symlink_to("n" * 300)
    (work / "dangling").symlink_to("src/not-made")

    export_workspace(work, graded)

    followed = [f"{number:04}" for number in range(LINKS_MAX)]
    assert sorted(one.name for one in graded.iterdir()) == [*followed, "dangling", "src"]
    assert (graded / followed[-1]).read_text() == "a"


def test_history_pipes_and_earlier_files_are_left_out(work: Path, graded: Path) -> None:
    (work / ".git").mkdir()
    (work / "src" / ".git").write_text("gitdir: elsewhere")
    os.mkfifo(work / "pipe")
    graded.mkdir()
    (graded / "old").write_text("from an earlier try")

    export_workspace(work, graded)

    assert sorted(str(one.relative_to(graded)) for one in graded.rglob("*")) == ["src", "src/a.txt"]


@pytest.mark.parametrize("name", ["none", "away"])
def test_missing_or_linked_workspace_is_empty(work: Path, graded: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "away").symlink_to(work)

    export_workspace(tmp_path / name, graded)

    assert list(graded.iterdir()) == []


@pytest.mark.parametrize(
    ("bound", "largest", "words"),
    [
        ("GRADED_ENTRIES_MAX", 1, "more than 1 files"),
        ("GRADED_BYTES_MAX", 0, "or 0 GiB"),
        ("GRADED_DEPTH_MAX", 1, "more than 1 folders deep"),
    ],
)
def test_oversized_workspace_is_reported(
    work: Path, graded: Path, monkeypatch: pytest.MonkeyPatch, bound: str, largest: int, words: str
) -> None:
    monkeypatch.setattr(limits, bound, largest)

    with pytest.raises(WorkspaceTooLarge, match=words):
        export_workspace(work, graded)


def test_workspace_is_copied_up_to_the_recursion_limit(work: Path, graded: Path) -> None:
    (work / "/".join("a" * 150)).mkdir(parents=True)

    with pytest.raises(WorkspaceTooLarge, match="100 folders deep"):
        export_workspace(work, graded)


def deepen(folder: Path, size: int) -> None:
    """Makes folders in folders below `folder`, until the path of the last has `size` letters."""
    at = os.open(folder, os.O_RDONLY)
    left = size - len(str(folder))
    while left > 0:
        name = "d" * (left - 1 if left <= 200 else 100)
        os.mkdir(name, dir_fd=at)
        above, at = at, os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(above)
        left -= len(name) + 1
    os.close(at)


@pytest.mark.parametrize("more", [-1, 1000])
def test_workspace_deeper_than_any_path_is_an_error_of_the_work(work: Path, graded: Path, more: int) -> None:
    deepen(work, PATH_BYTES_MAX + more)  # In the copy, which has a longer name, also what can be read just so.

    with pytest.raises(WorkspaceUnreadable) as caught:
        export_workspace(work, graded)
    said(str(caught.value))


def test_unreadable_folder_is_an_error_of_the_work(work: Path, graded: Path) -> None:
    (work / "src").chmod(0)

    with without_rights(), pytest.raises(WorkspaceUnreadable, match="Permission denied: src"):
        export_workspace(work, graded)


def test_unwritable_copy_is_an_infrastructure_error(work: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")

    with pytest.raises(NotADirectoryError):
        export_workspace(work, tmp_path / "file" / "graded")
