"""What people and agents do to a fork's tree, or have in their folder, beyond what git is for: nothing is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.controllers.agent.arena import Arena, arena
from tests.controllers.fork.repository import Home
from tests.controllers.fork.test_bringing import fork_of, forked, ran
from tests.golden_text import said

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git")]

AS_USER = "git config user.email u@x; git config user.name U"


async def stuck(home: Home, plan: str) -> Arena:
    """The arena after a fork of `home` could not be brought in."""
    async with arena(home.path) as owner:
        await owner.apply(plan)
        await owner.until_state("task/t", "blocked")
        return owner


@pytest.mark.parametrize(
    "then", ["true", "git init -q", "echo gitdir: /nowhere > .git", f"git worktree prune; {AS_USER}"]
)
async def test_work_in_a_tree_that_lost_its_repository_comes_back(tmp_path: Path, then: str) -> None:
    home = Home(tmp_path).begin(a="one\n")
    own = home.own()

    await ran(home, forked(f"echo work > a; echo new > b; rm .git; {then}"))

    assert (home.read("a"), home.read("b")) == ("work\n", "new\n")
    assert home.own() == own
    assert (home.branches(), home.trees()) == ([], 0)


async def test_a_tree_that_was_removed_and_written_in_since_removes_nothing_of_the_folder(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="one\n", b="two\n")

    await ran(home, forked("rm -r .git .gitignore a b; echo late > c"))

    assert (home.read("a"), home.read("b")) == ("one\n", "two\n")
    assert [each.read_text() for each in tmp_path.glob(".plan/arena/forks/*.left1/c")] == ["late\n"]


async def test_work_written_before_a_tree_was_damaged_is_kept_on_cancel(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="one\n")
    async with arena(tmp_path) as owner:
        await owner.apply(forked("echo work > a; rm .git; exit 1", "retries: 0"))
        await owner.until_state("task/t", "failed")
        await owner.patch({"op": "add", "path": "/tasks/t/cancel", "value": True})
        await owner.until(lambda: not fork_of(owner).get("folder"))

    assert home.git("show", "plan/arena/t:a") == "work\n"


BEGIN = f"{AS_USER}; echo mine > a; git commit -qam m"
MERGE = f"{BEGIN}; echo more > b; git merge -q"
OPEN = [
    f"{MERGE} other || true",
    f"{BEGIN}; git rebase -q other; echo more > b",
    f"{BEGIN}; git cherry-pick other; echo more > b",
]


async def test_a_merge_that_was_begun_in_a_fork_is_work_too(tmp_path: Path) -> None:
    home = with_other_branch(Home(tmp_path).begin(a="one\n"))

    await ran(home, forked(f"{MERGE} -s ours --no-commit other"))

    assert (home.read("a"), home.read("b")) == ("mine\n", "more\n")


@pytest.mark.parametrize("begun", OPEN)
async def test_merge_begun_in_a_fork_and_left_in_conflict_must_be_resolved(tmp_path: Path, begun: str) -> None:
    home = with_other_branch(Home(tmp_path).begin(a="one\n"))
    async with arena(tmp_path) as owner:
        await owner.apply(forked(begun))
        await owner.until_state("task/t", "blocked")
        assert (fork_of(owner)["state"], fork_of(owner)["files"]) == ("conflict", ["a"])

        Home(tmp_path / fork_of(owner)["folder"]).write("a", "both\n")
        await owner.until_state("task/t", "done")

    assert (home.read("a"), home.read("b")) == ("both\n", "more\n")


async def test_unrelated_history_begun_in_a_fork_comes_back_with_others_changes(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="one\n", b="two\n")
    renewed = f"git checkout -q --orphan renewed; {AS_USER}; echo work > new; git add .; git commit -qm renewed"

    await ran(home, forked(f"{renewed}; echo theirs > {tmp_path}/other"))

    assert [home.read(name) for name in ("a", "b", "new", "other")] == ["one\n", "two\n", "work\n", "theirs\n"]


def with_other_branch(home: Home) -> Home:
    home.git("checkout", "-q", "-b", "other")
    home.write("a", "other\n")
    home.git("commit", "-qam", "other")
    home.git("checkout", "-q", "main")
    return home


COMMIT = "git -c user.name=n -c user.email=e@x commit -qm x"


@pytest.mark.parametrize("more", ["true", f"git -C sub add y; cd sub; {COMMIT}"])
async def test_repository_created_in_a_fork_stays_in_its_tree(tmp_path: Path, more: str) -> None:
    home = Home(tmp_path).begin(a="one\n")

    owner = await ran(home, forked(f"echo work > a; git init -q sub; echo x > sub/y; {more}"))

    assert home.read("a") == "work\n"
    assert fork_of(owner)["ignored"] == ["sub/"]
    assert (tmp_path / fork_of(owner)["folder"] / "sub/y").read_text() == "x\n"


async def test_files_written_inside_a_submodule_stay_in_the_tree(tmp_path: Path) -> None:
    library = Home(tmp_path / "library").begin(x="1\n")
    home = Home(tmp_path / "home").begin(a="one\n")
    home.git("submodule", "add", "-q", str(library.path), "sub")
    home.git("commit", "-qm", "sub")

    owner = await ran(home, forked("echo work > a; echo new > sub/new"))

    assert home.read("a") == "work\n"
    assert (home.path / fork_of(owner)["folder"] / "sub/new").read_text() == "new\n"


async def test_a_sparse_folder_is_forked_as_it_is_and_gets_files_outside_of_what_it_shows(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="one\n")
    for name in ("in/x", "outer/y"):
        home.write(name, "1\n")
    home.git("add", ".")
    home.git("commit", "-qm", "folders")
    home.git("sparse-checkout", "set", "in")
    home.write("outer/z", "here all the same\n")

    await ran(home, forked("echo work > a; mkdir -p outer; echo new > outer/new"))

    assert (home.read("a"), home.read("outer/new")) == ("work\n", "new\n")
    assert home.git("cat-file", "-p", "HEAD:outer/y") == "1\n"
    assert not (tmp_path / "outer/y").exists()
    assert home.read("outer/z") == "here all the same\n"


@pytest.mark.parametrize("taken", ["plan", "plan/arena", "plan/arena/t", "plan/arena/t/deeper"])
async def test_branches_of_an_operator_leave_room_for_that_of_a_fork(tmp_path: Path, taken: str) -> None:
    home = Home(tmp_path).begin(a="one\n")
    home.git("branch", taken)

    await ran(home, forked("echo work > a"))

    assert (home.read("a"), home.branches()) == ("work\n", [taken])


async def test_a_task_far_down_has_a_fork_too(tmp_path: Path) -> None:
    home, name = Home(tmp_path).begin(a="one\n"), "n" * 60
    plan = "fork: true, run: echo work > a"
    for _ in range(5):
        plan = f"tasks: {{{name}: {{{plan}}}}}"
    async with arena(tmp_path) as owner:
        await owner.apply(f"{plan}\n")
        await owner.until_state("task/.", "done", "failed")

    assert home.read("a") == "work\n"


@pytest.mark.parametrize("name", [b'"quoted', b"return\r", b"no text \xff", b"new\nline"])
async def test_files_of_odd_names_are_changed_and_made(tmp_path: Path, name: bytes) -> None:
    home, old, new = Home(tmp_path).begin(), os.fsdecode(name), os.fsdecode(name + b"2")
    home.write(old, "one\n")
    home.git("add", ".")
    home.git("commit", "-qm", "odd")

    await ran(home, forked('for f in *; do echo two >> "$f"; cp "$f" "$f"2; done'))

    assert (home.read(old), home.read(new)) == ("one\ntwo\n", "one\ntwo\n")


async def test_blocking_file_that_git_ignores_is_named_and_left(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="one\n", conf="c\n", __gitignore=".plan/\n*.log\n")
    home.git("update-index", "--skip-worktree", "conf")
    home.write("conf", "local\n")
    home.write("out.log", "mine\n")
    owner = await stuck(home, forked("echo more >> conf; echo theirs > out.log; git add -f out.log"))

    said(fork_of(owner)["fault"])
    assert (home.read("conf"), home.read("out.log")) == ("local\n", "mine\n")


async def test_warnings_of_git_are_taken_for_no_answer(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="one\n")
    for kind in ("excludesFile", "attributesFile"):
        (tmp_path / ".git" / kind).symlink_to(kind)
        home.git("config", f"core.{kind}", str(tmp_path / ".git" / kind))

    home.git("config", "diff.orderFile", str(tmp_path / "nothing"))

    owner = await ran(home, forked("echo work > a"))

    assert home.read("a") == "work\n"
    assert not fork_of(owner).get("ignored")
