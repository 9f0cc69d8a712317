"""A fork from its making to its end: who works in it, who gets one while at work, and what is left of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.controllers.shared.leases.lock_paths import path_covers, paths_overlap
from planloop.schemas.objects.fork import lock_prefix
from tests.controllers.agent.arena import arena
from tests.controllers.fork.repository import Home
from tests.golden_text import said

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git")]


async def test_a_task_waits_for_its_needs_before_its_fork_is_made(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    plan = """
        tasks:
          first: {run: "echo first > made"}
          t: {fork: true, needs: [first], run: "cp made seen"}
        """
    async with arena(tmp_path) as owner:
        await owner.apply(plan)
        await owner.until_state("task/t", "done")

    assert home.read("seen") == "first\n"


async def test_child_tasks_work_in_the_fork_which_comes_back_once_they_are_done(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    plan = f"""
        tasks:
          t:
            fork: true
            cwd: part
            acceptance: [{{sh: "test -e one -a -e two"}}]
            tasks:
              one: {{run: "mkdir -p . && pwd > one; ls {tmp_path} > ../outside"}}
              two: {{run: "echo two > two", needs: [one]}}
        """
    home.write("part/keep", "k\n")
    async with arena(tmp_path) as owner:
        await owner.apply(plan)
        await owner.until_state("task/t", "done")
        await owner.settled()

    assert "/.plan/arena/forks/t-" in home.read("part/one")
    assert home.read("outside").split() == ["a", "part"]
    assert home.read("part/two") == "two\n"


async def test_nested_fork_comes_back_into_its_parent(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    plan = f"""
        tasks:
          t:
            fork: true
            tasks:
              outer: {{run: "echo outer >> a"}}
              inner:
                needs: [outer]
                fork: true
                run: "cp a seen; echo inner >> a; cat {tmp_path}/a > shared"
              last: {{run: "cp a last", needs: [inner]}}
        """
    async with arena(tmp_path) as owner:
        await owner.apply(plan)
        await owner.until_state("task/t", "done")
        await owner.until(lambda: not owner.get("fork/t").status.get("folder"))

    assert (home.read("a"), home.read("seen")) == ("a\nouter\ninner\n", "a\nouter\n")
    assert (home.read("last"), home.read("shared")) == ("a\nouter\ninner\n", "a\n")
    assert (home.branches(), home.trees()) == ([], 0)


async def test_branch_named_by_the_plan_is_kept_when_its_work_is_merged(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    plan = """
        tasks:
          t: {fork: {branch: try/it}, run: "git log -1 --format=%s > seen; git commit -qam mine; echo b >> a"}
        """
    async with arena(tmp_path) as owner:
        await owner.apply(plan)
        await owner.until_state("task/t", "done")
        await owner.until(lambda: not owner.get("fork/t").status.get("folder"))

    assert home.branches() == ["try/it"]
    assert home.git("show", "try/it:a") == "a\nb\n"
    assert home.trees() == 0


async def test_a_branch_that_is_there_already_is_not_taken(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    home.git("branch", "mine")
    before = home.git("rev-parse", "mine")
    async with arena(tmp_path) as owner:
        await owner.apply("tasks: {t: {fork: {branch: mine}, run: echo b >> a}}\n")
        await owner.until_state("task/t", "blocked")
        ready = owner.get("task/t").status["conditions"]["Ready"]

        assert ready["reason"] == "ForkFailed"
        said(ready["message"], "mine")
        assert home.git("rev-parse", "mine") == before

        home.git("branch", "-D", "mine")
        await owner.until_state("task/t", "done")


async def test_cancelled_task_leaves_its_work_on_the_branch_and_resumes_there(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    plan = "tasks: {t: {fork: true, run: 'echo half >> a; [ -e done ] || { touch done; sleep 60; }'}}\n"
    async with arena(tmp_path) as owner:
        await owner.apply(plan)
        await owner.until(lambda: any(tmp_path.glob(".plan/arena/forks/t-*/done")))
        await owner.patch({"op": "add", "path": "/tasks/t/cancel", "value": True})
        await owner.until_state("task/t", "cancelled")
        await owner.until(lambda: owner.state("fork/t") == "kept" and not owner.get("fork/t").status.get("folder"))

        assert home.read("a") == "a\n"
        assert (home.branches(), home.trees()) == (["plan/arena/t"], 0)
        assert home.git("show", "plan/arena/t:a") == "a\nhalf\n"

        await owner.patch({"op": "remove", "path": "/tasks/t/cancel"})
        await owner.until_state("task/t", "done")
        await owner.until(lambda: not owner.get("fork/t").status.get("folder"))

    assert home.read("a") == "a\nhalf\nhalf\n"
    assert (home.branches(), home.trees()) == ([], 0)


@pytest.mark.parametrize(("work", "left"), [("echo b >> a", ["plan/arena/t"]), ("true", [])])
async def test_a_task_that_is_removed_leaves_a_branch_only_with_work_in_it(
    tmp_path: Path, work: str, left: list[str]
) -> None:
    home = Home(tmp_path).begin(a="a\n")
    async with arena(tmp_path) as owner:
        await owner.apply(f"tasks: {{t: {{fork: true, run: '{work}; sleep 60'}}, u: {{run: 'true'}}}}\n")
        await owner.until_state("task/t", "running")
        await owner.until(
            lambda: work == "true" or any(f.read_text() != "a\n" for f in tmp_path.glob(".plan/*/*/t-*/a"))
        )
        await owner.patch({"op": "remove", "path": "/tasks/t"})
        await owner.until(lambda: owner.find("fork/t") is None and owner.find("task/t") is None)
        kept = [each.data for each in await owner.log() if each.type == "fork.kept"]

    assert kept == [{"branch": "plan/arena/t", "has_work": bool(left)}]
    assert (home.branches(), home.trees(), home.read("a")) == (left, 0, "a\n")


AT_WORK = """
        tasks:
          t:
            agent:
              tools: [read, write, shell]
              script:
                - call: {write: {path: mine, content: shared}}
                - {when: {message: go}, call: {read: {path: a}}}
                - call: {read: {path: mine}}
                - call: {write: {path: mine, content: forked}}
                - call: {shell: {command: "cat ROOT/mine > seen; pwd > where"}}
                - done: ok
        """


async def test_running_agent_carries_its_work_into_a_fork_and_continues_there(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    async with arena(tmp_path) as owner:
        await owner.apply(AT_WORK.replace("ROOT", str(tmp_path)))
        await owner.until_state("agent/t", "asleep")
        incarnation = owner.get("agent/t").status["incarnation"]

        await owner.patch({"op": "add", "path": "/tasks/t/fork", "value": True})
        await owner.until(lambda: owner.state("fork/t") == "ready")
        await owner.tell("agent/t", "go", "1")
        await owner.until_state("task/t", "done", "failed")
        await owner.settled_but_timers()

        assert owner.state("task/t") == "done"
        assert owner.get("agent/t").status["incarnation"] == incarnation, "it continues and does not restart"
        denied = [each for each in await owner.results() if each["state"] != "Succeeded"]
        assert denied == []

    assert (home.read("seen"), home.read("mine")) == ("shared", "forked")
    assert "/.plan/arena/forks/t-" in home.read("where")


async def test_running_call_ends_where_it_began_before_the_fork_is_made(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    wait = f"touch begun; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    plan = f"""
        tasks:
          t:
            agent:
              tools: [shell]
              script:
                - call: {{shell: {{command: "{wait}; pwd > one"}}}}
                - call: {{shell: {{command: "pwd > two; cat one > carried"}}}}
                - done: ok
        """
    async with arena(tmp_path) as owner:
        await owner.apply(plan)
        await owner.until((tmp_path / "begun").exists)
        await owner.patch({"op": "add", "path": "/tasks/t/fork", "value": True})
        await owner.until(lambda: owner.find("fork/t") is not None)
        home.write("go", "")
        await owner.until_state("task/t", "done", "failed")

    assert home.read("one").strip() == str(tmp_path)
    assert "/.plan/arena/forks/t-" in home.read("two")
    assert home.read("carried").strip() == str(tmp_path)


async def test_a_task_below_one_that_is_done_is_done_again_in_a_fork_and_brought_in(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    plan = """
        tasks:
          t:
            fork: true
            agent: {script: [{when: {children: done}, done: ok}]}
            tasks:
              below: {run: "echo one >> a"}
        """
    async with arena(tmp_path) as owner:
        await owner.apply(plan)
        await owner.until_state("task/t", "done")
        await owner.until(lambda: not owner.get("fork/t").status.get("folder"))
        await owner.apply(plan.replace("echo one >> a", "pwd > where; echo two >> a"))
        await owner.until(lambda: owner.get("task/t/below").status.get("incarnation") == 2)
        await owner.until(lambda: owner.state("task/t") == "done" and not owner.get("fork/t").status.get("folder"))

    assert home.read("a") == "a\none\ntwo\n"
    assert "/.plan/arena/forks/t-" in home.read("where")
    assert (home.branches(), home.trees()) == ([], 0)


async def test_done_task_is_reopened_in_a_fork_of_its_time(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    async with arena(tmp_path) as owner:
        await owner.apply("tasks: {t: {fork: true, run: 'echo b >> a'}}\n")
        await owner.until_state("task/t", "done")
        await owner.until(lambda: not owner.get("fork/t").status.get("folder"))
        await owner.patch({"op": "add", "path": "/tasks/t/again", "value": 1})
        await owner.until(lambda: owner.get("task/t").status.get("incarnation") == 2)
        await owner.until_state("task/t", "done")
        await owner.until(lambda: not owner.get("fork/t").status.get("folder"))

    assert home.read("a") == "a\nb\nb\n"
    assert (home.branches(), home.trees()) == ([], 0)


async def test_unreadable_repository_is_reported_with_gits_own_words(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all\n")
    async with arena(tmp_path) as owner:
        await owner.apply("tasks: {t: {fork: true, run: 'true'}}\n")
        await owner.until_state("task/t", "blocked", "done")
        ready = owner.get("task/t").status["conditions"]["Ready"]

    assert ready["reason"] == "ForkFailed"
    assert "/nowhere/at/all" in ready["message"]


async def test_moved_task_keeps_its_fork(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    work = "touch begun; until [ -e {root}/go ]; do sleep 0.05; done; echo b >> a".replace("{root}", str(tmp_path))
    async with arena(tmp_path) as owner:
        await owner.apply(f"tasks: {{t: {{fork: true, run: '{work}'}}}}\n")
        await owner.until(lambda: any(tmp_path.glob(".plan/arena/forks/t-*/begun")))
        before = owner.get("fork/t")
        await owner.apply(f"moved: {{t: u}}\ntasks: {{u: {{fork: true, run: '{work}'}}}}\n")
        await owner.until(lambda: owner.find("fork/u") is not None)
        home.write("go", "")
        await owner.until_state("task/u", "done")
        after = owner.get("fork/u")
        await owner.until(lambda: not owner.get("fork/u").status.get("folder"))

    assert (after.uid, owner.find("fork/t")) == (before.uid, None)
    assert home.read("a") == "a\nb\n"
    assert (home.branches(), home.trees()) == ([], 0)


async def test_deleted_working_tree_is_recreated_from_its_branch(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    work = (
        f"echo b >> a; git -c user.name=n -c user.email=e@x commit -qam b; cd {tmp_path}; rm -r .plan/arena/forks/t-*"
    )
    async with arena(tmp_path) as owner:
        await owner.apply(f"tasks: {{t: {{fork: true, run: '{work}'}}}}\n")
        await owner.until_state("task/t", "done", "failed")
        await owner.until(lambda: not owner.get("fork/t").status.get("folder"))

    assert home.read("a") == "a\nb\n"
    assert (home.branches(), home.trees()) == ([], 0)


DELEGATED = """
        tasks:
          t:
            agent:
              tools: [all]
              script:
                - task:
                    - id: child
                      goal: a part
                      agent:
                        tools: [shell]
                        script:
                          - call: {shell: {command: "pwd > before"}}
                          - {when: {message: go}, call: {shell: {command: "pwd > after; cat before > carried"}}}
                          - done: part
                - {when: {children: done}, call: {shell: {command: "pwd > parent; cp after seen"}}}
                - done: all
        """


async def test_child_agents_follow_into_a_fork_created_during_their_work(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    async with arena(tmp_path) as owner:
        await owner.apply(DELEGATED)
        await owner.until_state("agent/t/child", "asleep")
        await owner.patch({"op": "add", "path": "/tasks/t/fork", "value": True})
        await owner.until(lambda: owner.state("fork/t") == "ready")
        await owner.tell("agent/t/child", "go", "1")
        await owner.until_state("task/t", "done", "failed")
        await owner.settled_but_timers()

        assert owner.state("task/t") == "done"

    assert home.read("before").strip() == home.read("carried").strip() == str(tmp_path)
    assert home.read("after") == home.read("parent") == home.read("seen")
    assert "/.plan/arena/forks/t-" in home.read("after")


async def test_locks_in_a_fork_are_about_other_files_than_those_of_the_folder(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    plan = f"""
        tasks:
          t:
            fork: true
            locks: [a, "src/**"]
            run: "until [ -e {tmp_path}/u ]; do sleep 0.05; done; cp {tmp_path}/u seen"
          u: {{locks: ["**"], run: "until ls .plan/arena/forks/t-*/a; do sleep 0.05; done; echo u > u"}}
        """
    async with arena(tmp_path) as owner:
        await owner.apply(plan)
        await owner.until_state("task/t", "done")

    assert home.read("seen") == "u\n"


def test_no_glob_of_the_folder_reaches_into_a_fork() -> None:
    inside = f"{lock_prefix('fork/a/b')}/src/x.py"

    assert not any(
        paths_overlap(glob, inside) or path_covers(glob, inside) for glob in ("**", "*", ".", "src/**", "**/x.py")
    )
    assert paths_overlap(f"{lock_prefix('fork/a/b')}/**", inside) and path_covers(
        f"{lock_prefix('fork/a/b')}/**", inside
    )
    assert not paths_overlap(f"{lock_prefix('fork/a')}/**", inside), "a fork within a fork is another tree"
