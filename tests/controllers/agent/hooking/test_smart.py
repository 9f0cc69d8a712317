"""Hooks that are agents: asked by message, one question at a time, with one answer each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planloop.controllers.agent.hooks import agent_hooks
from planloop.controllers.agent.observe import SpecCache, observe_agent
from planloop.controllers.agent.status import wrap_value
from planloop.schemas.objects.hook import OVER, HookVerdict
from planloop.schemas.objects.message import ThreadAnswer as Answered
from tests import golden_text
from tests.controllers.agent.arena import PLAN, Arena, arena
from tests.controllers.agent.test_compacting import SmallModels
from tests.controllers.agent.test_models import asked, call, calls, says
from tests.fakes.pure_models import Answer
from tests.fakes.scripted_models import ScriptedModels
from tests.product import JsonObject, RecordDraft, SetStatus, Uid

pytestmark = pytest.mark.anyio

WRITE = call("write", path="a.txt", content="hello")
CAREFUL = "on: [before-call], match: 'write(*)'"


def plan(hook: str = CAREFUL, of: str = "", more: str = "") -> str:
    return f"""
goal: write the file
agent: {{model: test/worker, tools: [read, write, list]}}
hooks:
  careful: {{{hook}, agent: {{model: test/guard, prompt: watch the files{of}}}}}
{more}
"""


def worker(*steps: dict[str, Any]) -> list[dict[str, Any]]:
    return [step | {"model": "worker"} for step in steps]


def guard(*steps: dict[str, Any]) -> list[dict[str, Any]]:
    return [step | {"model": "guard"} for step in steps]


def of(models: ScriptedModels, model: str) -> list[int]:
    """The requests to `model`."""
    return [index for index, each in enumerate(models.asked) if each.model.endswith(model)]


async def ended(here: Arena, text: str) -> str:
    verdict = await here.apply(text)
    assert type(verdict).__name__ == "PatchAccepted", verdict
    await here.until_state("task/.", "done", "failed")
    await here.settled()
    return here.state("task/.")


async def fired(here: Arena) -> list[JsonObject]:
    return [draft.data for draft in await here.log() if draft.type == "hook.fired"]


async def test_llm_hook_denies_a_call_and_the_agent_gets_the_reason(tmp_path: Path) -> None:
    models = ScriptedModels(
        [*worker(calls(WRITE), says("it may not be")), *guard(says('{"decision": "deny", "reason": "not that file"}'))]
    )
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, plan()) == "done"
        assert not (tmp_path / "a.txt").exists()
        assert here.get("agent/~careful").status["transcript"], "it has a transcript of its own"
        assert here.get("agent/~careful").state == "ended"
    told = "\n".join(str(message["content"]) for message in asked(models))
    assert "not that file" in told and "careful" in told
    (first,) = of(models, "guard")
    system, question = asked(models, first)
    assert "You are the hook `careful`. You watch the root agent" in system["content"]
    assert "watch the files" in system["content"]
    assert "write the file" not in system["content"], "the task is not its own"
    golden_text.said_in(question["content"], "agent/")
    tools = models.asked[first].tools.decode()
    assert '"verdict"' in tools and '"quit"' in tools
    assert '"send"' not in tools and '"write"' not in tools, "it has no tools but those that are given"


async def test_other_arguments_by_the_verdict_tool_are_those_of_the_call(tmp_path: Path) -> None:
    other = call("verdict", updated_input={"path": "b.txt", "content": "hello"}, comment="b is yours")
    models = ScriptedModels([*worker(calls(WRITE), says("done")), *guard(calls(other), says("ALLOW"))])
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, plan()) == "done"
        assert here.read("b.txt") == "hello" and not (tmp_path / "a.txt").exists()
    assert models.left == [], "the rewritten call was asked about again"


async def test_stricter_of_two_verdicts_in_one_reply_wins(tmp_path: Path) -> None:
    both = calls(call("verdict", decision="deny", reason="not a"), call("verdict", decision="allow"))
    models = ScriptedModels([*worker(calls(WRITE), says("done")), *guard(both)])
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, plan()) == "done"
        assert not (tmp_path / "a.txt").exists()
    assert models.left == []


async def test_two_calls_of_one_reply_are_two_questions_with_an_answer_each(tmp_path: Path) -> None:
    other = call("write", path="b.txt", content="hello")
    models = ScriptedModels(
        [
            *worker(calls(WRITE, other), says("done")),
            *guard({"when": {"last": "a.txt"}, **says("DENY: not a")}, {"when": {"last": "b.txt"}, **says("ALLOW")}),
        ]
    )
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, plan()) == "done"
        assert here.read("b.txt") == "hello" and not (tmp_path / "a.txt").exists()
        assert not here.store.view.list("thread"), "nothing is left of the questions"
    assert models.left == []


async def test_a_hook_that_quits_is_asked_no_more_and_what_it_was_asked_is_allowed(tmp_path: Path) -> None:
    other = call("write", path="b.txt", content="hello")
    models = ScriptedModels(
        [*worker(calls(WRITE), calls(other), says("done")), *guard(calls(call("quit", reason="nothing to watch")))]
    )
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, plan()) == "done"
        assert here.read("a.txt") == here.read("b.txt") == "hello"
        assert here.state("hook/careful") == OVER
        assert here.state("agent/~careful") == "ended"
    assert len(of(models, "guard")) == 1


@pytest.mark.parametrize(("policy", "is_written"), [("deny", False), ("note", True)])
async def test_hook_with_a_spent_budget_is_an_error_and_the_policy_decides(
    tmp_path: Path, policy: str, is_written: bool
) -> None:
    other = call("write", path="b.txt", content="hello")
    models = ScriptedModels([*worker(calls(WRITE), calls(other), says("done")), *guard(says("ALLOW"))])
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, plan(f"{CAREFUL}, budget: {{turns: 1}}, on-fault: {policy}")) == "done"
        assert here.read("a.txt") == "hello"
        assert (tmp_path / "b.txt").exists() is is_written
        assert here.get("agent/~careful").status["used"]["turns"] == 1
    assert len(of(models, "guard")) == 1


async def test_cost_of_a_hook_is_billed_to_the_task_of_its_agent(tmp_path: Path) -> None:
    models = ScriptedModels([*worker(calls(WRITE), says("done")), *guard(says("ALLOW"))])
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, plan(more="budget: {tokens: 100000, turns: 20}")) == "done"
        hook, agent = (here.get(f"agent/{name}").status["used"] for name in ("~careful", "."))
        accounts = here.get("task/.").status["ledger"]
    assert hook["tokens"] > 0
    assert accounts["tokens"]["spent"] == hook["tokens"] + agent["tokens"]
    assert accounts["turns"]["spent"] == hook["turns"] + agent["turns"] == 3


async def test_hook_without_a_model_is_an_error(tmp_path: Path) -> None:
    refusal = {"status": 401, "error": {"message": "no key"}, "times": "always"}
    models = ScriptedModels([*worker(calls(WRITE), says("it may not be")), *guard(refusal)])
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, plan()) == "done"
        assert not (tmp_path / "a.txt").exists()
        (said, *_) = await fired(here)
    assert "NoModel" in str(said)


async def test_late_hook_is_an_error_and_its_request_is_cancelled(tmp_path: Path) -> None:
    models = ScriptedModels([*worker(calls(WRITE), says("it may not be")), *guard({"hang": True})])
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, plan(f"{CAREFUL}, timeout: 0.2")) == "done"
        assert not (tmp_path / "a.txt").exists()
        assert not here.store.view.list("thread")
        status = here.get("agent/~careful").status
        assert not status.get("inbox") and not status.get("asked") and status.get("open") is None
    assert models.endings.count("closed") == 1, "nobody waits for it any more"


async def test_pausing_and_resuming_loses_no_question(tmp_path: Path) -> None:
    models = ScriptedModels([*worker(calls(WRITE), says("done")), *guard({"delay": 0.1, **says("ALLOW")})])
    async with arena(tmp_path, models=models) as here:
        await here.apply(plan())
        await here.until(lambda: bool(here.store.view.list("thread")))
        await here.patch({"op": "add", "path": "/pause", "value": True})
        await here.until_state("task/.", "paused")
        await here.patch({"op": "remove", "path": "/pause"})
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done" and here.read("a.txt") == "hello"
    assert len(of(models, "guard")) == 1


async def test_cancelling_the_watched_agent_ends_the_question_and_the_request(tmp_path: Path) -> None:
    models = ScriptedModels([*worker(calls(WRITE)), *guard({"hang": True})])
    async with arena(tmp_path, models=models) as here:
        await here.apply(plan())
        await here.until(lambda: bool(of(models, "guard")))
        await here.patch({"op": "add", "path": "/cancel", "value": True})
        await here.until_state("task/.", "cancelled")
        await here.settled_but_timers()
        assert not here.store.view.list("thread")
        assert here.get("agent/~careful").status.get("open") is None
    assert models.endings == ["answered", "closed"]


async def test_hook_restarts_with_the_agent_it_watches(tmp_path: Path) -> None:
    models = ScriptedModels([*worker(calls(WRITE), calls(WRITE), says("done")), *guard({"hang": True}, says("ALLOW"))])
    async with arena(tmp_path, models=models) as here:
        await here.apply(plan())
        await here.until(lambda: bool(of(models, "guard")))
        await here.patch({"op": "add", "path": "/again", "value": 1})
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done"
        status = here.get("agent/~careful").status
        assert status["incarnation"] == here.get("agent/.").status["incarnation"] == 2
        assert len(status["transcript"]) == 1, "it remembers nothing of the run before"
    assert models.left == []


async def test_operator_can_talk_with_the_agent_behind_a_hook_while_it_watches(tmp_path: Path) -> None:
    models = ScriptedModels(
        [
            *worker(
                {"when": {"last": "go"}, **calls(WRITE)}, {"when": {"after": "write"}, **says("done")}, says("I wait")
            ),
            *guard({"when": {"last": "what do you do"}, **says("I watch the files.")}, says("DENY: no")),
        ]
    )
    async with arena(tmp_path, models=models) as here:
        await here.apply(plan())
        await here.tell("agent/~careful", "what do you do", "m1")
        await here.until(lambda: bool(here.get("agent/~careful").status.get("transcript")))
        await here.settled_but_timers()
        assert "I watch the files." in await here.said()


async def test_asking_twice_changes_nothing_and_a_withdrawn_question_has_no_answer(tmp_path: Path) -> None:
    models = ScriptedModels([*worker(calls(WRITE), says("no")), *guard({"hang": True})])
    async with arena(tmp_path, models=models) as here:
        await here.apply(plan())
        await here.until(lambda: bool(of(models, "guard")))
        (thread,) = here.store.view.list("thread")
        agent, clock = here.get("agent/."), here.world.clock.now()
        seen = observe_agent(agent, here.store.view, here.work, SpecCache(), clock, PLAN)
        hook = here.get("hook/careful")
        question = thread.address.partition("/")[2]
        again = agent_hooks.question_changes(
            here.store.view, seen, hook, {"id": question, "hook_event_name": "before-call"}, 1.0
        )
        assert again == ()
        assert agent_hooks.verdict_of_answer(here.store.view, seen, hook, question) is None
        gone = agent_hooks.verdict_of_answer(here.store.view, seen, hook, "another")
        assert gone == HookVerdict(fault="the question was withdrawn")
        await here.patch({"op": "add", "path": "/cancel", "value": True})
        await here.until_state("task/.", "cancelled")


async def test_looping_hook_ends_with_its_budget_before_its_agent_continues(tmp_path: Path) -> None:
    look = {**calls(call("read", path="notes.txt")), "times": "always"}
    (tmp_path / "notes.txt").write_text("nothing")
    models = ScriptedModels([*worker(calls(WRITE), says("it may not be")), *guard(look)])
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, plan(f"{CAREFUL}, budget: {{turns: 3}}", ", tools: [read]")) == "done"
        assert not (tmp_path / "a.txt").exists()
        said = await fired(here)
        assert not here.store.view.list("thread")
    assert len(of(models, "guard")) == 3
    assert "Parked" in str(said[0])


@pytest.mark.parametrize(
    "mind", ["run: [sh, -c, exit 3]", "python: 'gone.py:watch'", "script: [{fail: I cannot tell}]"]
)
async def test_crashed_hook_is_an_error_for_every_kind_of_decider(tmp_path: Path, mind: str) -> None:
    models = ScriptedModels([*worker(calls(WRITE), says("it may not be"))])
    text = plan().replace("model: test/guard, prompt: watch the files", mind)
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, text) == "done"
        assert not (tmp_path / "a.txt").exists()
        (first, *_) = await fired(here)
    assert first["fired"][0]["verdict"]["fault"]


async def test_another_command_line_agent_is_a_hook_as_it_is_an_agent(tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text(
        "import sys\n"
        "asked = sys.stdin.read()\n"
        "assert 'You are the hook `careful`. You watch the root agent' in asked and 'before-call' in asked, asked\n"
        "print('DENY: judged')\n"
    )
    models = ScriptedModels([*worker(calls(WRITE), says("it may not be"))])
    other = "outside: {run: [python3, judge.py]}, prompt: watch the files"
    text = plan().replace("model: test/guard, prompt: watch the files", other)
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, text) == "done"
        (first, *_) = await fired(here)
    assert first["fired"][0]["verdict"] == {"decision": "deny", "reason": "judged"}


async def test_a_program_is_a_hook_as_it_is_an_agent(tmp_path: Path) -> None:
    (tmp_path / "watch.py").write_text(
        "def watch(turn):\n"
        "    (message,) = turn['messages']\n"
        "    question = message['body']['question']\n"
        "    path = question['tool_input']['path']\n"
        "    return [{'done': {'decision': 'deny', 'reason': f'never {path}'}}]\n"
    )
    models = ScriptedModels([*worker(calls(WRITE), says("it may not be"))])
    text = plan().replace("model: test/guard, prompt: watch the files", "python: 'watch.py:watch'")
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, text) == "done"
        (first, *_) = await fired(here)
    assert first["fired"][0]["verdict"] == {"decision": "deny", "reason": "never a.txt"}


async def test_removing_the_watched_agent_takes_its_hooks_and_their_agents_with_it(tmp_path: Path) -> None:
    text = """
