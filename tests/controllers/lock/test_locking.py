"""Tasks that name locks, on the whole machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.agent.arena import arena

pytestmark = pytest.mark.anyio

BUSY = "test ! -e busy && touch busy && sleep 0.1 && rm busy"


async def test_tasks_with_overlapping_locks_never_run_together(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(f"""
            tasks:
              one: {{locks: ["src/**", docs], run: "{BUSY}"}}
              two: {{locks: [docs, src/app.py], run: "{BUSY}"}}
              three: {{locks: ["src/**"], run: "{BUSY}"}}
              free: {{locks: [elsewhere], run: "true"}}
        """)
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done"
        assert {lock.state for lock in here.store.view.list("lock")} == {"free"}


async def test_lock_waits_while_an_agent_holds_it_and_names_the_holder(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("tasks: {holder: {locks: [a], agent: {script: [{when: {message: go}, done: x}]}}}")
        await here.until_state("agent/holder", "asleep")
        await here.patch({"op": "add", "path": "/tasks/waiter", "value": {"locks": ["a"], "run": "true"}})
        await here.until_state("task/waiter", "blocked")
        assert list(here.get("lock/a").status["holders"]) == ["task/holder"]
        assert list(here.get("lock/a").status["waiters"]) == ["task/waiter"]
        await here.tell("agent/holder", "go", "m")
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"


async def test_removing_the_holder_releases_its_lock(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("tasks: {holder: {locks: [a], run: sleep 60}}")
        await here.until_state("task/holder", "running")
        await here.patch({"op": "add", "path": "/tasks/waiter", "value": {"locks": ["a"], "run": "true"}})
        await here.until_state("task/waiter", "blocked")
        await here.patch({"op": "remove", "path": "/tasks/holder"})
        await here.until_state("task/waiter", "done")


async def test_a_task_that_still_needs_others_holds_no_lock(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            tasks:
              late: {needs: [early], locks: [a], run: "true"}
              early: {locks: [a], run: "true"}
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"


async def test_readers_share_and_a_writer_waits_for_all_of_them(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            tasks:
              one: {locks: [{path: docs, mode: read}], run: "until test -e two; do sleep 0.01; done; touch one"}
              two: {locks: [{path: docs/**, mode: read}], run: "touch two; until test -e one; do sleep 0.01; done"}
              writer: {locks: [docs/a.md], run: "test -e one && test -e two"}
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"


async def test_name_behind_a_link_is_the_lock_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "manual").mkdir()
    (tmp_path / "docs").symlink_to("manual")
    async with arena(tmp_path) as here:
        await here.apply(f"""
            tasks:
              one: {{locks: ["docs/**"], run: "{BUSY}"}}
              two: {{locks: [manual/a.md], run: "{BUSY}"}}
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        assert here.get("lock/docs/**").status["place"] == "manual/**"


async def test_a_ring_of_agents_is_broken_within_a_second_and_all_is_free_at_the_end(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            tasks:
              a:
                agent:
                  script:
                    - call: {lock: {paths: [x]}}
                    - when: {message: go}
                      call: {lock: {paths: [y]}}
                    - expect: {error: Deadlock}
                    - done: a
              b:
                priority: 1
                agent:
                  script:
                    - call: {lock: {paths: [y]}}
                    - when: {message: go}
                      call: {lock: {paths: [x]}}
                    - done: b
        """)
        await here.until(lambda: all(here.state(f"agent/{name}") == "asleep" for name in "ab"))
        for name in "ab":
            await here.tell(f"agent/{name}", "go", name)
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done"
        ends = {draft.data["owner"] for draft in await here.log() if draft.type == "lock.deadlock"}
        assert ends == {"agent/a"}
        assert here.store.view.list("lock") == []
