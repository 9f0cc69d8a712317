"""An agent gets the state of its task's containers in its first turn, and changes after that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.agent.arena import Arena, arena
from tests.product import Json, JsonObject, RecordDraft, SetStatus

pytestmark = pytest.mark.anyio

DB = "container/db"
PLAN = """
containers: {db: {image: planloop/shell, health: {tcp: 1}}}
tasks:
  a:
    containers: [db]
    agent: {script: [{when: {message: never}, done: x}]}
"""


async def becomes(here: Arena, state: str, why: str = "", *, incarnation: int = 1, starts: int = 1) -> None:
    """Set the status of the container, as its controller does."""
    one = here.get(DB)
    ready: JsonObject = {"status": "True" if state == "healthy" else "False", "reason": state.title(), "message": why}
    ready |= {"since": 0.0, "observed_generation": one.generation, "unblocks": []}
    merge: JsonObject = {"state": state, "conditions": {"Ready": ready}, "incarnation": incarnation, "starts": starts}
    draft = RecordDraft("container.observed", "controller:container", DB, (SetStatus(DB, one.uid, merge),))
    await here.store.append(draft)
    await here.settled()


def heard(here: Arena) -> list[Json]:
    """All messages to the agent so far; its script stores them."""
    return [message["body"] for message in here.get("agent/a").status["memory"][0]["heard"]]


async def turns(here: Arena) -> list[list[str]]:
    """The reasons of each turn."""
    return [draft.data["reasons"] for draft in await here.log() if draft.type == "turn.started"]


def news(state: str, message: str) -> JsonObject:
    return {"container": DB, "state": state, "message": message}


async def test_agent_wakes_when_a_container_fails_ends_or_recovers(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(PLAN)
        await becomes(here, "healthy")
        assert heard(here) == [], "it begins with what there is"

        for state, why, run in (
            ("unhealthy", "no answer", 1),
            ("healthy", "", 1),
            ("restarting", "exit code 1", 1),
            ("starting", "", 1),
            ("failed", "exit code 2", 1),
            ("starting", "", 2),
            ("healthy", "", 2),
        ):
            await becomes(here, state, why, starts=run)

        assert heard(here) == [
            news("unhealthy", "no answer"),
            news("healthy", "it is healthy again"),
            news("failed", "exit code 2"),
            news("healthy", "it is running again: earlier processes in it have ended"),
        ]
        assert (await turns(here))[1:] == [
            [f"container {state}"] for state in ("unhealthy", "healthy", "failed", "healthy")
        ]


async def test_restarted_or_replaced_container_is_news_in_the_next_turn_without_waking(
    tmp_path: Path,
) -> None:
    async with arena(tmp_path) as here:
        await here.apply(PLAN)
        await becomes(here, "healthy")
        await becomes(here, "healthy", starts=2)
        assert len(await turns(here)) == 1
        await here.tell("agent/a", "one", "m1")
        await here.settled()
        await becomes(here, "healthy", incarnation=2)
        await here.tell("agent/a", "two", "m2")
        await here.settled()

        assert (await turns(here))[1:] == [["message"], ["message"]]
        assert heard(here) == [
            "one",
            news("healthy", "it was restarted: earlier processes in it have ended"),
            "two",
            news("healthy", "it was replaced by a new container: its earlier processes and files are gone"),
        ]