goal: parts
tasks:
  other: {goal: o, agent: {script: [{when: {message: end}, done: ok}]}}
  part:
    goal: p
    agent: {model: test/worker, tools: [write]}
    hooks: {careful: {on: [before-call], match: "write(*)", agent: {model: test/guard, prompt: watch}}}
"""
    models = ScriptedModels([*worker(calls(WRITE)), *guard({"hang": True})])
    async with arena(tmp_path, models=models) as here:
        await here.apply(text)
        await here.until(lambda: bool(of(models, "guard")))
        await here.patch({"op": "remove", "path": "/tasks/part"})
        await here.until(lambda: here.find("task/part") is None and here.find("agent/part/~careful") is None)
        await here.settled_but_timers()
        assert not here.store.view.list("hook") and not here.store.view.list("thread")
    assert models.endings == ["answered", "closed"]


async def test_the_conversation_of_a_hook_is_made_shorter_like_any_other(tmp_path: Path) -> None:
    lines: list[Answer] = [[("write", {"path": f"f{index}.txt", "content": f"{index} " * 700})] for index in range(12)]
    answers: dict[str, list[Answer]] = {"agent/.": [*lines, "written"], "agent/~careful": ["ALLOW"] * 12}
    models = SmallModels(answers, takes_s=0.0, size=4_000)
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, plan()) == "done"
        assert len(list(tmp_path.glob("f*.txt"))) == 12
        assert "context.compacted" in await here.types("agent/~careful")
    last = [each for each in models.asked if each.key.agent == "agent/~careful"][-1]
    assert b"You are the hook `careful`" in last.messages[0], "who it is is never forgotten"
    assert b"f11.txt" in last.messages[-1]


async def test_repeated_or_late_answer_changes_nothing(tmp_path: Path) -> None:
    models = ScriptedModels([*worker(calls(WRITE), says("it may not be")), *guard(says("DENY: no"))])
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, plan()) == "done"
        (question,) = [one["answered"] for one in [draft.data for draft in await here.log()] if "answered" in one]
        (asked_id,) = question
        before = here.store.view.everything()
        address = f"thread/{asked_id}"
        again = {"answers": {asked_id: wrap_value(Answered("ALLOW").to_json())}}
        await here.store.append(
            RecordDraft("message.sent", "agent:~careful", address, (SetStatus(address, Uid(asked_id), again),))
        )
        await here.settled()
        assert here.store.view.everything() == before
        assert not (tmp_path / "a.txt").exists()
