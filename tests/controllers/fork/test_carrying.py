"""Writing into a folder that others write in as well: nothing newer is lost, and nothing is done by halves."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from planloop.controllers.fork.git import ForkedRepository, Git, GitFailed, find_repository
from planloop.controllers.fork.merge_back import ChangeCopier
from planloop.controllers.fork.worktree import FileChange, Worktree
from planloop.reconciler.effects.local_processes import LocalProcesses
from tests import needs
from tests.controllers.agent.arena import ENV
from tests.controllers.fork.repository import Home
from tests.golden_text import said
from tests.product import RandomIds

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git")]


@asynccontextmanager
async def forked(
    home: Home, change: dict[str, str | None]
) -> AsyncIterator[tuple[ChangeCopier, str, tuple[FileChange, ...]]]:
    """A carrier into `home`, the commit of a fork in which `change` was made, and what differs."""
    state = home.path / ".plan" / "p" / "forks"
    git = Git(LocalProcesses(home.path / ".plan" / "run", str(home.path), 1), RandomIds(), ENV)
    state.mkdir(parents=True)
    repository = await find_repository(git, home.path, state)
    base = await repository.snapshot(state / "i", await repository.head(), "as it is")
    tree = Worktree(repository, state / "t", "plan/p/t")
    await tree.make(base)
    for name, content in change.items():
        if content is None:
            (tree.folder / name).unlink()
        else:
            Home(tree.folder).write(name, content)
    head = await tree.commit("mine")
    yield ChangeCopier(repository, state / "out"), head, await tree.differences(base, head)


async def test_changed_file_is_left_and_named_and_so_are_all_others(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n", b="b\n")
    async with forked(home, {"a": "mine\n", "b": "mine\n"}) as (carrier, head, differences):
        home.write("a", "theirs\n")

        assert await carrier.carry(head, differences) == ("a",)
        assert (home.read("a"), home.read("b")) == ("theirs\n", "b\n")


async def test_carrying_files_that_are_already_written_succeeds(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n", b="b\n", c="c\n")
    async with forked(home, {"a": "mine\n", "b": "mine\n", "c": None}) as (carrier, head, differences):
        home.write("a", "mine\n")
        (tmp_path / "c").unlink()

        assert await carrier.carry(head, differences) == ()
        assert await carrier.carry(head, differences) == ()
        assert (home.read("a"), home.read("b"), (tmp_path / "c").exists()) == ("mine\n", "mine\n", False)


async def test_a_file_that_others_made_where_a_new_one_is_to_be_is_not_written_over(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    async with forked(home, {"new": "mine\n", "d/n": "mine\n"}) as (carrier, head, differences):
        home.write("new", "theirs\n")

        assert await carrier.carry(head, differences) == ("new",)
        assert home.read("new") == "theirs\n"


async def test_nothing_is_written_through_a_link_that_replaced_a_folder(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").begin(a="a\n")
    home.write("d/f", "f\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "f").write_text("f\n")
    async with forked(home, {"d/f": "mine\n"}) as (carrier, head, differences):
        (home.path / "d" / "f").unlink()
        (home.path / "d").rmdir()
        (home.path / "d").symlink_to(tmp_path / "elsewhere")

        assert await carrier.carry(head, differences) == ("d/f",)
        assert (tmp_path / "elsewhere" / "f").read_text() == "f\n"


async def test_folder_that_blocks_a_file_is_left(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    async with forked(home, {"new": "mine\n"}) as (carrier, head, differences):
        home.write("new/theirs", "theirs\n")

        assert await carrier.carry(head, differences) == ("new",)
        assert home.read("new/theirs") == "theirs\n"


async def test_modes_do_not_count_where_they_are_not_kept(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    home.git("config", "core.fileMode", "false")
    (tmp_path / "a").chmod(0o755)
    async with forked(home, {"a": "mine\n"}) as (carrier, head, differences):
        assert await carrier.carry(head, differences) == ()
        assert home.read("a") == "mine\n"


async def test_odd_names_are_written(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    names = {'q"uote': "1", "back\\slash": "2", "tab\there": "3", "-dash": "4", ":colon": "5", "new\nline": "6"}
    for name in names:
        home.write(name, "old")
    async with forked(home, {name: text for name, text in names.items()}) as (carrier, head, differences):
        assert await carrier.carry(head, differences) == ()
        assert {name: home.read(name) for name in names} == names


async def test_the_private_repository_is_found_again(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("a", "a\n")
    git = Git(LocalProcesses(tmp_path / ".plan" / "run", str(tmp_path), 1), RandomIds(), ENV)
    first: ForkedRepository = await find_repository(git, tmp_path, tmp_path / ".plan")
    one = await first.snapshot(tmp_path / ".plan" / "i", "", "one")
    again = await find_repository(git, tmp_path, tmp_path / ".plan")

    assert again == first
    assert await again.snapshot(tmp_path / ".plan" / "i", one, "two") == one


async def test_stage_on_another_disk_is_supported(tmp_path: Path) -> None:
    other = needs.other_disk(tmp_path)
    home = Home(tmp_path).begin(a="a\n", b="b\n")
    (tmp_path / "a").chmod(0o640)
    with TemporaryDirectory(dir=other) as folder:
        async with forked(home, {"a": "mine\n", "b": None, "new/c": "c\n"}) as (carrier, head, differences):
            (carrier.stage.parent / "t" / "l").symlink_to("a")
            tree = Worktree(carrier.repository, carrier.stage.parent / "t", "plan/p/t")
            linked = await tree.commit("a link")
            more = await tree.differences(head, linked)
            elsewhere = ChangeCopier(carrier.repository, Path(folder) / "out")

            assert await elsewhere.carry(linked, (*differences, *more)) == ()
    assert (home.read("a"), home.read("new/c"), (tmp_path / "l").readlink()) == ("mine\n", "c\n", Path("a"))
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
    assert sorted(one.name for one in tmp_path.iterdir()) == [".git", ".gitignore", ".plan", "a", "l", "new"]


@pytest.mark.parametrize("left", ["nothing", "files"])
async def test_a_removal_of_a_tree_that_was_cut_off_is_brought_to_its_end(tmp_path: Path, left: str) -> None:
    home = Home(tmp_path).begin(a="a\n", b="b\n")
    async with forked(home, {}) as (carrier, _, _):
        tree = Worktree(carrier.repository, carrier.stage.parent / "t", "plan/p/t")
        assert home.trees() == 1
        if left == "nothing":
            shutil.rmtree(tree.folder)  # As git does first of all.
        else:
            (tree.folder / ".git").unlink()

        await tree.remove()

        assert not tree.folder.exists()
        assert home.trees() == 0


async def test_tree_that_git_still_knows_is_not_reported_as_removed(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n", b="b\n")
    async with forked(home, {}) as (carrier, _, _):
        tree = Worktree(carrier.repository, carrier.stage.parent / "t", "plan/p/t")
        shutil.rmtree(tree.folder)
        tree.folder.write_text("no folder, so that git takes nothing here for its own")

        with pytest.raises(GitFailed) as caught:
            await tree.remove()
        said(str(caught.value))
        assert home.trees() == 1

        home.git("worktree", "prune", "--expire", "now")
        await tree.remove()  # Git does not know it any more.
        assert home.trees() == 0
