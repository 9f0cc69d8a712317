"""Others change the folder during work in a fork: changes are merged, or the conflict is named and resolved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.agent.arena import Arena, arena
from tests.controllers.fork.repository import Home
from tests.golden_text import said

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git")]

LINES = "".join(f"line {number}\n" for number in range(20))


async def test_concurrent_changes_are_merged_and_not_overwritten(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a=LINES, b="b\n", c="c\n")
    own = home.own()
    plan = f"""
        tasks:
          t:
            fork: true
            run: >
              sed -i 's/line 2$/mine/' a; echo mine > n;
              cd {tmp_path}; sed -i 's/line 17$/theirs/' a; echo theirs >> b; rm c; echo new > d
        """
    async with arena(tmp_path) as owner:
        await owner.apply(plan)
        await owner.until_state("task/t", "done")
        await owner.settled()

    assert home.read("a") == LINES.replace("line 2\n", "mine\n").replace("line 17\n", "theirs\n")
    assert (home.read("b"), home.read("d"), home.read("n")) == ("b\ntheirs\n", "new\n", "mine\n")
    assert not (tmp_path / "c").exists()
    assert home.own() == own
    assert home.branches() == []


async def test_checks_run_again_on_what_both_made_before_it_goes_where_others_work(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n", b="b\n")
    plan = f"""
        tasks:
          t:
            fork: true
            agent:
              tools: [shell]
              script:
                - call: {{shell: {{command: "echo mine > a; echo theirs > {tmp_path}/b"}}}}
                - done: first
                - when: {{rejected: true}}
                  call: {{shell: {{command: "cat {tmp_path}/a > shared; echo fixed > b"}}}}
                - done: second
            acceptance: [{{sh: "! grep -q theirs b"}}]
        """
    async with arena(tmp_path) as owner:
        await owner.apply(plan)
        await owner.until_state("task/t", "done", "failed")
        types = [each.type for each in await owner.log()]

        assert owner.state("task/t") == "done"
        assert (types.count("fork.merged"), types.count("fork.brought"), types.count("check.ran")) == (1, 1, 3)
    assert (home.read("a"), home.read("b")) == ("mine\n", "fixed\n")
    assert home.read("shared") == "a\n", "the broken combination of two good changes was repaired in the fork"


async def test_command_whose_changes_do_not_merge_is_repaired_by_an_operator(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="one\n", b="b\n")
    plan = f"""
        tasks:
          t:
            fork: true
            run: "echo mine > a; echo mine >> b; echo theirs > {tmp_path}/a"
        """
    async with arena(tmp_path) as owner:
        await owner.apply(plan)
        await owner.until_state("task/t", "blocked")
        ready = owner.get("task/t").status["conditions"]["Ready"]
        status = owner.get("fork/t").status
        tree = tmp_path / status["folder"]

        assert (ready["reason"], status["files"]) == ("MergeConflict", ["a"])
        said(ready["message"])
        assert status["folder"] in ready["unblocks"][0]
        assert (home.read("a"), home.read("b")) == ("theirs\n", "b\n"), "nothing half merged is in the folder"
        assert "<<<<<<<" in (tree / "a").read_text()

        (tree / "a").write_text("mine and theirs\n")
        await owner.until_state("task/t", "done")
        await owner.until(lambda: not owner.get("fork/t").status.get("folder"))

    assert (home.read("a"), home.read("b")) == ("mine and theirs\n", "b\nmine\n")
    assert (home.branches(), home.trees()) == ([], 0)


AGENT = """
        tasks:
          t:
            fork: true
            agent:
              tools: [read, write, edit, shell]
              script:
                - call: {write: {path: new, content: by the agent}}
                - call: {read: {path: a}}
                - call: {edit: {path: a, old: one, new: mine}}
                - call: {shell: {command: "echo theirs > ROOT/a; echo also > ROOT/other"}}
                - done: first
                - when: {rejected: true}
                  call: {shell: {command: "cat a other > seen; git status --short > status"}}
                - when: {message: go}
                  call: {shell: {command: "true"}}
                - call: {shell: {command: "echo both > a"}}
                - done: second
            acceptance: [{require-file: new}]
        """


async def test_agent_is_told_about_a_merge_conflict_and_resolves_it(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="one\n")
    async with arena(tmp_path) as owner:
        await owner.apply(AGENT.replace("ROOT", str(tmp_path)))
        await owner.until_state("agent/t", "asleep")
        told = owner.get("task/t").status["conditions"]
        said(told["MergeConflict"]["message"], "plan/arena/t")
        said(told["Ready"]["message"])
        await owner.tell("agent/t", "go", "1")
        await owner.until_state("task/t", "done", "failed")
        assert "MergeConflict" not in owner.get("task/t").status["conditions"]
        await owner.settled()
        rejected = [each.data for each in await owner.log() if each.type == "fork.conflict"]

        assert owner.state("task/t") == "done"
        assert rejected == [{"files": ["a"], "branch": "plan/arena/t"}]

    seen = home.read("seen")
    assert "<<<<<<<" in seen and "mine" in seen and "theirs" in seen and seen.endswith("also\n")
    assert "UU a" in home.read("status")
    assert (home.read("a"), home.read("new"), home.read("other")) == ("both\n", "by the agent", "also\n")


async def test_agent_that_leaves_the_markers_is_told_again(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="one\n")
    again = """
                - when: {rejected: true}
                  done: second
                - when: {rejected: true}
                  call: {shell: {command: "echo both > a"}}
                - done: third
            """
    text = AGENT.replace("ROOT", str(tmp_path))
    text = text[: text.index("                - when: {rejected")] + again.strip("\n")
    async with arena(tmp_path) as owner:
        await owner.apply(text)
        await owner.until_state("task/t", "done", "failed")
        await owner.settled()

        assert owner.state("task/t") == "done"
        assert [each.type for each in await owner.log()].count("fork.conflict") == 2
    assert home.read("a") == "both\n"


BINARY = b"\x00\x01\x02" * 50


@pytest.mark.parametrize(
    ("mine", "theirs", "mend", "ends"),
    [
        ("printf 'm\\000' > bin", "printf 't\\000' > ROOT/bin", "git checkout --theirs bin", b"t\x00"),
        ("printf 'm\\000' > bin", "printf 't\\000' > ROOT/bin", "git checkout --ours bin", b"m\x00"),
        ("rm bin", "printf 't\\000' > ROOT/bin", "true", b"t\x00"),
        ("rm bin", "printf 't\\000' > ROOT/bin", "rm -f bin", None),
        ("printf 'm\\000' > bin", "rm ROOT/bin", "true", b"m\x00"),
    ],
)
async def test_conflict_without_markers_is_taken_as_the_agent_leaves_it(
    tmp_path: Path, mine: str, theirs: str, mend: str, ends: bytes | None
) -> None:
    home = Home(tmp_path)
    home.write("bin", BINARY)
    home.begin()
    steps = [mine, theirs]
    script = "".join(f"\n                - call: {{shell: {{command: {step!r}}}}}" for step in steps)
    plan = f"""
        tasks:
          t:
            fork: true
            agent:
              tools: [shell]
              script:{script}
                - done: first
                - when: {{rejected: true}}
                  call: {{shell: {{command: {mend!r}}}}}
                - done: second
        """.replace("ROOT", str(tmp_path))
    async with arena(tmp_path) as owner:
        await owner.apply(plan)
        await owner.until_state("task/t", "done", "failed")
        await owner.settled()

        assert owner.state("task/t") == "done"
        assert [each.type for each in await owner.log()].count("fork.conflict") == 1
    found = tmp_path / "bin"
    assert (found.read_bytes() if found.exists() else None) == ends


async def test_operator_resolves_a_conflict_without_markers_with_git_add(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("bin", BINARY)
    home.begin()
    plan = f"""
        tasks:
          t:
            fork: true
            run: "printf 'm\\\\000' > bin; printf 't\\\\000' > {tmp_path}/bin"
        """
    async with arena(tmp_path) as owner:
        await owner.apply(plan)
        await owner.until_state("task/t", "blocked")
        tree = tmp_path / owner.get("fork/t").status["folder"]
        home.git("checkout", "-q", "--ours", "bin", cwd=tree)
        home.git("add", "bin", cwd=tree)
        await owner.until_state("task/t", "done")

    assert (tmp_path / "bin").read_bytes() == b"m\x00"


async def test_half_resolved_cancelled_merge_is_kept_aside_and_never_taken_for_work(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="one\n", b="b\n")
    both = f"echo mine > a; echo mine > b; touch done; echo theirs | tee {tmp_path}/a > {tmp_path}/b"
    plan = f"""
        tasks:
          t:
            fork: true
            run: "[ -e done ] || {{ {both}; }}"
        """
    async with arena(tmp_path) as owner:
        await owner.apply(plan)
        await owner.until_state("task/t", "blocked")
        tree = tmp_path / owner.get("fork/t").status["folder"]
        (tree / "a").write_text("half fixed\n")
        await owner.patch({"op": "add", "path": "/tasks/t/cancel", "value": True})
        await owner.until(lambda: owner.state("fork/t") == "kept" and not owner.get("fork/t").status.get("folder"))

        assert home.branches() == ["plan/arena/t", "plan/arena/t-unmended"]
        assert home.git("show", "plan/arena/t:b") == "mine\n"
        assert home.git("show", "plan/arena/t-unmended:a") == "half fixed\n"

        await owner.patch({"op": "remove", "path": "/tasks/t/cancel"})
        await owner.until_state("task/t", "blocked")
        tree = tmp_path / owner.get("fork/t").status["folder"]
        assert owner.get("fork/t").status["files"] == ["a", "b"]
        for name in ("a", "b"):
            (tree / name).write_text("both\n")
        await owner.until_state("task/t", "done")

    assert (home.read("a"), home.read("b")) == ("both\n", "both\n")


async def test_files_locked_by_others_are_written_after_the_release(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="one\n")
    plan = """
        tasks:
          holder:
            agent:
              tools: [lock, release, read, shell]
              script:
                - call: {lock: {paths: ["*"]}}
                - when: {message: go}
                  call: {release: {}}
                - done: ok
          t:
            fork: true
            run: "while [ ! -e {root}/held ]; do sleep 0.05; done; echo mine > a"
        """.replace("{root}", str(tmp_path))
    async with arena(tmp_path) as owner:
        await owner.apply(plan)
        await owner.until(lambda: bool(_holders(owner, "lock/*")))
        home.write("held", "")
        await owner.until(lambda: bool(owner.get("fork/t").status.get("wants")))
        await owner.settled_but_timers()

        assert home.read("a") == "one\n"
        assert owner.state("task/t") == "checking"

        await owner.tell("agent/holder", "go", "1")
        await owner.until_state("task/t", "done")
        await owner.settled()
        left = [lock.address for lock in owner.store.view.list("lock")]

    assert (home.read("a"), left) == ("mine\n", [])


async def test_unresolved_merge_does_not_lock_the_files(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="one\n")
    plan = """
        tasks:
          holder:
            agent:
              tools: [lock, release, read, write]
              script:
                - call: {lock: {paths: [a]}}
                - call: {read: {path: a}}
                - when: {message: go}
                  call: {write: {path: a, content: theirs}}
                - call: {release: {}}
                - done: ok
          t:
            fork: true
            run: "while [ ! -e {root}/held ]; do sleep 0.05; done; echo mine > a"
        """.replace("{root}", str(tmp_path))
    async with arena(tmp_path) as owner:
        await owner.apply(plan)
        await owner.until(lambda: bool(_holders(owner, "lock/a")))
        home.write("held", "")
        await owner.until(lambda: bool(owner.get("fork/t").status.get("wants")))
        await owner.tell("agent/holder", "go", "1")
        await owner.until_state("task/t", "blocked")

        assert owner.get("fork/t").status["state"] == "conflict"
        assert _holders(owner, "lock/a") == []
        tree = tmp_path / owner.get("fork/t").status["folder"]
        (tree / "a").write_text("both\n")
        await owner.until_state("task/t", "done")
        await owner.settled()
        left = [lock.address for lock in owner.store.view.list("lock")]

    assert (home.read("a"), left) == ("both\n", [])


def _holders(owner: Arena, lock: str) -> list[str]:
    found = owner.find(lock)
    return [] if found is None else list(found.status.get("holders", ()))
