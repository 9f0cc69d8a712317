"""Locks in a fork as those who work there name them: by the paths of their own tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from controllers.leases.places import inner
from schemas.fork import lock_place
from tests.controllers.agent.arena import arena
from tests.controllers.fork.repository import Home

pytestmark = pytest.mark.anyio

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
            - expect: {error: NotHeld, contains: "you do not hold `b.txt`"}
            - call: {release: {paths: [a.txt]}}
            - expect: {contains: "given back: `a.txt`"}
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


async def test_who_works_in_a_fork_reads_of_locks_what_it_may_say_itself(tmp_path: Path) -> None:
    Home(tmp_path).begin(a="a\n")
    async with arena(tmp_path) as here:
        await here.apply(PLAN)
        await here.until(lambda: any(one.status.get("holders") for one in here.store.view.list("lock")))
        await here.tell("agent/t/second", "go", "1")
        await here.until(lambda: bool((one := here.find("conflict/1")) and one.status.get("before")))
        said = str(here.get("conflict/1").status["text"])
        assert "`t/second` wants `a.txt` (in fork/t), which `t/first` holds" in said
        await here.tell("agent/t/first", "go on", "2")
        await here.until(lambda: here.state("conflict/1") == "over")
        await here.tell("agent/t/second", "go on", "3")
        await here.until_state("task/t", "done", "failed")
        assert here.state("task/t") == "done"


def test_a_path_of_a_fork_is_told_without_the_place_of_its_locks() -> None:
    assert inner(f"{lock_place('fork/a/b')}/src/**") == ("src/**", "fork/a/b")
    assert inner("src/.plan/forks/x.py") == ("src/.plan/forks/x.py", "")
