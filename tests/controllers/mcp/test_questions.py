"""Servers that ask something in the middle of a call: the call waits, and a yes, a no and silence are all answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.schemas import limits
from tests.controllers.agent.arena import Arena, arena
from tests.controllers.mcp.plans import BAD, DONE, call, plan, texts, tricky, written
from tests.product import HUMAN_CLI, CallState, JsonObject, Resource, SystemClock
from tests.servers import EVERYTHING
from tests.servers.in_process import InProcess

pytestmark = pytest.mark.anyio


async def asked(here: Arena, words: str) -> Resource:
    """The approval that stands for a question with these words."""

    def found() -> list[Resource]:
        return [each for each in here.store.view.list("approval") if words in each.spec["why"]]

    await here.until(lambda: bool(found()) and here.state("agent/.") == "blocked")
    return found()[0]


async def test_question_blocks_the_agent_with_its_text_until_it_is_answered(tmp_path: Path) -> None:
    async with arena(tmp_path, start=InProcess()) as here:
        await here.apply(plan({"t": tricky()}, call("t.greet"), DONE))
        approval = await asked(here, "What is your name?")
        agent, (waiting,) = here.get("agent/.").status, here.store.view.list("call")
        assert agent["conditions"]["AwaitingInput"]["unblocks"][0] == f"plan approve {approval.address}"
        assert waiting.state == CallState.AWAITING_INPUT
        assert approval.spec["what"]["requests"]["who"]["schema"]["required"] == ["name"]
        await here.gate.approve(approval.address, HUMAN_CLI, content={"name": "Ada"})
        await here.until_state("task/.", "done", "failed")
        assert await texts(here, "t.greet") == ["hello Ada"]
        assert here.find(approval.address) is None
        await here.settled()


async def test_second_question_of_the_same_call_is_asked_too(tmp_path: Path) -> None:
    async with arena(tmp_path, start=InProcess()) as here:
        await here.apply(plan({"t": tricky()}, call("t.greet"), DONE))
        first = await asked(here, "What is your name?")
        await here.gate.approve(first.address, HUMAN_CLI, content={"name": "again"})
        second = await asked(here, "And really?")
        assert second.uid != first.uid
        await here.gate.approve(second.address, HUMAN_CLI, content={"name": "Bob"})
        await here.until_state("task/.", "done", "failed")
        assert await texts(here, "t.greet") == ["hello Bob"]


async def test_a_refusal_is_an_answer(tmp_path: Path) -> None:
    async with arena(tmp_path, start=InProcess()) as here:
        await here.apply(plan({"t": tricky()}, call("t.greet"), DONE))
        approval = await asked(here, "What is your name?")
        await here.gate.reject(approval.address, HUMAN_CLI, "none of its business")
        await here.until_state("task/.", "done", "failed")
        assert await texts(here, "t.greet") == ["greets no client: decline"]


class Ahead(SystemClock):
    """A clock that can be put forward."""

    by_s = 0.0

    def now(self) -> float:
        return super().now() + self.by_s


async def test_silence_is_an_answer_after_a_while(tmp_path: Path) -> None:
    clock = Ahead()
    async with arena(tmp_path, start=InProcess(), clock=clock) as here:
        await here.apply(plan({"t": tricky()}, call("t.greet"), DONE))
        approval = await asked(here, "What is your name?")
        clock.by_s = limits.INPUT_WAIT_S + 1
        here.work.poke("agent/.")
        await here.until_state("task/.", "done", "failed")
        assert await texts(here, "t.greet") == ["greets no client: decline"]
        assert here.find(approval.address) is None


async def test_question_outlives_the_owner_that_was_asked(tmp_path: Path) -> None:
    """Newer servers seal their state into the question, so another process may bring the answer."""
    async with arena(tmp_path, start=InProcess()) as here:
        await here.apply(plan({"t": tricky()}, call("t.greet"), DONE))
        approval = await asked(here, "What is your name?")
    async with arena(tmp_path, start=InProcess(), epoch=2) as here:
        await here.gate.approve(approval.address, HUMAN_CLI, content={"name": "Ada"})
        await here.until_state("task/.", "done", "failed")
        assert await texts(here, "t.greet") == ["hello Ada"]


def elicitation(*after: JsonObject) -> str:
    server: JsonObject = {"e": {"command": EVERYTHING}}
    return plan(server, call("e.trigger-elicitation-request"), *after, DONE)


@pytest.mark.process
async def test_older_server_holds_its_call_open_during_a_question(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(elicitation())
        approval = await asked(here, "inputs for the following fields")
        fields = approval.spec["what"]["requests"][""]["schema"]["properties"]
        assert "name" in fields
        await here.gate.approve(approval.address, HUMAN_CLI, content={"name": "Ada Lovelace"})
        await here.until_state("task/.", "done", "failed")
        assert "Ada Lovelace" in (await texts(here, "e.trigger-elicitation-request"))[0]


@pytest.mark.process
async def test_question_of_an_older_server_is_cancelled_with_its_call(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(elicitation(BAD))
        approval = await asked(here, "inputs for the following fields")
        await here.tell("agent/.", "never mind", "m", delivery="interrupt")
        await here.until_state("task/.", "done", "failed")
        assert here.find(approval.address) is None and here.state("task/.") == "done"
        await here.settled()


@pytest.mark.process
async def test_older_server_that_dies_with_a_question_open_leaves_the_call_unknown(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(elicitation())
        approval = await asked(here, "inputs for the following fields")
    async with arena(tmp_path, epoch=2) as here:
        await here.gate.approve(approval.address, HUMAN_CLI, content={"name": "Ada"})
        await here.until(lambda: any(each.state == CallState.UNKNOWN for each in here.store.view.list("call")))


async def test_parent_may_answer_instead_of_an_operator(tmp_path: Path) -> None:
    heard: JsonObject = {"when": {"message": "What is your name?"}}
    parent = {
        "tools": ["answer"],
        "script": [{**heard, **call("answer", to="child.1.1.0", answer="Ada")}, {"done": "x"}],
    }
    child = {"tools": ["t"], "script": [call("t.greet"), {"expect": {"contains": "hello Ada"}}, DONE]}
    async with arena(tmp_path, start=InProcess()) as here:
        document: JsonObject = {"mcp": {"t": tricky()}, "agent": parent, "tasks": {"child": {"agent": child}}}
        await here.apply(written(document))
        await here.until_state("task/.", "done", "failed")
        assert await texts(here, "t.greet") == ["hello Ada"]
        assert here.state("task/.") == "done"
