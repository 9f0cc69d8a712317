"""Locks in a fork as those who work there name them: by the paths of their own tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.controllers.agent.conflicts import resolution
from planloop.controllers.agent.conflicts.resolution import InvalidResolution, ResolutionRequest
from planloop.controllers.shared.leases.lock_paths import path_in_tree
from planloop.schemas.objects.fork import lock_prefix
from tests import golden_text
from tests.controllers.agent.arena import Arena, arena
from tests.controllers.fork.repository import Home
from tests.product import HUMAN_CLI, Resource

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git")]

PLAN = """
tasks:
  t:
    fork: true
    tasks:
      first:
        agent:
          tools: [lock, release, shell]
          script:
            - call: {lock: {paths: [a.txt], reason: it moves}}
            - expect: {contains: "you hold `a.txt`"}
            - {when: {message: go on}, call: {release: {paths: [b.txt]}}}
            - expect: {error: NotHeld, contains: "you have no lock on `b.txt`"}
            - call: {release: {paths: [a.txt]}}
            - expect: {contains: "released: `a.txt`"}
            - done: x
      second:
        agent:
          tools: [lock, contest]
          script:
            - when: {message: go}
              call: {lock: {paths: [a.txt], wait_s: 0}}
            - expect: {error: Locked, contains: "lock a.txt is held by agent/t/first (write)"}
            - call: {contest: {paths: [a.txt], intent: the end of it}}
            - expect: ok
            - {when: {message: go on}, done: x}
"""


async def test_agent_in_a_fork_sees_locks_under_names_that_it_can_use(tmp_path: Path) -> None:
    Home(tmp_path).begin(a="a\n")
    async with arena(tmp_path) as here:
        await here.apply(PLAN)
        await here.until(lambda: any(one.status.get("holders") for one in here.store.view.list("lock")))
        await here.tell("agent/t/second", "go", "1")
        await here.until(lambda: bool((one := here.find("conflict/1")) and one.status.get("before")))
        said = str(here.get("conflict/1").status["text"])
        golden_text.said_in(said, "t/second", "a.txt", "t/first")
        await here.tell("agent/t/first", "go on", "2")
        await here.until(lambda: here.state("conflict/1") == "over")
        await here.tell("agent/t/second", "go on", "3")
        await here.until_state("task/t", "done", "failed")
        assert here.state("task/t") == "done"


def test_path_of_a_fork_is_shown_without_the_place_of_its_locks() -> None:
    assert path_in_tree(f"{lock_prefix('fork/a/b')}/src/**") == ("src/**", "fork/a/b")
    assert path_in_tree("src/.plan/forks/x.py") == ("src/.plan/forks/x.py", "")


async def test_command_in_a_fork_locks_its_files_to_its_end(tmp_path: Path) -> None:
    home = Home(tmp_path).begin(a="a\n")
    plan = """
        tasks:
          t: {locks: [a], run: "touch begun; until [ -e go ]; do sleep 0.05; done"}
          other:
            agent:
              tools: [lock]
              script:
                - {when: {message: try}, call: {lock: {paths: [a], wait_s: 0}}}
                - expect: {error: Locked, contains: held by task/t}
                - {when: {message: again}, call: {lock: {paths: [a], wait_s: 0}}}
                - expect: ok
                - done: x
        """
    async with arena(tmp_path) as here:
        await here.apply(plan)
        await here.until((tmp_path / "begun").exists)
        await here.patch({"op": "add", "path": "/tasks/t/fork", "value": True})
        await here.tell("agent/other", "try", "1")
        await here.until(lambda: here.get("agent/other").status.get("state") == "asleep")
        home.write("go", "")
        await here.until_state("task/t", "done", "failed")
        await here.tell("agent/other", "again", "2")
        await here.until_state("task/other", "done", "failed")
        assert here.state("task/other") == "done"


async def test_no_branch_is_ruled_for_a_party_that_has_one_with_these_files(tmp_path: Path) -> None:
    Home(tmp_path).begin(a="a\n")
    plan = """
        tasks:
          t:
            fork: true
            agent:
              tools: [lock, contest]
              script:
                - when: {message: go}
                  call: {contest: {paths: [a], intent: the end of it}}
                - {when: {message: never}, done: x}
            tasks:
              below: {agent: {tools: [lock], script: [{call: {lock: {paths: [a]}}}, {when: {message: never}, done: x}]}}
        """
    async with arena(tmp_path) as here:
        await here.apply(plan)
        await here.until(lambda: any(one.status.get("holders") for one in here.store.view.list("lock")))
        await here.tell("agent/t", "go", "1")
        await here.until(lambda: bool((one := here.find("conflict/1")) and one.status.get("before")))
        view, document = here.store.view, here.get("plan/arena").spec
        with pytest.raises(InvalidResolution, match="already") as refused:
            resolution.plan_resolution(view, document, ResolutionRequest("conflict/1", "fork"), HUMAN_CLI, 0.0)
        assert refused.value.reason == "Forked"
        below = resolution.plan_resolution(
            view, document, ResolutionRequest("conflict/1", "fork", "below"), HUMAN_CLI, 0.0
        )
        assert [op.path for op in below.ops] == [("tasks", "t", "tasks", "below", "fork")]


async def test_renamed_task_takes_the_locks_of_its_fork_and_their_waiters_along(tmp_path: Path) -> None:
    Home(tmp_path).begin(a__txt="a\n", d__txt="d\n")
    plan = """
        moved: {}
        tasks:
          t:
            fork: true
            tasks:
              declares: {locks: [d.txt], run: "until [ -e go ]; do sleep 0.05; done"}
              first:
                agent:
                  tools: [lock, release]
                  script:
                    - call: {lock: {paths: [a.txt], reason: it moves}}
                    - {when: {message: go on}, call: {release: {paths: [a.txt]}}}
                    - expect: {contains: "released: `a.txt`"}
                    - done: x
              second:
                agent:
                  tools: [lock, contest]
                  script:
                    - {when: {message: go}, call: {lock: {paths: [a.txt], wait_s: 0}}}
                    - expect: {error: Locked, contains: held by agent}
                    - call: {contest: {paths: [a.txt], intent: the end of it}}
                    - call: {lock: {paths: [a.txt]}}
                    - expect: ok
                    - done: x
        """
    async with arena(tmp_path) as here:
        await here.apply(plan)
        old, new = (f"lock/{lock_prefix(f'fork/{name}')}" for name in "tu")
        await here.until(lambda: len(held_in(here, old)) == 2)
        await here.tell("agent/t/second", "go", "1")
        await here.until(lambda: bool(here.get(f"{old}/a.txt").status.get("waiters")))
        before = {one.uid for one in held_in(here, old)}
        await here.apply(plan.replace("moved: {}", "moved: {t: u}").replace("          t:\n", "          u:\n"))
        assert held_in(here, old) == []
        assert {one.uid for one in held_in(here, new)} == before
        assert here.get("conflict/1").status["paths"] == [f"{lock_prefix('fork/u')}/a.txt"]
        await here.tell("agent/u/first", "go on", "2")
        await here.until_state("task/u/second", "done", "failed")
        assert [here.state(f"task/u/{name}") for name in ("first", "second")] == ["done", "done"]
        for tree in tmp_path.glob(".plan/arena/forks/t-*/"):
            (tree / "go").touch()
        await here.until_state("task/u", "done", "failed")
        assert held_in(here, "lock") == []


def held_in(here: Arena, place: str) -> list[Resource]:
    """The held locks below `place`."""
    locks = here.store.view.list("lock")
    return [one for one in locks if one.address.startswith(f"{place}/") and one.status.get("holders")]
