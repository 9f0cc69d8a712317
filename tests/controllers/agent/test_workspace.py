"""Attempts to escape from the workspace, each by name, and races with them."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from planloop.controllers.agent.tools.errors import ToolDenied, ToolError, ToolFailed
from planloop.controllers.agent.tools.workspace import (
    AccessMode,
    Workspace,
    digest_at,
    files_below,
    read_file,
    replace_open_file,
    search_hits,
)
from planloop.schemas.patterns import find_denial, path_matches
from planloop.schemas.shell.commands import find_commands


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "plan"
    for name in ("work/src", "other", ".plan/p", "work/.git"):
        (root / name).mkdir(parents=True)
    (root / "p.plan.yaml").write_text("plan: p")
    (root / "other/secret.txt").write_text("secret")
    (root / "work/src/a.txt").write_text("a")
    (root / ".plan/p/log.db").write_text("log")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/o.txt").write_text("o")
    return root


def space(folder: Path, root: str = "work", **rights: Any) -> Workspace:
    return Workspace(folder, folder / root, plan_file=folder / "p.plan.yaml", **rights)


def look(where: Workspace, path: str) -> bytes:
    with where.spot(path, "read", "read") as spot:
        return read_file(spot)


def put(where: Workspace, path: str, content: bytes = b"x") -> bool:
    with where.spot(path, "write", "write", makes_folders=True) as spot:
        return replace_open_file(spot, content, digest_at(spot), "t")


def test_path_inside_can_be_read_and_written_by_any_spelling(folder: Path) -> None:
    here = space(folder)
    for path in ("src/a.txt", "./src//a.txt", "src/../src/a.txt", str(folder / "work/src/a.txt")):
        assert look(here, path) == b"a"
    assert put(here, "new/deep/b.txt") and (folder / "work/new/deep/b.txt").read_bytes() == b"x"


@pytest.mark.parametrize(
    "path", ["..", "../other/secret.txt", "src/../../other/secret.txt", "/etc/passwd", "/proc/self/environ", "/"]
)
@pytest.mark.parametrize("mode", ["read", "write"])
def test_dots_and_absolute_paths_cannot_escape(folder: Path, path: str, mode: AccessMode) -> None:
    with pytest.raises(ToolDenied), space(folder).spot(path, mode, "write"):
        raise AssertionError("unreachable")


@pytest.mark.parametrize("path", ["", "  ", "a\0b"])
def test_invalid_path_is_reported(folder: Path, path: str) -> None:
    with pytest.raises(ToolFailed, match="a path must be"), space(folder).spot(path, "read", "read"):
        raise AssertionError("unreachable")


@pytest.mark.parametrize("target", ["/etc", "../../other", "/proc/self", "../.."])
def test_linked_folder_out_of_the_workspace_is_refused(folder: Path, target: str) -> None:
    (folder / "work/link").symlink_to(target)
    with pytest.raises(ToolDenied):
        look(space(folder), "link/passwd")
    with pytest.raises(ToolDenied):
        put(space(folder), "link/new.txt")


def test_linked_file_out_of_the_workspace_is_neither_read_nor_written(folder: Path) -> None:
    (folder / "work/link.txt").symlink_to(folder / "other/secret.txt")
    with pytest.raises(ToolDenied):
        look(space(folder), "link.txt")
    with pytest.raises(ToolDenied):
        put(space(folder), "link.txt")
    assert (folder / "other/secret.txt").read_text() == "secret"


def test_links_that_stay_inside_are_followed(folder: Path) -> None:
    (folder / "work/near").symlink_to("src")
    (folder / "work/src/back").symlink_to("../src/a.txt")
    (folder / "work/whole").symlink_to(folder / "work/src")
    for path in ("near/a.txt", "src/back", "whole/a.txt"):
        assert look(space(folder), path) == b"a"


def test_a_loop_of_links_ends(folder: Path) -> None:
    (folder / "work/x").symlink_to("y")
    (folder / "work/y").symlink_to("x")
    with pytest.raises(ToolDenied, match="symbolic links"):
        look(space(folder), "x/a")


@pytest.mark.parametrize("path", [".plan/p/log.db", "work/../.plan/p/log.db", ".PLAN/x"])
def test_the_plans_state_is_closed(folder: Path, path: str) -> None:
    modes: tuple[AccessMode, AccessMode] = ("read", "write")
    for mode in modes:
        with pytest.raises(ToolError), space(folder, ".").spot(path, mode, "read") as spot:
            read_file(spot)


def test_git_may_be_read_but_not_written(folder: Path) -> None:
    (folder / "work/.git/HEAD").write_text("ref")
    assert look(space(folder), ".git/HEAD") == b"ref"
    for path in (".git/HEAD", ".git/hooks/pre-commit", ".Git/config"):
        with pytest.raises(ToolDenied):
            put(space(folder), path)


def test_law_9_the_plan_file_cannot_be_written_by_any_name(folder: Path) -> None:
    here = space(folder, ".")
    (folder / "work/hard").hardlink_to(folder / "p.plan.yaml")
    (folder / "work/soft").symlink_to("../p.plan.yaml")
    for path in ("p.plan.yaml", "work/../p.plan.yaml", "work/hard", "work/soft"):
        with pytest.raises(ToolDenied, match="plan file"):
            put(here, path)
    assert (folder / "p.plan.yaml").read_text() == "plan: p"


def test_rights_to_paths_narrow_the_workspace(folder: Path) -> None:
    here = space(folder, ".", write=("work/src/**", "*.md"), read=("work/**",), deny=("write(work/src/gen/*)",))
    assert put(here, "work/src/b.txt") and put(here, "notes.md")
    for path in ("work/c.txt", "other/d.txt", "other/notes.md", "work/src/gen/e.txt"):
        with pytest.raises(ToolDenied):
            put(here, path)
    with pytest.raises(ToolDenied):
        look(here, "other/secret.txt")


@pytest.mark.parametrize("name", ["pipe", "folder"])
def test_only_regular_files_are_read(folder: Path, name: str) -> None:
    os.mkfifo(folder / "work/pipe")
    (folder / "work/folder").mkdir()
    with pytest.raises(ToolFailed):
        look(space(folder), name)


def test_swapping_a_folder_for_a_link_during_writes_never_escapes(folder: Path, tmp_path: Path) -> None:
    """Another process exchanges `work/d` between a folder and a link to the outside as fast as it can."""
    target = folder / "work/d"
    (folder / "work/real").mkdir()
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (folder / "work/tmp").symlink_to(tmp_path / "outside")
            (folder / "work/tmp").rename(target)
            target.unlink()
            (folder / "work/real").rename(target)
            target.rename(folder / "work/real")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(400):
            try:
                with space(folder).spot("d/pwned.txt", "write", "write") as spot:
                    replace_open_file(spot, b"x", digest_at(spot), "t")
            except (ToolError, OSError):
                continue
    finally:
        stop.set()
        thread.join()
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["o.txt"]


def test_a_file_changed_between_look_and_write_is_kept(folder: Path) -> None:
    with space(folder).spot("src/a.txt", "write", "write") as spot:
        seen = digest_at(spot)
        (folder / "work/src/a.txt").write_text("newer")
        assert not replace_open_file(spot, b"mine", seen, "t")
    assert (folder / "work/src/a.txt").read_text() == "newer"
    assert [path.name for path in (folder / "work/src").iterdir()] == ["a.txt"]


def test_a_written_file_keeps_its_permissions(folder: Path) -> None:
    (folder / "work/src/a.txt").chmod(0o750)
    assert put(space(folder), "src/a.txt")
    assert (folder / "work/src/a.txt").stat().st_mode & 0o777 == 0o750


def test_listing_follows_no_links_and_skips_what_is_closed(folder: Path) -> None:
    (folder / "work/out").symlink_to(folder / "other")
    (folder / "work/out.txt").symlink_to(folder / "other/secret.txt")
    assert [each.path for each in files_below(space(folder), ".", 10)] == ["work/src/a.txt"]
    assert [each.below for each in files_below(space(folder), "src", 10)] == ["a.txt"]
    with pytest.raises(ToolDenied):
        files_below(space(folder), "out", 10)
    with pytest.raises(ToolDenied):
        files_below(space(folder, "."), ".plan/p", 10)


def test_search_gives_place_and_line(folder: Path) -> None:
    (folder / "work/src/b.py").write_text("one\nTwo words\n")
    (folder / "work/src/c.bin").write_bytes(b"\xff\xfe two")
    assert search_hits(space(folder), ".", "**/*.py", "two", True) == ["src/b.py:2: Two words"]
    assert search_hits(space(folder), ".", "**", "two", False) == []


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("src/**", "src/a/b.txt", True),
        ("src/**", "src", True),
        ("src/**", "srcs/a", False),
        ("*.py", "a.py", True),
        ("*.py", "d/a.py", False),
        ("**/*.py", "d/e/a.py", True),
        ("**/*.py", "a.py", True),
        ("**", "any/thing", True),
        ("a?c", "abc", True),
        ("./src/", "src", True),
        ("a.b", "axb", False),
    ],
)
def test_globs_match_like_those_of_git(glob: str, path: str, expected: bool) -> None:
    assert path_matches([glob], path) is expected


def test_denials_cover_by_name_and_by_subject() -> None:
    assert find_denial(["shell"], "shell", ("ls",)) == "shell"
    assert find_denial(["write(.git/**)"], "write", (".git/hooks/x",))
    assert not find_denial(["write(.git/**)"], "read", (".git/hooks/x",))
    assert find_denial(["shell(git *)"], "shell", find_commands("make && git push"))
    assert not find_denial(["shell(git *)"], "shell", find_commands("legit push"))


def test_every_spelling_of_a_file_resolves_to_one_path_whether_it_exists_or_not(folder: Path) -> None:
    (folder / "work/link").symlink_to("src")
    (folder / "work/a-link.txt").symlink_to("src/a.txt")
    here = space(folder)
    for path in (
        "src/a.txt",
        "./src//a.txt",
        "src/../src/a.txt",
        "link/a.txt",
        "a-link.txt",
        str(folder / "work/src/a.txt"),
    ):
        assert here.leads_to(path) == "work/src/a.txt"
    assert here.leads_to("link/new.txt") == "work/src/new.txt"
    assert here.leads_to("link/deep/er/new.txt") == "work/src/deep/er/new.txt"
    assert here.leads_to(".") == here.leads_to("src/..") == "work"
    assert space(folder, "not/there").leads_to("a/b.txt") == "not/there/a/b.txt"
    assert not (folder / "not").exists(), "looking makes nothing"


@pytest.mark.parametrize(
    "path", ["../other/secret.txt", "out/o.txt", "new/../../x", "/etc/passwd", "not/there/../../../x"]
)
def test_link_out_of_the_workspace_resolves_to_no_path(folder: Path, path: str) -> None:
    (folder / "work/out").symlink_to(folder.parent / "outside")
    with pytest.raises(ToolError):
        space(folder).leads_to(path)
    with pytest.raises(ToolError):
        space(folder, "not/there").leads_to("../../other/secret.txt")
