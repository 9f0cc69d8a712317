"""`plan fork`: another plan that goes on from a revision, and leaves the original alone."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.e2e import command
from tests.e2e.folder import Folder
from tests.product import CommandExit as Exit

PLAN = """\
# What we want.
plan: demo
goal: lines in a file  # in order
tasks:
  first: {run: "echo first >> lines"}
  second: {needs: [first], run: "echo second >> lines"}
"""


def _rev_of(folder: Folder, type_: str, subject: str, plan: str = "demo") -> int:
    """The first revision of a type about an object."""
    found = [one for one in _log(folder, plan) if one["type"] == type_ and one["subject"] == subject]
    return int(found[0]["rev"])


def _until_started(folder: Folder) -> str:
    """What the first call is that an agent starts, once it has."""
    words = ("events", "-w", "-n", "0", "-o", "json", "--type", "call.started")
    with command.start(*words, cwd=folder.path, stdout=subprocess.PIPE) as watch:
        assert watch.stdout is not None
        line = next((line for line in watch.stdout if "sleep 30" in line), "")
        watch.kill()
    return line


def _log(folder: Folder, plan: str) -> list[dict[str, Any]]:
    said = folder.run("events", "--plan", plan, "-n", "0", "-o", "json")
    return [json.loads(line) for line in said.out.splitlines()]


@pytest.mark.process
def test_fork_continues_from_its_revision_and_the_original_is_unchanged(folder: Folder) -> None:
    folder.write("demo.plan.yaml", PLAN)
    assert folder.run("apply", "demo.plan.yaml").code == 0
    before = _log(folder, "demo")
    rev = _rev_of(folder, "call.settled", "task/first")
    said = folder.run("fork", "--plan", "demo", "--at", str(rev), "--as", "again")
    assert said.code == 0, said.err
    assert "files: shared with the original" in said.out
    assert (folder.path / "again.plan.yaml").read_text() == PLAN.replace("plan: demo", "plan: again")
    assert folder.run("apply", "again.plan.yaml").code == 0
    assert (folder.path / "lines").read_text() == "first\nsecond\nsecond\n", "what was done is not done again"
    assert _log(folder, "demo") == before
    first = _log(folder, "again")[0]
    assert (first["type"], first["data"]["origin"]["plan"], first["data"]["origin"]["rev"]) == (
        "plan.forked",
        "demo",
        rev,
    )
    assert f"from demo at rev {rev}" in folder.run("history", "--plan", "again").out
    assert folder.run("replay", "--plan", "again").code == 0


@pytest.mark.process
def test_no_id_of_the_original_is_used_again(folder: Folder) -> None:
    folder.write("demo.plan.yaml", PLAN)
    assert folder.run("apply", "demo.plan.yaml").code == 0
    assert folder.run("fork", "--as", "again").code == 0
    uids = [{one["uid"] for one in folder.json("get", "all", "--plan", name)} for name in ("demo", "again")]
    assert len(uids[0]) == len(uids[1]) > 3
    assert not uids[0] & uids[1]


@pytest.mark.process
@pytest.mark.parametrize("effect", ["once", "read"])
def test_command_running_at_the_revision_is_unknown_or_rerun_by_its_class(folder: Folder, effect: str) -> None:
    folder.write("demo.plan.yaml", f'plan: demo\ntasks:\n  one: {{run: "echo one >> lines", effect: {effect}}}\n')
    assert folder.run("apply", "demo.plan.yaml").code == 0
    rev = _rev_of(folder, "call.started", "task/one")
    told = folder.run("fork", "--at", str(rev), "--as", "again", "-o", "json")
    assert (json.loads(told.out)["again"], json.loads(told.out)["doubts"]) == ((1, 0) if effect == "read" else (0, 1))
    if effect == "read":
        assert folder.run("apply", "again.plan.yaml").code == 0
        assert (folder.path / "lines").read_text() == "one\none\n"
        return
    with folder.started("again.plan.yaml") as owner:
        owner.until("InDoubt|blocked")
        assert (folder.path / "lines").read_text() == "one\n"
        (call,) = folder.json("get", "calls", "--plan", "again")
        assert folder.run("approve", call["address"], "--happened", "--plan", "again").code == 0
        assert owner.ended() == 0
    assert (folder.path / "lines").read_text() == "one\n"


@pytest.mark.process
def test_a_copy_of_the_files_goes_to_another_folder(folder: Folder, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder.write("demo.plan.yaml", PLAN)
    (folder.path / "link").symlink_to("demo.plan.yaml")
    assert folder.run("apply", "demo.plan.yaml").code == 0
    rev = _rev_of(folder, "call.settled", "task/first")
    there = tmp_path_factory.mktemp("beside") / "there"
    said = folder.run("fork", "--at", str(rev), "--as", "again", "--files", str(there))
    assert said.code == 0, said.err
    assert (there / "link").is_symlink()
    assert [one.name for one in (there / ".plan").iterdir()] == ["again"]
    assert Folder(there).run("apply", "again.plan.yaml").code == 0
    assert (there / "lines").read_text() == "first\nsecond\nsecond\n"
    assert (folder.path / "lines").read_text() == "first\nsecond\n"
    assert not (folder.path / "again.plan.yaml").exists()


@pytest.mark.process
def test_impossible_fork_is_reported_with_its_fix_and_creates_nothing(folder: Folder) -> None:
    folder.write("demo.plan.yaml", PLAN)
    assert folder.run("fork").code == Exit.NOT_FOUND
    assert folder.run("apply", "demo.plan.yaml").code == 0
    for words, code, cure in (
        (["--at", "999"], Exit.NOT_FOUND, "has no revision 999"),
        (["--at", "0"], Exit.NOT_FOUND, "has no revision 0"),
        (["--at", "1"], Exit.NOT_FOUND, "no plan yet at revision"),
        (["--as", "../x"], Exit.USAGE, "letters, digits"),
        (["--as", "demo"], Exit.CONFLICT, "--as NAME"),
        (["--files", "sub"], Exit.USAGE, "outside it"),
    ):
        said = folder.run("fork", *words)
        assert (said.code, cure in said.err) == (code, True), (words, said)
    assert [one.name for one in (folder.path / ".plan").iterdir()] == ["demo"]


@pytest.mark.process
def test_a_running_plan_can_be_forked_with_an_agent_in_mid_turn(folder: Folder) -> None:
    folder.write(
        "demo.plan.yaml",
        """\
plan: demo
agent:
  tools: [shell, task]
  script:
    - task: {id: child, goal: g, run: "echo child >> lines"}
    - when: {children: done}
      call: {shell: {command: "test -f go || sleep 30; echo done >> lines"}}
    - done: it
""",
    )
    with folder.started("demo.plan.yaml") as owner:
        owner.until("done +task/child")
        assert "sleep 30" in _until_started(folder)
        assert folder.run("fork", "--as", "again", "--plan", "demo").code == 0
    folder.write("go", "")
    with folder.started("again.plan.yaml") as owner:
        owner.until("rev")
        assert folder.run("wait", "agent/.", "--for", "blocked", "--plan", "again").code == 0
        (call,) = folder.json("get", "calls", "--plan", "again")
        assert folder.run("approve", call["address"], "--happened", "--plan", "again").code == 0
        assert owner.ended() == 0
    assert (folder.path / "lines").read_text() == "child\n"
