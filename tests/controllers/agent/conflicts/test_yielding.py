"""What a ruling takes from the one that gives way: what it holds, and what it still waits for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.agent.arena import arena
from tests.controllers.agent.conflicts.teams import begin, brought, over, team
from tests.controllers.agent.conflicts.test_rulings import ASKS, NOBODY, STAYS, rule, silent
from tests.product import HUMAN_CLI, PatchAccepted

pytestmark = pytest.mark.anyio


async def test_pending_lock_of_a_party_is_dropped_when_a_ruling_takes_the_file(tmp_path: Path) -> None:
    front = f"""
        - when: {{message: more}}
          call: {{lock: {{paths: [src/**]}}}}
        {STAYS}
    """
    third = "agent: {script: [{call: {lock: {paths: [src/c.py]}}}, {when: {message: go}, done: x}]}"
    async with arena(tmp_path) as here:
        await begin(here, silent(team(NOBODY, front=front, back=ASKS)) + f"  third:\n    {third}\n")
        await brought(here)
        await here.until(lambda: here.state("lock/src/c.py") == "held")
        await here.tell("agent/front", "more", "m1")
        await here.until_state("agent/front", "blocked")
        assert isinstance(await rule(here, HUMAN_CLI, "release"), PatchAccepted)
        await here.tell("agent/third", "go", "m2")
        await over(here)
        await here.until_state("task/third", "done")
        await here.settled_but_timers()
        assert (here.store.view.list("lock"), here.state("task/front")) == ([], "running")
