"""Bugs that other agent systems are known for, one test each. The docstring names the bug, with its issue."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from planloop.reconciler.effects import journal
from tests.controllers.agent.arena import Arena, arena
from tests.controllers.agent.test_models import PLAN, asked, call, calls, run, says
from tests.fakes.scripted_models import ScriptedModels
from tests.product import HUMAN_CLI, Put, RecordDraft

pytestmark = pytest.mark.anyio


def told(models: ScriptedModels, index: int = -1) -> str:
    """The whole text of one request."""
    return json.dumps(asked(models, index))


async def test_a_reply_and_all_of_its_calls_are_one_append(tmp_path: Path) -> None:
    """A crash between a reply and its calls sent calls without answers to the model, or took none for all."""
    models = ScriptedModels([calls(call("list"), call("read", path="a"), call("nothing")), says("ok")])
    async with arena(tmp_path, models=models) as here:
        assert await run(here) == "done"
        await here.store.flush(here.store.view.rev)
        replies = [
            record.draft
            for record in await here.store.log(0, 1_000)
            if any(one.type == "model.replied" and one.data["calls"] for one in record.draft.entries)
        ]
    made = {change.address for change in replies[0].changes if isinstance(change, Put)}
    # A call that ended in the same append is shown with its result, and was never open.
    ended = {one.subject for one in replies[0].entries if one.type == "call.settled"}
    refused = {name for one in replies[0].entries if one.type == "call.authorized" for name in one.data}
    (said,) = [one.data["calls"] for one in replies[0].entries if one.type == "model.replied"]
    assert {each["call"] for each in said} == made | ended | refused and len(said) == 3


async def test_call_refused_by_an_operator_is_a_result_and_the_work_continues(tmp_path: Path) -> None:
    """A rejected call blocked its task forever (agentcontrolplane#64)."""
    models = ScriptedModels([calls(call("shell", command="echo push"), call("list")), says("then not")])
    async with arena(tmp_path, models=models) as here:
        await here.apply(PLAN + "approve: ['shell(echo push*)']\n")
        await here.until_state("agent/.", "blocked")
        (approval,) = here.store.view.list("approval")
        await here.gate.reject(approval.address, HUMAN_CLI, "not today")
        await here.until_state("task/.", "done")
        await here.settled()
        assert here.store.view.list("approval") == here.store.view.list("call") == []
    refused, listed = (each["content"] for each in asked(models) if each["role"] == "tool")
    assert refused.startswith("Denied (Rejected): ") and "not today" in refused and "Denied" not in listed


async def test_command_with_an_unseen_end_is_reported_as_such_and_not_rerun(tmp_path: Path) -> None:
    """Calls ran before they were recorded, so a crash repeated them silently."""
    slow = calls(call("shell", command="echo x >> log; sleep 60"))
    async with arena(tmp_path, models=ScriptedModels([slow])) as here:
        await here.apply(PLAN)
        await here.until((here.folder / "log").exists)
    models = ScriptedModels([says("I see")])
    async with arena(tmp_path, epoch=2, models=models) as here:
        await here.until_state("task/.", "done")
        await here.settled()
        assert here.read("log").split() == ["x"]
    assert asked(models)[-1]["content"].startswith("Unknown (Unknown): ")


async def test_calls_cancelled_midway_all_have_an_answer(tmp_path: Path) -> None:
    """Calls that an interruption left open made every later request of the conversation invalid."""
    several = calls(call("list"), call("shell", command="touch began; sleep 60"), call("shell", command="touch never"))
    models = ScriptedModels([several, says("stopped")])
    async with arena(tmp_path, models=models) as here:
        await here.apply(PLAN)
        await here.until((here.folder / "began").exists)
        await here.tell("agent/.", "stop", "m", delivery="interrupt")
        await here.until_state("task/.", "done")
        assert not (here.folder / "never").exists()
    answers = [each["content"] for each in asked(models) if each["role"] == "tool"]
    assert len(answers) == 3 and all(each.startswith("Cancelled") for each in answers[1:])


@pytest.mark.parametrize("raw", ['{"path": "a", ', '"a"', "[1]", "null", "no json"])
async def test_one_bad_call_does_not_poison_the_conversation(tmp_path: Path, raw: str) -> None:
    """Arguments that are not a JSON object, sent back unchanged, fail every later request (vllm#43995)."""
    models = ScriptedModels([calls({"name": "list", "raw": raw}), says("so be it")])
    async with arena(tmp_path, models=models) as here:
        assert await run(here) == "done"
    (wanted,) = [each for message in asked(models) for each in message.get("tool_calls", ())]
    assert isinstance(json.loads(wanted["function"]["arguments"]), dict)


TWO = """
goal: wait for both
agent: {model: test/top, tools: [list]}
tasks:
  a: {goal: a, agent: {script: [{when: {message: now}, done: from a}]}}
  b: {goal: b, agent: {script: [{when: {message: now}, done: from b}]}}
"""


async def test_two_children_that_end_at_the_same_time_are_both_reported(tmp_path: Path) -> None:
    """The end of the second of two siblings was lost (oh-my-openagent#6546)."""
    models = ScriptedModels([says("I wait"), {**says("both are there"), "when": {"last": ["from a", "from b"]}}])
    async with arena(tmp_path, models=models) as here:
        await here.apply(TWO)
        await here.until_state("agent/.", "asleep")
        await here.patch({"op": "add", "path": "/pause", "value": True})
        await here.tell("agent/a", "now", "m1")
        await here.tell("agent/b", "now", "m2")
        await here.settled()
        await here.patch({"op": "remove", "path": "/pause"})
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done" and models.left == []


async def test_child_that_ends_while_its_parent_is_busy_is_reported_once_it_is_free(tmp_path: Path) -> None:
    """The report of a child was never delivered because its parent was busy (oh-my-openagent#5864)."""
    busy = calls(call("shell", command="touch busy; while ! test -f go; do sleep 0.02; done"))
    models = ScriptedModels([busy, {**says("a is done"), "when": {"last": "from a"}}])
    plan = TWO.replace("tools: [list]", "tools: [shell]").replace("  b: {goal: b,", "  b: {goal: b, cancel: true,")
    async with arena(tmp_path, models=models) as here:
        await here.apply(plan)
        await here.until((here.folder / "busy").exists)
        await here.tell("agent/a", "now", "m1")
        await here.until_state("task/a", "done")
        (here.folder / "go").touch()
        await here.until(lambda: models.left == [] or here.state("task/.") == "failed")
    assert models.left == []


async def test_lasting_fact_is_reported_once_however_often_it_is_read(tmp_path: Path) -> None:
    """One event became 86 alerts in half an hour (gastown#2795)."""
    models = ScriptedModels([says("I wait"), says("I still wait"), says("yes?"), says("enough")])
    plan = TWO.replace("script: [{when: {message: now}, done: from a}]", "script: [{fail: broken}]")
    async with arena(tmp_path, models=models) as here:
        await here.apply(plan)
        await here.until_state("task/a", "failed")
        await here.settled()
        for number in range(5):
            here.work.poke("agent/.")
            await here.settled()
            await here.patch({"op": "add", "path": "/tasks/a/priority", "value": number})
            await here.settled()
        turns = [each for each in await here.log() if each.type == "turn.started" and each.subject == "agent/."]
        news = [reason for each in turns for reason in each.data["reasons"] if reason == "child failed"]
    assert news == ["child failed"]


async def test_new_run_is_undisturbed_by_others_edits_and_by_hot_edits(tmp_path: Path) -> None:
    """A session that had just started was drained for drift, because everything counted as drift (gascity#127)."""
    async with arena(tmp_path) as here:
        await here.apply("""
            tasks:
              mine: {goal: a, agent: {script: [{when: {message: end}, done: x}]}}
              other: {goal: b, agent: {script: [{when: {message: end}, done: x}]}}
        """)
        await here.until_state("agent/mine", "asleep")
        for path, value in (("/tasks/other/agent/script", [{"done": 1}]), ("/tasks/mine/priority", 7), ("/goal", "g")):
            await here.patch({"op": "add", "path": path, "value": value})
            await here.settled()
        assert here.get("agent/mine").status["incarnation"] == here.get("agent/mine").status["turn"] == 1


async def test_restarting_edit_starts_exactly_one_new_run(tmp_path: Path) -> None:
    """A restart for drift caused drift again, forever (gascity#5717)."""
    async with arena(tmp_path) as here:
        await here.apply("agent: {script: [{when: {message: end}, done: x}]}")
        await here.until_state("agent/.", "asleep")
        await here.patch({"op": "add", "path": "/agent/script", "value": [{"when": {"message": "go"}, "done": "y"}]})
        await here.until(lambda: here.get("agent/.").status["incarnation"] == 2)
        await here.settled()
        rev = here.store.view.rev
        for address in ("task/.", "agent/.", "plan/arena"):
            here.work.poke(address)
        await here.settled()
        assert here.store.view.rev == rev and here.get("agent/.").status["incarnation"] == 2


async def test_messages_read_by_a_cancelled_turn_are_read_again(tmp_path: Path) -> None:
    """A message counted as read once a turn had started, although no model ever answered that turn."""
    models = ScriptedModels([{**says("late"), "hang": True, "times": 2}, says("I heard it")])
    async with arena(tmp_path, models=models) as here:
        await here.apply(PLAN)
        await here.until(lambda: len(models.asked) == 1)
        await here.tell("agent/.", "REMEMBER THIS", "m1", delivery="interrupt")
        await here.until(lambda: len(models.asked) == 2)
        await begin_anew(here)
        await here.until_state("task/.", "done")
    assert "REMEMBER THIS" in told(models, 1) and "REMEMBER THIS" in told(models, 2)


async def begin_anew(here: Arena) -> None:
    """An operator restarts the task."""
    await here.patch({"op": "add", "path": "/cancel", "value": True})
    await here.until_state("task/.", "cancelled")
    await here.patch({"op": "remove", "path": "/cancel"})


MINTED = re.compile(r"\b[0-9a-f]{12}\b")


async def test_generated_ids_are_not_shown_to_a_model(tmp_path: Path) -> None:
    """Ids, revisions and times in a prompt make each run different, so no cache or replay works."""
    edit = calls(call("edit_plan", path="notes", value="n"), call("shell", command="touch began; sleep 60"))
    async with arena(tmp_path, models=ScriptedModels([edit])) as here:
        await here.apply("""
            goal: edit
            open: [notes]
            approve: [/notes]
            agent: {model: test/m, tools: [edit_plan, shell]}
            tasks: {kid: {goal: k, agent: {script: [{when: {message: never}, done: x}]}}}
        """)
        await here.until((here.folder / "began").exists)
    models = ScriptedModels([{**says("I wait"), "times": "always"}])
    async with arena(tmp_path, epoch=2, models=models) as here:
        await here.until_state("agent/.", "asleep")
        (doubt,) = [each for each in here.store.view.list("call") if each.state == "Unknown"]
        (held,) = here.store.view.list("approval")
        await here.gate.approve(held.address, HUMAN_CLI)
        changes = journal.settle_unknown(doubt, happened=True)
        await here.store.append(RecordDraft("call.reconciled", "human:cli", doubt.address, changes))
        await here.settled()
        prompts = [b"\n".join(request.messages).decode() for request in models.asked]
    assert "approved" in prompts[-1] and "happened" in prompts[-1]
    for prompt in prompts:
        assert MINTED.findall(prompt) == [] and "base_rev" not in prompt


def test_the_pattern_of_minted_ids_finds_them() -> None:
    found: list[Any] = MINTED.findall("approval/3a916d86c3ba is waiting")
    assert found == ["3a916d86c3ba"]
