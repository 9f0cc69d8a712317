"""Forks with the real `plan` command: many at once on one file, through kills of the owner at any moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.fork.repository import Home
from tests.e2e.folder import Folder

pytestmark = [pytest.mark.process, pytest.mark.needs("git")]

PARTS = 6


def plan() -> str:
    """Tasks that each change a part of one file and add a file, in forks of their own."""
    lines = ["plan: forks", "tasks:"]
    for part in range(PARTS):
        command = f"sed -i 's/^part {part}$/part {part} done/' all; echo {part} > new{part}; sleep 0.2"
        lines.append(f"  p{part}: {{fork: true, effect: idempotent, run: {command!r}}}")
    lines.append("  after: {needs: [" + ", ".join(f"p{part}" for part in range(PARTS)) + "], run: grep -c done all}")
    return "\n".join(lines) + "\n"


def begun(path: Path) -> tuple[Home, Folder]:
    text = "".join(f"part {part}\n" + "same\n" * 10 for part in range(PARTS))
    home, folder = Home(path).begin(all=text), Folder(path)
    folder.write("forks.plan.yaml", plan())
    return home, folder


def check(home: Home, folder: Folder) -> None:
    """Every part of every fork is in, once, and nothing is left of any."""
    assert set(folder.states().values()) == {"done"}
    text = home.read("all").splitlines()
    assert [line for line in text if line != "same"] == [f"part {part} done" for part in range(PARTS)]
    assert [home.read(f"new{part}") for part in range(PARTS)] == [f"{part}\n" for part in range(PARTS)]
    assert (home.branches(), home.trees()) == ([], 0)
    assert folder.json("get", "locks") == []


def test_many_forks_of_one_file_all_come_back(tmp_path: Path) -> None:
    home, folder = begun(tmp_path)

    said = folder.run("apply", "forks.plan.yaml")

    assert said.code == 0, said.text
    check(home, folder)
    assert "fork/p0" in folder.run("describe", "task/p0").out


@pytest.mark.parametrize("heard", [(3, 5, 4, 3), (9, 2, 6), (14, 4, 4), (20, 3, 2), (5, 11, 3), (6, 6, 6)])
def test_kills_lose_nothing_of_a_fork_and_do_nothing_twice(tmp_path: Path, heard: tuple[int, ...]) -> None:
    home, folder = begun(tmp_path)
    own = home.own()
    for lines in heard:
        with folder.started("--yes", "forks.plan.yaml") as owner:
            for _ in range(lines):
                owner.until(r".")

    said = folder.run("apply", "--yes", "forks.plan.yaml")

    assert said.code == 0, said.text
    check(home, folder)
    assert home.own() == own


AGENT = """\
plan: forks
tasks:
  t:
    fork: true
    agent:
      tools: [shell, write]
      script:
        - call: {write: {path: new, content: mine}}
        - call: {shell: {command: "echo mine > a; echo theirs > ROOT/a"}}
        - done: first
        - when: {rejected: true}
          call: {shell: {command: "echo both > a"}}
        - done: second
"""


def test_a_run_with_a_fork_and_a_conflict_decides_the_same_again(tmp_path: Path) -> None:
    home, folder = Home(tmp_path).begin(a="one\n"), Folder(tmp_path)
    folder.write("forks.plan.yaml", AGENT.replace("ROOT", str(tmp_path)))

    said = folder.run("apply", "forks.plan.yaml")

    assert said.code == 0, said.text
    assert (home.read("a"), home.read("new")) == ("both\n", "mine")
    told = folder.run("replay", "--tree")
    assert told.code == 0, told.text


def test_another_plan_from_the_same_log_leaves_the_first_ones_working_tree_alone(tmp_path: Path) -> None:
    home, folder = Home(tmp_path).begin(a="one\n"), Folder(tmp_path)
    folder.write("forks.plan.yaml", "plan: forks\ntasks: {t: {fork: true, run: 'pwd > a; [ -e ok ]'}}\n")
    assert folder.run("apply", "forks.plan.yaml").code != 0
    tree = folder.json("get", "fork/t")["status"]["folder"]

    assert folder.run("fork", "--as", "other").code == 0
    assert "folder" not in folder.json("get", "fork/t", "-p", "other")["status"]
    assert (tmp_path / tree / "a").read_text().strip() == str(tmp_path / tree)
    assert home.read("a") == "one\n"


def test_fork_of_a_failed_task_is_not_reported_as_in_use(tmp_path: Path) -> None:
    Home(tmp_path).begin(a="a\n")
    folder = Folder(tmp_path)
    folder.write("f.plan.yaml", "plan: f\ntasks: {t: {fork: true, run: 'exit 1'}}\n")
    assert folder.run("apply", "f.plan.yaml").code == 10
    assert [each["status"]["state"] for each in folder.json("get", "forks")] == ["ready"]
