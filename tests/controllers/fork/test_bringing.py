"""What was done in a fork comes back: each sort of change that git knows, and nothing of the person's own touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planloop.controllers.shared.leases.grants import break_lock
from tests.controllers.agent.arena import Arena, arena
from tests.controllers.fork.repository import Home
from tests.product import JsonObject, RecordDraft

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git")]


def forked(command: str, more: str = "") -> str:
    """A plan of one task that runs `command` in a fork."""
    return f"""
        tasks:
          t:
            fork: true
            run: |
              {command}
            {more}
        """


async def ran(home: Home, plan: str) -> Arena:
    """The arena after `plan` has come to rest in `home`."""
    async with arena(home.path) as owner:
        await owner.apply(plan)
        await owner.settled_but_timers()
        assert owner.state("task/t") == "done", (owner.get("task/t").status, fork_of(owner))
        return owner


def fork_of(owner: Arena) -> JsonObject:
    return owner.get("fork/t").status


async def test_changes_of_a_task_in_its_fork_come_back_and_the_fork_is_removed(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="one\n", b="two\n")
    home.write("b", "two, not committed\n")
    home.git("add", "b")
    home.write("b", "two, not even added\n")
    home.write("untracked", "mine\n")
    own = home.own()

    owner = await ran(home, forked("cat b untracked > seen; echo more >> a; mkdir d; echo new > d/n; rm untracked"))

    assert owner.state("task/t") == "done"
    assert home.read("seen") == "two, not even added\nmine\n"
    assert home.read("a") == "one\nmore\n"
    assert home.read("d/n") == "new\n"
    assert not (home.path / "untracked").exists()
    assert home.own() == own
    assert (home.branches(), home.trees()) == ([], 0)


def editing(*edits: tuple[str, str, str]) -> str:
    """A task of an agent in a fork of its own that reads each file and replaces one text in it."""
    steps: list[JsonObject] = []
    for path, old, new in edits:
        steps += [{"call": {"read": {"path": path}}}, {"call": {"edit": {"path": path, "old": old, "new": new}}}]
    return json.dumps({"fork": True, "agent": {"tools": ["read", "edit"], "script": [*steps, {"done": "x"}]}})


async def test_edits_in_two_forks_merge_with_unchanged_line_ends_and_encodings(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="one\n")
    files = {
        "crlf": b"one\r\ntwo\r\nthree\r\nfour\r\n",
        "latin": b"caf\xe9\n2\n3\n4\n",
        "wide": "é one".encode("utf-16"),
    }
    for name, content in files.items():
        (home.path / name).write_bytes(content)
    home.git("add", "-A")
    home.git("commit", "-qm", "x")
    first = editing(("crlf", "one\n", "uno\nuno\n"), ("latin", "café", "thé"), ("wide", "one", "uno"))
    second = editing(("crlf", "four\n", "quatre\n"), ("latin", "4", "ü"))

    async with arena(home.path) as owner:
        await owner.apply(f"tasks: {{a: {first}, b: {second}}}")
        await owner.until_state("task/.", "done", "failed")
        assert owner.state("task/.") == "done", owner.get("task/.").status
        await owner.settled()

    assert (home.path / "crlf").read_bytes() == b"uno\r\nuno\r\ntwo\r\nthree\r\nquatre\r\n"
    assert (home.path / "latin").read_bytes() == b"th\xe9\n2\n3\n\xfc\n"
    assert (home.path / "wide").read_bytes() == "é uno".encode("utf-16")


async def test_agent_is_told_where_the_other_version_of_a_file_without_markers_is(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="one\n")
    (home.path / "wide").write_bytes("one two".encode("utf-16"))
    home.git("add", "-A")
    home.git("commit", "-qm", "x")

    async with arena(home.path) as owner:
        first, second = editing(("wide", "one", "1")), editing(("wide", "two", "2"))
        await owner.apply(f"tasks: {{a: {first}, b: {second}}}")
        await owner.until_state("task/.", "done", "failed")
        ended = [owner.get(f"task/{name}") for name in "ab"]
        (stuck,) = [each for each in ended if each.state == "failed"]
        assert "git show MERGE_HEAD:./FILE" in stuck.status["why"]


async def test_binary_files_modes_links_renames_and_removals_come_back(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(run="#!/bin/sh\n", old="moved\n" * 20, gone="x\n", plain="p\n")
    home.write("bin", bytes(range(256)) * 8)
    home.write("deep/er/one", "1\n")
    (home.path / "plain").chmod(0o600)
    steps = [
        "chmod +x run",
        "git mv old new",
        "git rm -q gone",
        "printf '\\000\\001\\377' >> bin",
        "ln -s new link",
        "rm -r deep",
        "echo 'a b' > 'na me'",
        "printf 'ü' > 'ümlaut'",
        "echo q >> plain",
    ]

    owner = await ran(home, forked("; ".join(steps)))

    assert owner.state("task/t") == "done"
    assert (home.path / "run").stat().st_mode & 0o111
    assert home.read("new") == "moved\n" * 20
    assert not (home.path / "old").exists()
    assert not (home.path / "gone").exists()
    assert (home.path / "bin").read_bytes() == bytes(range(256)) * 8 + b"\x00\x01\xff"
    assert (home.path / "link").readlink() == Path("new")
    assert not (home.path / "deep").exists()
    assert home.read("na me") == "a b\n"
    assert home.read("ümlaut") == "ü"
    assert (home.read("plain"), (home.path / "plain").stat().st_mode & 0o777) == ("p\nq\n", 0o600)


async def test_a_file_becomes_a_folder_and_a_folder_a_file(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(f="file\n")
    home.write("d/one", "1\n")
    home.git("add", ".")

    owner = await ran(home, forked("rm f; mkdir f; echo in > f/in; rm -r d; echo d > d"))

    assert owner.state("task/t") == "done"
    assert (home.read("f/in"), home.read("d")) == ("in\n", "d\n")


@pytest.mark.parametrize("attributes", ["", "* text=auto\n", "*.txt text eol=crlf\n"])
@pytest.mark.process
async def test_line_ends_stay_as_the_file_has_them(tmp_path: Path, attributes: str) -> None:
    home = Home(tmp_path).begin()
    home.write(".gitattributes", attributes)
    home.write("dos.txt", "one\r\ntwo\r\n")
    home.write("other.txt", "left\r\nalone\r\n")
    home.git("add", ".")
    home.git("commit", "-qm", "dos")

    owner = await ran(home, forked("sed -i 's/two/2/' dos.txt"))

    assert owner.state("task/t") == "done"
    assert home.path.joinpath("dos.txt").read_bytes() == b"one\r\n2\r\n"
    assert home.path.joinpath("other.txt").read_bytes() == b"left\r\nalone\r\n"


async def test_ignored_files_stay_where_they_are_and_keep_the_working_tree(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    home.write(".gitignore", ".plan/\nbuilt/\n")
    home.write("built/here", "mine\n")

    owner = await ran(home, forked("ls > seen; mkdir -p built; echo theirs > built/there; echo b >> a"))

    assert owner.state("task/t") == "done"
    assert "built" not in home.read("seen")
    assert sorted(each.name for each in (home.path / "built").iterdir()) == ["here"]
    assert fork_of(owner)["ignored"] == ["built/"]
    assert (home.path / fork_of(owner)["folder"] / "built" / "there").exists()
    assert home.trees() == 1


async def test_a_submodule_is_an_empty_folder_in_a_fork_and_is_not_brought(tmp_path: Path) -> None:
    Home(tmp_path / "lib").begin(x="x\n")
    home = Home(tmp_path / "home").begin(a="a\n")
    home.git("submodule", "add", "-q", str(tmp_path / "lib"), "lib")
    home.git("commit", "-qm", "lib")

    owner = await ran(home, forked("ls lib | wc -l > seen; git rm -q -f lib; echo b >> a"))

    assert owner.state("task/t") == "done"
    assert home.read("seen").strip() == "0"
    assert home.read("lib/x") == "x\n"
    assert home.read("a") == "a\nb\n"
    assert fork_of(owner)["left_out"] == ["lib"]


@pytest.mark.process(keep=2)
@pytest.mark.parametrize(
    "content",
    ["[submodule", '[submodule "lib"]\n path=lib\n url=./x\n update = !true', "<<<<<<< a\n=======\n>>>>>>> b"],
)
async def test_fork_comes_back_despite_any_configuration_of_submodules(tmp_path: Path, content: str) -> None:
    Home(tmp_path / "lib").begin(x="x\n")
    home = Home(tmp_path / "home").begin(a="a\n", content=content)
    home.git("submodule", "add", "-q", str(tmp_path / "lib"), "lib")
    home.git("commit", "-qm", "lib")
    home.write("mine", "a change that the fork has to take in\n")

    await ran(home, forked("cp content .gitmodules; echo b >> a"))

    assert home.read("a") == "a\nb\n"
    assert home.read("lib/x") == "x\n"
    assert home.read("mine") == "a change that the fork has to take in\n"
    assert home.read(".gitmodules") == content
    assert (home.branches(), home.trees()) == ([], 0)


@pytest.mark.process(keep=1)
@pytest.mark.parametrize("name", [".gitmodules", "lib/.gitmodules"])
async def test_a_path_that_git_rejects_is_left_in_the_working_tree_and_the_rest_comes_back(
    tmp_path: Path, name: str
) -> None:
    home = Home(tmp_path / "home").begin(a="a\n")

    owner = await ran(home, forked(f"mkdir lib; ln -s /etc/passwd {name}; echo b >> a"))

    assert home.read("a") == "a\nb\n"
    assert not (home.path / name).is_symlink()
    assert fork_of(owner).get("state") == "in"


async def test_hooks_of_the_repository_do_not_run_for_a_fork(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    for name in ("pre-commit", "post-checkout", "post-commit", "post-merge", "commit-msg", "reference-transaction"):
        home.write(f".git/hooks/{name}", f"#!/bin/sh\necho {name} >> {tmp_path}/ran\nexit 1\n").chmod(0o755)

    owner = await ran(home, forked("echo b >> a"))

    assert owner.state("task/t") == "done"
    assert not (tmp_path / "ran").exists()


async def test_a_folder_in_no_repository_has_a_private_one_out_of_sight(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("a", "a\n")
    home.write(".gitignore", "secret\n")
    home.write("secret", "s\n")

    owner = await ran(home, forked("ls -A > seen; echo b >> a"))

    assert owner.state("task/t") == "done"
    assert home.read("a") == "a\nb\n"
    assert "secret" not in home.read("seen")
    assert not (tmp_path / ".git").exists()


async def test_a_plan_in_a_folder_of_a_repository_works_in_that_folder_of_its_fork(tmp_path: Path) -> None:
    root = Home(tmp_path).begin(top="top\n")
    home = Home(tmp_path / "part" / "one")
    home.write("a", "a\n")

    owner = await ran(home, forked("cat ../../top > seen; echo b >> a; echo up >> ../../top"))

    assert owner.state("task/t") == "done"
    assert home.read("seen") == "top\n"
    assert home.read("a") == "a\nb\n"
    assert root.read("top") == "top\nup\n"


async def test_a_repository_without_a_commit_can_be_forked(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.path.mkdir(exist_ok=True)
    home.git("init", "-q")
    home.write("a", "a\n")

    owner = await ran(home, forked("echo b >> a"))

    assert (owner.state("task/t"), home.read("a")) == ("done", "a\nb\n")


async def test_the_plan_file_is_not_brought(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(arena__plan__yaml="plan: arena\n")

    owner = await ran(home, forked("echo '# mine' >> arena.plan.yaml; echo b > b"))

    assert owner.state("task/t") == "done"
    assert home.read("b") == "b\n"
    assert home.read("arena.plan.yaml") == "plan: arena\n"
    assert fork_of(owner)["left_out"] == ["arena.plan.yaml"]


async def test_fork_that_loses_its_locks_while_preparing_files_writes_none_of_them(tmp_path: Path) -> None:
    # Git itself makes the files ready, by a filter that stops in the middle.
    home = Home(tmp_path).begin(a="a\n", __gitattributes="a filter=slow\n")
    slow = f"sh -c 'cd {tmp_path}; [ ! -e armed ] || {{ touch begun; until [ -e go ]; do sleep 0.02; done; }}; cat'"
    home.git("config", "filter.slow.smudge", slow)
    plan = f"""
        tasks:
          t: {{fork: true, run: "echo b >> a; touch {tmp_path}/armed"}}
          other:
            agent:
              tools: [lock]
              script:
                - {{when: {{message: take}}, call: {{lock: {{paths: [a]}}}}}}
                - expect: ok
                - {{when: {{message: end}}, done: x}}
        """
    async with arena(tmp_path) as owner:
        await owner.apply(plan)
        await owner.until((tmp_path / "begun").exists)
        assert list(owner.get("lock/a").status["holders"]) == ["task/t"]
        await owner.tell("agent/other", "take", "1")
        await owner.until(lambda: bool(owner.get("lock/a").status.get("waiters")))
        taken = break_lock(owner.store.view, "a", "human:cli", "mine now", owner.world.clock.now())
        await owner.store.append(RecordDraft("lock.fenced", "human:cli", "lock/a", taken.changes))
        await owner.until(lambda: list(owner.get("lock/a").status["holders"]) == ["agent/other"])
        home.write("go", "")
        await owner.until(lambda: bool(owner.get("fork/t").status.get("wants")) or owner.state("fork/t") == "in")
        assert home.read("a") == "a\n"
        await owner.tell("agent/other", "end", "2")
        await owner.until_state("task/t", "done", "failed")

    assert home.read("a") == "a\nb\n"
