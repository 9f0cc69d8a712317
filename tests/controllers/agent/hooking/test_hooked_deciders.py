"""Comments of hooks reach every kind of decider; points for budgets, last turns and conflicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planloop.controllers.agent.mail import message_policy
from planloop.schemas.objects.message import Message
from tests import golden_text
from tests.controllers.agent.arena import Arena, arena
from tests.controllers.agent.hooking.test_points import NOTING, asked
from tests.controllers.agent.hooking.test_verdicts import hooks, run, verdicts
from tests.controllers.agent.test_cli_agents import plan as outside_plan
from tests.controllers.agent.test_cli_agents import prompts
from tests.fakes.scripted_models import ScriptedModels
from tests.product import RecordDraft

pytestmark = pytest.mark.anyio

LISTS = "agent: {model: test/m, tools: [list]}\n"
PROGRAM = """
import json, sys
turn = json.loads(sys.stdin.readline())
with open("turns", "a") as file:
    file.write(json.dumps(turn) + "\\n")
print(json.dumps({"call": {"shell": {"command": "echo hi"}}} if turn["turn"] == 1 else {"done": "ok"}))
"""


async def test_program_reads_comments_beside_its_input_and_its_results(tmp_path: Path) -> None:
    hooks(tmp_path, 'return {"comment": "from " + q["hook_event_name"]}')
    (tmp_path / "mind.py").write_text(PROGRAM)
    text = 'goal: g\nhooks: {h: {on: [on-wake, after-call], python: "hooks.py:say"}}\n'
    async with arena(tmp_path) as here:
        assert await run(here, text + "agent: {run: [python3, mind.py]}\n") == "done"
    first, second = (json.loads(line) for line in (tmp_path / "turns").read_text().splitlines())
    golden_text.said(first["comments"])
    (result,) = second["results"]
    assert result["result"]["text"] == "hi\n"
    golden_text.said(result["comments"])
    assert "comments" not in second


async def test_cli_agent_gets_comments_and_the_note_that_its_answer_was_sent_back(tmp_path: Path) -> None:
    body = """
    if q["hook_event_name"] == "on-input":
        return {"comment": "keep it short"}
    return {"decision": "deny", "reason": "too long"} if q["sent_back"] == 0 else None
    """
    hooks(tmp_path, body)
    text = outside_plan("SAY all written", more='hooks: {h: {on: [on-input, before-reply], python: "hooks.py:say"}}\n')
    async with arena(tmp_path) as here:
        assert await run(here, text) == "done"
    first, second = prompts(tmp_path)
    golden_text.said_in(first["prompt"])
    assert "too long" in second["prompt"]


def spending(tokens: int, text: str) -> dict[str, Any]:
    return {"reply": {"calls": [{"name": "list", "arguments": {"path": "."}}]}, "usage": {"in": tokens, "out": 10}} | (
        {"reply": {"text": text}} if text else {}
    )


async def test_low_budget_is_a_point_and_a_last_answer_is_not_returned(tmp_path: Path) -> None:
    (tmp_path / "note.py").write_text(NOTING)
    text = """
budget: {tokens: 100000}
agent: {script: [{when: {message: handover}, done: heard}]}
tasks:
  child:
    goal: count the files
    budget: {tokens: 20000}
    hooks:
      h: {on: [on-budget], python: "note.py:note"}
      back: {on: [before-reply], rule: [{deny: "more"}]}
    agent: {model: test/m, tools: [list]}
"""
    models = ScriptedModels(
        [
            {"reply": {"text": "three are counted"}, "usage": {"in": 5_990, "out": 10}, "when": {"last": "last turn"}},
            {**spending(5_990, ""), "times": 3},
        ]
    )
    async with arena(tmp_path, models=models) as here:
        await here.apply(text)
        await here.until_state("agent/child", "parked")
        await here.settled_but_timers()
        assert [one["hook"] for one in verdicts(await here.log())] == ["hook/child/h"]
    (told,) = asked(tmp_path, "on-budget")
    assert told["budget_left"]["tokens"] < 20_000


async def wrote(here: Arena, kind: str) -> None:
    message = Message("c1", kind, "agent/.", "agent/child", {"text": "who has it?"}, here.world.clock.now())  # type: ignore[arg-type]
    changes = message_policy.delivery_changes(here.store.view, message)
    assert not isinstance(changes, message_policy.DeliveryRefused)
    await here.store.append(RecordDraft("message.sent", "controller:agent", "agent/child", changes))


async def test_a_conflict_is_a_point(tmp_path: Path) -> None:
    (tmp_path / "note.py").write_text(NOTING)
    text = """
