"""What commands may have put where our git comes by: nothing of it is run, and the fork has all that it should."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from planloop.containers.sandbox import write_guard
from planloop.controllers.fork.git import ForkedRepository, Git, find_repository
from planloop.reconciler.effects.local_processes import LocalProcesses
from tests.controllers.agent.arena import ENV
from tests.controllers.fork.repository import Home
from tests.product import RandomIds

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git")]


def armed(home: Home, folder: str, mark: Path, *, is_bare: bool = False) -> None:
    """Has every way that a repository's configuration can run something leave `mark`."""
    path = home.path / folder
    for name in ("filter.x.clean", "filter.x.smudge", "core.fsmonitor", "diff.external", "merge.x.driver"):
        home.git("config", name, f"touch {mark}; cat", cwd=path)
    for name in ("post-index-change", "reference-transaction", "pre-commit"):
        hook = path / ("" if is_bare else ".git") / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
        hook.chmod(0o755)
    (path / ".gitattributes").write_text("* filter=x merge=x\n")


def within(home: Home, name: str) -> None:
    """A repository within that of `home`, with one commit, and known to it."""
    home.write(f"{name}/a.txt", "one\n")
    home.git("init", "-q", cwd=home.path / name)
    home.git("add", ".", cwd=home.path / name)
    home.git("commit", "-q", "-m", "inner", cwd=home.path / name)
    home.git("add", name)


async def looked(home: Home) -> ForkedRepository:
    git = Git(LocalProcesses(home.path / ".plan" / "run", str(home.path), 1), RandomIds(), ENV)
    state = home.path / ".plan" / "p"
    state.mkdir(parents=True, exist_ok=True)
    return await find_repository(git, home.path, state)


async def tree(home: Home) -> tuple[ForkedRepository, str]:
    """The repository, and the tree of a snapshot."""
    repository = await looked(home)
    commit = await repository.snapshot(home.path / ".plan" / "index", await repository.head(), "as it is")
    return repository, await repository.tree_of(commit)


async def test_nothing_of_a_nested_repository_is_run(tmp_path: Path) -> None:
    home, mark = Home(tmp_path / "home").begin(a="one\n"), tmp_path / "run"
    within(home, "sub")
    armed(home, "sub", mark)
    home.write("sub/a.txt", "two\n")
    home.write("a", "two\n")

    repository, made = await tree(home)

    assert not mark.exists() and not repository.is_private
    assert home.git("show", f"{made}:a") == "two\n"


@pytest.mark.parametrize(
    "way", ["as it was", "another commit", "gone", "a file", "no repository any more", "two of them"]
)
async def test_snapshot_of_nested_repositories_has_what_git_would_take(tmp_path: Path, way: str) -> None:
    home = Home(tmp_path).begin(a="one\n")
    within(home, "sub")
    home.git("commit", "-q", "-m", "both")
    sub = home.path / "sub"
    match way:
        case "another commit":
            home.git("commit", "-q", "--allow-empty", "-m", "more", cwd=sub)
        case "gone":
            shutil.rmtree(sub)
        case "a file":
            shutil.rmtree(sub)
            home.write("sub", "now a file\n")
        case "no repository any more":
            shutil.rmtree(sub / ".git")
        case "two of them":
            within(home, "deep/other")
    _, made = await tree(home)

    home.git("add", "-A")
    assert made == home.git("write-tree").strip()


def init(home: Home) -> None:
    home.git("init", "-q")
    armed(home, ".", home.path.parent / "run")


def init_bare(home: Home) -> None:
    home.git("init", "-q", "--bare", ".")
    home.git("config", "core.bare", "false")
    home.git("config", "core.worktree", str(home.path))
    armed(home, ".", home.path.parent / "run", is_bare=True)


def point(home: Home) -> None:
    home.git("init", "-q", "evil")
    armed(home, "evil", home.path.parent / "run")
    home.write(".git", "gitdir: evil/.git\n")
    home.write(".gitattributes", "* filter=x\n")


@pytest.mark.parametrize("make", [init, init_bare, point])
async def test_a_repository_that_came_when_commands_were_let_in_is_not_used(
    tmp_path: Path, make: Callable[[Home], None]
) -> None:
    home = Home(tmp_path / "home")
    home.write("a", "one\n")
    (home.path / ".plan").mkdir()
    write_guard.note_outside_access(str(home.path))
    make(home)

    repository, made = await tree(home)

    assert repository.is_private and not (tmp_path / "run").exists()
    listing = ["ls-tree", "-r", "--name-only", made]
    assert "a" in home.git(f"--git-dir={repository.folder}", *listing).splitlines()


async def test_existing_repository_is_used_with_its_whole_configuration(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").begin(a="one\n")
    (home.path / ".plan").mkdir()
    write_guard.note_outside_access(str(home.path))
    home.git("config", "filter.x.clean", "tr a-z A-Z")
    home.write(".gitattributes", "a filter=x\n")
    home.write("a", "two\n")

    repository, made = await tree(home)

    assert not repository.is_private and home.git("show", f"{made}:a") == "TWO\n"
