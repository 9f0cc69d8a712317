"""No agent sleeps while it has a reason for a turn, no news comes twice, and a sleeping agent is only rows."""

from __future__ import annotations

import random  # noqa: TID251 - seeded, so that a failing order can be run again
from collections import Counter
from pathlib import Path

import anyio.lowlevel
import pytest

from planloop.controllers.agent import decide
from planloop.controllers.agent.controller import AgentReconciler
from planloop.controllers.agent.mail import message_policy
from planloop.schemas import limits
from planloop.schemas.objects.agent import AgentState
from planloop.schemas.objects.message import Message
from tests import sets
from tests.controllers.agent.arena import PLAN, Arena, arena
from tests.product import Change, MemoryView, Put, Record, RecordDraft, SetStatus, Uid

pytestmark = pytest.mark.anyio

CHILD = """
              {name}:
                agent:
                  tools: [shell]
                  topology: {{talk-to: [parent, siblings]}}
                  script:
                    - {{when: {{message: one}}, say: {{to: parent, text: {name} has one}}}}
                    - {{when: {{message: two}}, call: {{send: {{to: siblings, text: from {name}}}}}}}
                    - {{when: {{message: three}}, say: {{to: parent, text: {name} has three}}}}
                    - done: {name}
"""
NAMES = ("a", "b", "c")


def awake_though_asleep(here: Arena) -> list[str]:
    """Agents that rest although `decide` has a step for them."""
    looker = AgentReconciler(here.world)
    found = []
    for agent in here.store.view.list("agent"):
        seen = looker.look(agent.address)
        assert seen is not None
        step = decide.decide(seen, lambda _: True)
        if not isinstance(step, decide.AgentRest) or str(step.state) != agent.state:
            found.append(f"{agent.address} is {agent.state} but {step}")
    return found


async def told(here: Arena) -> Counter[str]:
    """How often each inbox message was part of a turn."""
    log = await here.log()
    return Counter(message for draft in log if draft.type == "turn.started" for message in draft.data["read"])


@pytest.mark.parametrize("seed", range(8))
async def test_in_any_order_of_messages_everybody_wakes_and_each_is_read_once(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    letters = [(f"agent/{name}", text, f"{name}-{text}") for name in NAMES for text in ("one", "two", "three")]
    dice.shuffle(letters)
    async with arena(tmp_path) as here:
        children = "".join(CHILD.format(name=name) for name in NAMES)
        await here.apply(f"""
            agent: {{script: [{{when: {{children: done}}, done: all}}]}}
            tasks:{children}
        """)
        for agent, text, message_id in letters:
            for _ in range(dice.randrange(12)):
                await anyio.lowlevel.checkpoint()
            await here.tell(agent, text, message_id)
            if dice.random() < 0.3:
                await here.settled()
                assert awake_though_asleep(here) == []
        await here.until_state("task/.", "done")
        await here.settled()
        assert awake_though_asleep(here) == []
        counts = await told(here)
        sent = {message_id for _, _, message_id in letters}
        assert sent <= counts.keys() and set(counts.values()) == {1}
        # Two to the parent and one to each of two siblings, from each of three; late ones may stay in an ended inbox.
        unread = sum(len(agent.status.get("inbox", {})) for agent in here.store.view.list("agent"))
        assert len(counts) + unread == len(sent) + 3 * (2 + 2)


async def test_law_3_a_second_reconcile_with_nothing_changed_writes_nothing(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent: {script: [{when: {message: never}, say: x}]}
            tasks: {a: {agent: {script: [{done: x}]}}, b: {agent: {script: [{sleep: 1h}]}}}
        """)
        await here.until_state("agent/b", "asleep")
        await here.settled_but_timers()
        rev = here.store.view.rev
        for agent in ("agent/.", "agent/a", "agent/b"):
            here.work.poke(agent)
        await here.settled_but_timers()
        assert here.store.view.rev == rev


async def test_law_11_full_inbox_is_reported_to_the_sender(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            tasks:
              deaf: {pause: true, agent: {script: [{done: x}]}}
              loud:
                agent:
                  topology: {talk-to: [siblings]}
                  script:
                    - {when: {message: now}, call: {send: {to: deaf, text: one too many}}}
                    - expect: {error: Full}
                    - done: x
        """)
        await here.until_state("agent/loud", "asleep")
        for number in range(limits.INBOX_MESSAGES_MAX):
            await here.tell("agent/deaf", "hi", f"m{number}")
        await here.tell("agent/loud", "now", "m")
        await here.until_state("task/loud", "done", "failed")
        assert here.state("task/loud") == "done"


def test_only_the_newest_state_message_of_a_key_is_kept() -> None:
    view = MemoryView()
    put = Put("agent/.", Uid("u"), {"task": "task/."})
    view.fold(Record(1, 0.0, 1, RecordDraft("object.created", "human:cli", "agent/.", (put,))))
    for number, key in enumerate(("progress", "mood", "progress"), start=2):
        body = {"key": key, "value": number}
        changes = message_policy.delivery_changes(
            view, Message(f"m{number}", "state", "agent/a", "agent/.", body, float(number))
        )
        assert not isinstance(changes, message_policy.DeliveryRefused)
        view.fold(Record(number, 0.0, 1, RecordDraft("message.sent", "agent:a", "agent/.", changes)))
    found = view.get("agent/.")
    assert found is not None and set(found.status["inbox"]) == {"m3", "m4"}


async def test_law_12_an_agent_that_waits_for_a_message_is_in_no_queue(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("agent: {script: [{when: {message: never}, say: x}]}")
        await here.until_state("agent/.", "asleep")
        await here.settled_but_timers()
        assert here.engine.is_quiescent()


@pytest.mark.process
@pytest.mark.timeout(120)
async def test_law_12_thousands_of_sleeping_agents_are_only_rows(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("agent: {script: [{when: {message: never}, say: x}]}")
        await here.until_state("agent/.", "asleep")
        model, task = here.get("agent/."), here.get("task/.")
        changes: list[Change] = []
        count = 10_000 if sets.is_nightly() else 2_000
        for number in range(count):
            path, uid = f"sleeper-{number}", Uid(f"s{number}")
            spec = {**model.spec, "task": f"task/{path}"}
            changes.append(Put(f"agent/{path}", uid, spec, (f"task/{path}",), f"task/{path}", ("agent",)))
            status = {**model.status, "state": str(AgentState.ASLEEP)}
            changes.append(SetStatus(f"agent/{path}", uid, status))
            changes.append(Put(f"task/{path}", uid, task.spec | {"pause": False}, (), PLAN, ("task",)))
            changes.append(SetStatus(f"task/{path}", uid, task.status))
        await here.store.append(RecordDraft("plan.patched", "human:cli", PLAN, tuple(changes)))
        await here.settled_but_timers()
        assert here.work.live_count == 0 and here.engine.is_quiescent()
        assert sum(agent.state == "asleep" for agent in here.store.view.list("agent")) == count + 1
        await here.tell("agent/sleeper-77", "hello", "m")
        await here.settled_but_timers()
        assert (await told(here)) == {"m": 1}