goal: g
tasks:
  child: {goal: c, agent: {run: "true"}, hooks: {h: {on: [on-conflict], python: "note.py:note"}}}
"""
    async with arena(tmp_path) as here:
        await here.apply(text)
        await here.until_state("agent/child", "asleep")
        await wrote(here, "conflict")
        await here.until((tmp_path / "asked").exists)
        await here.settled()
    (told,) = asked(tmp_path)
    assert told["messages"][0]["kind"] == "conflict"


async def test_an_objection_where_nothing_can_be_denied_is_a_comment(tmp_path: Path) -> None:
    hooks(tmp_path, 'return {"decision": "deny", "reason": "do not believe it"}')
    text = 'goal: g\nhooks: {h: {on: [on-input, after-call], python: "hooks.py:say"}}\n' + LISTS
    call = {"reply": {"calls": [{"name": "list", "arguments": {}}]}}
    models = ScriptedModels([call, {"reply": {"text": "done"}}])
    async with arena(tmp_path, models=models) as here:
        assert await run(here, text) == "done"
    contents = [json.loads(each)["content"] for each in models.asked[-1].messages]
    assert sum("do not believe it" in (content or "") for content in contents) == 2


async def test_a_transcript_is_the_same_bytes_in_every_later_prompt(tmp_path: Path) -> None:
    hooks(tmp_path, 'return {"comment": q["hook_event_name"]}')
    text = 'goal: g\nhooks: {h: {on: [on-wake, on-input, before-call, after-call], python: "hooks.py:say"}}\n'
    call = {
        "reply": {
            "text": "",
            "calls": [{"name": "list", "arguments": {}}, {"name": "list", "arguments": {"path": "."}}],
        }
    }
    models = ScriptedModels([call, call, {"reply": {"text": "done"}}])
    async with arena(tmp_path, models=models) as here:
        assert await run(here, text + LISTS) == "done"
    first, second, third = (each.messages for each in models.asked)
    assert second[: len(first)] == first and third[: len(second)] == second
    said = [json.loads(each) for each in second]
    assert [each["role"] for each in said] == ["system", "user", "assistant", "tool", "tool", "user"]


async def test_an_answer_to_a_question_after_the_end_is_sent_back_too(tmp_path: Path) -> None:
    hooks(tmp_path, 'return {"decision": "deny", "reason": "say why"} if q["reply"] == "because" else None')
    text = 'goal: g\nhooks: {h: {on: [before-reply], python: "hooks.py:say"}}\n' + LISTS
    models = ScriptedModels([{"reply": {"text": text}} for text in ("done", "because", "because of the rain")])
    async with arena(tmp_path, models=models) as here:
        assert await run(here, text) == "done"
        now = here.world.clock.now()
        changes = message_policy.delivery_changes(
            here.store.view, Message("q1", "chat", "human:cli", "agent/.", "why?", now, asks=True)
        )
        assert not isinstance(changes, message_policy.DeliveryRefused)
        await here.store.append(RecordDraft("message.sent", "human:cli", "agent/.", changes))
        await here.settled()
        answers = [draft.data["answered"] for draft in await here.log() if draft.data.get("answered")]
    assert answers == [{"q1": "because of the rain"}]
    assert b"say why" in models.asked[2].messages[-1]


async def test_text_sent_while_children_work_is_an_answer_only_to_a_question(tmp_path: Path) -> None:
    (tmp_path / "note.py").write_text(NOTING)
    waits = "while [ ! -e go ]; do sleep 0.02; done"
    child = {"reply": {"calls": [{"name": "task", "arguments": {"id": "kid", "goal": "g", "run": waits}}]}}
    replies = [child, *({"reply": {"text": text}} for text in ("I wait", "it is going well", "all done"))]
    text = 'goal: g\nhooks: {h: {on: [before-reply], python: "note.py:note", copy: none}}\n'
    async with arena(tmp_path, models=ScriptedModels(replies)) as here:
        await here.apply(text + "agent: {model: test/m, tools: [task]}\n")
        await here.until_state("agent/.", "asleep")
        await here.tell("agent/.", "how is it going?", "m1")
        await here.until((tmp_path / "asked").exists)
        (tmp_path / "go").touch()
        await here.until_state("task/.", "done", "failed")
    assert [one["reply"] for one in asked(tmp_path)] == ["it is going well", "all done"]
