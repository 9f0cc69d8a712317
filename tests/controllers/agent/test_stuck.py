"""An agent that repeats failed attempts is stopped, or a stronger model continues its conversation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planloop.controllers.agent import escalation
from planloop.controllers.agent import status as statuses
from planloop.controllers.agent.decide import StartTurn
from planloop.controllers.agent.models import chat_request
from planloop.controllers.agent.models.port import ModelReply, ModelRequest, OnDelta
from planloop.controllers.agent.status import OpenTurn, TurnCall, TurnNews, TurnReply, TurnRequest, TurnTimes
from planloop.schemas.objects.agent import AgentSpec, Escalation, ModelDeciderSpec
from planloop.schemas.rights import Rights
from tests import rows
from tests.controllers.agent.arena import Arena, arena
from tests.controllers.agent.mortal import live_and_die, to_the_end
from tests.controllers.agent.test_deciding import CLAIMED, seen, step
from tests.controllers.agent.test_tier_caps import obey
from tests.fakes.pure_models import Answer, PureModels
from tests.fakes.scripted_models import ScriptedModels
from tests.product import AgentWork, CallResult, CallState, EffectClass, JsonObject, TaskSpec

pytestmark = pytest.mark.anyio

PLAN = """
acceptance: [{sh: "false"}]
agent: {model: test/m, tools: [list, write, shell]}
goal: answer
"""
ESCALATING = """
acceptance: [{require-file: answer.txt}]
goal: answer
agent:
  model: test/m
  tools: [list, write, shell]
  escalate: {after: 3, model: test/strong, budget: {turns: 4}}
"""


def says(text: str, **more: Any) -> JsonObject:
    return {"reply": {"text": text}, **more}


def calls(name: str, arguments: JsonObject, **more: Any) -> JsonObject:
    return {"reply": {"calls": [{"name": name, "arguments": arguments}]}, **more}


def asked_of(models: ScriptedModels) -> list[str]:
    return [request.model for request in models.asked]


async def run(here: Arena, plan: str = PLAN) -> JsonObject:
    await here.apply(plan)
    await here.until_state("task/.", "done", "failed", "blocked")
    ready: JsonObject = here.get("task/.").status["conditions"]["Ready"]
    return ready


@pytest.mark.parametrize(
    "answers",
    [
        ["The total is seven.", "The total is seven.", "The total is seven."],
        ["The total is  seven", "the total is seven!", "\n*The total* is: seven."],
        ["Attempt 1: the file is missing", "Attempt 2: the file is missing", "Attempt 3: the file is missing"],
        ["42", "42.0", " 42."],
    ],
    ids=["same", "blanks-and-case", "counted", "number"],
)
async def test_an_answer_that_is_rejected_a_third_time_ends_the_task_as_stuck(
    tmp_path: Path, answers: list[str]
) -> None:
    models = ScriptedModels([*map(says, answers), says("never asked")])
    async with arena(tmp_path, models=models) as here:
        ready = await run(here)
    assert (ready["reason"], len(models.asked)) == ("Stuck", 3)
    assert "same answer 3 times" in ready["message"]


async def test_two_answers_in_turn_end_the_task_as_stuck(tmp_path: Path) -> None:
    models = ScriptedModels([says("it is a red house"), says("it is a blue boat")] * 3)
    async with arena(tmp_path, models=models) as here:
        ready = await run(here)
    assert (ready["reason"], len(models.asked)) == ("Stuck", 4)


async def test_a_call_that_fails_a_third_time_ends_the_task_as_stuck(tmp_path: Path) -> None:
    tries = [calls("shell", {"command": f"exit{' ' * count}3"}) for count in (1, 2, 3, 4)]
    models = ScriptedModels(tries)
    async with arena(tmp_path, models=models) as here:
        ready = await run(here)
    assert (ready["reason"], len(models.asked)) == ("Stuck", 3)
    assert "failing call of shell 3 times" in ready["message"]


async def test_two_failing_calls_in_turn_end_the_task_as_stuck(tmp_path: Path) -> None:
    pair = [calls("shell", {"command": "exit 3"}), calls("list", {"path": "nowhere"})]
    models = ScriptedModels(pair * 3)
    async with arena(tmp_path, models=models) as here:
        ready = await run(here)
    assert (ready["reason"], len(models.asked)) == ("Stuck", 4)


async def test_other_answers_and_other_work_between_them_are_not_stuck(tmp_path: Path) -> None:
    tries = [step for n in range(4) for step in (calls("write", {"path": f"{n}.txt", "content": "x"}), says("Done."))]
    other = [says("it is a red house"), says("a blue boat, perhaps"), says("nothing of the kind at all")]
    last = [calls("write", {"path": "ok", "content": "x"}), says("Done.")]
    async with arena(tmp_path, models=ScriptedModels([*tries, *other, *last])) as here:
        ready = await run(here, PLAN.replace('sh: "false"', "require-file: ok"))
    assert ready["reason"] == "Done"


async def test_a_command_that_fails_between_two_edits_is_not_stuck(tmp_path: Path) -> None:
    test = calls("shell", {"command": "test -e 3.txt"})
    tries = [each for n in range(4) for each in (test, calls("write", {"path": f"{n}.txt", "content": "x"}))]
    async with arena(tmp_path, models=ScriptedModels([*tries, test, says("Done.")])) as here:
        ready = await run(here, PLAN.replace('sh: "false"', "require-file: 3.txt"))
    assert ready["reason"] == "Done"


async def test_repeated_change_is_not_progress(tmp_path: Path) -> None:
    again = [calls("write", {"path": "answer.txt", "content": "x"}), says("The total is seven.")]
    models = ScriptedModels(again * 4)
    async with arena(tmp_path, models=models) as here:
        ready = await run(here)
    assert (ready["reason"], len(models.asked)) == ("Stuck", 6)


FAILS = CallResult(CallState.FAILED, error="Exit", exit_code=3)
BUSY = replace(FAILS, error="Locked")


def looked(text: str) -> CallResult:
    return CallResult(CallState.SUCCEEDED, text)


BEFORE: dict[str, tuple[list[CallResult], str, list[str]]] = {
    "failures": ([FAILS, FAILS], "results", ["call", "call", "call"]),
    "news from outside": ([FAILS, FAILS], "message", ["call"]),
    "calls that are meant to be made again": ([BUSY, BUSY], "results", ["call"]),
    "looks at something new": ([FAILS, looked("a"), FAILS, looked("b")], "results", ["done", "done", "call"]),
    "a look at something known": ([looked("a"), FAILS, looked("a")], "results", ["done", "call", "call"]),
}


@rows.each("before, reason, kinds".split(", "), BEFORE.values(), ids=BEFORE)
def test_attempts_that_count_when_a_call_fails(before: list[CallResult], reason: str, kinds: list[str]) -> None:
    tried: tuple[JsonObject, ...] = ()
    for number, result in enumerate((*before, FAILS)):
        is_look = result.state is CallState.SUCCEEDED
        made = TurnCall("call/c", "list" if is_look else "shell", {})
        why = (reason if number == len(before) else "results",)
        turn = OpenTurn(
            2,
            TurnNews(why, (), 1),
            TurnTimes(0.0),
            TurnRequest("op"),
            TurnReply(calls=(made,)),
            results={made.address: result},
        )
        effect = EffectClass.READ if is_look else EffectClass.ONCE
        tried = escalation.attempts_after_turn(seen({"tried": list(tried)}), turn, [effect])
    assert [each["kind"] for each in tried] == kinds


ALIKE = {
    "small edits": (
        "the config is missing a comma near the end of it",
        "the config is missing a comma near the end of this",
        True,
    ),
    "numbers where there are words": ("I have counted 12 files here", "I have counted 13 files here.", True),
    "numbers alone": ("12", "13", False),
    "short and other": ("red", "rod", False),
    "another word that counts": ("use the left door", "use the right gate", False),
    "one short word": ("the answer is yes", "the answer is no", False),
    "json": ({"sum": [1, 2]}, '{"sum": [1,  2]}', True),
}


@rows.each("one, other, alike".split(", "), ALIKE.values(), ids=ALIKE)
def test_answers_are_compared_by_what_they_say(one: Any, other: Any, alike: bool) -> None:
    made = [{"kind": escalation.ANSWER_TRIED, "what": escalation.normalize_answer(each)} for each in (one, other)]
    assert escalation.is_same_attempt(*made) is alike


async def test_a_stuck_agent_escalates_and_the_conversation_continues(tmp_path: Path) -> None:
    models = ScriptedModels(
        [
            {**says("it cannot be done"), "times": 3},
            calls("write", {"path": "answer.txt", "content": "x"}),
            says("There."),
        ]
    )
    async with arena(tmp_path, models=models) as here:
        ready = await run(here, ESCALATING)
        status = here.get("agent/.").status
    assert ready["reason"] == "Done"
    assert asked_of(models) == ["test/m"] * 3 + ["test/strong"] * 2
    assert (status["escalated"]["to"], status["used"]["turns"]) == ("test/strong", 5)
    messages = [json.loads(each) for each in models.asked[3].messages]
    said = [message["content"] for message in messages if message["role"] == "assistant"]
    assert said[0] == "it cannot be done"


async def test_different_rejected_answers_escalate_after_the_configured_number(tmp_path: Path) -> None:
    models = ScriptedModels(
        [says("red"), says("a green one"), calls("write", {"path": "answer.txt", "content": "x"}), says("There.")]
    )
    async with arena(tmp_path, models=models) as here:
        await run(here, ESCALATING.replace("after: 3", "after: 2"))
    assert asked_of(models) == ["test/m"] * 2 + ["test/strong"] * 2


async def test_an_agent_that_is_stuck_after_its_escalation_too_is_stopped(tmp_path: Path) -> None:
    models = ScriptedModels([{**says("it cannot be done"), "times": 9}])
    async with arena(tmp_path, models=models) as here:
        ready = await run(here, ESCALATING)
    assert (ready["reason"], asked_of(models)) == ("Stuck", ["test/m"] * 3 + ["test/strong"] * 3)


async def test_a_stronger_model_stops_at_its_own_budget(tmp_path: Path) -> None:
    models = ScriptedModels([says("red"), says("a green one"), *(says(f"{word} it is") for word in "abcdefgh")])
    async with arena(tmp_path, models=models) as here:
        ready = await run(here, ESCALATING.replace("after: 3", "after: 2").replace("turns: 4", "turns: 2"))
    assert ready["reason"] == "BudgetSpent"
    assert "agent.escalate.budget.turns" in ready["unblocks"][0]


async def test_the_hint_at_an_escalations_budget_raises_the_cap_of_its_tier_with_it(tmp_path: Path) -> None:
    plan = ESCALATING.replace("after: 3", "after: 2").replace("turns: 4", "turns: 5")
    models = ScriptedModels([says("red"), says("a green one"), *(says(f"{word} it is") for word in "abcdefghijkl")])
    async with arena(tmp_path, models=models) as here:
        ready = await run(here, f"{plan}rights: {{tiers: [{{budget: {{turns: 9}}}}]}}\n")
        assert "agent.escalate.budget.turns" in ready["message"]
        count = len(models.asked)
        await obey(here, ready["unblocks"][0])
        await here.until(lambda: len(models.asked) > count)


class Thinking(ScriptedModels):
    """Models that return thoughts with each reply; `sent` has the messages of each request."""

    sent: tuple[bytes, ...] = ()

    async def complete(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        self.sent += (b"".join(request.messages),)
        reply = await super().complete(
            replace(request, messages=tuple(chat_request.strip_foreign_fields(request.messages))), on_delta
        )
        return replace(reply, extra={"reasoning_content": "hm"})


def test_an_edit_while_the_third_answer_is_checked_does_not_escalate() -> None:
    alike = [{"kind": escalation.ANSWER_TRIED, "what": "it cannot be done"}] * 3
    spec = AgentSpec(
        "task/.", ModelDeciderSpec("test/m"), Rights(), escalate=Escalation(ModelDeciderSpec("test/strong"), 3)
    )
    edited = TaskSpec("another goal", AgentWork("agent/."))
    taken = step(seen({**CLAIMED, "tried": alike}, spec=spec, task_spec=edited))
    assert isinstance(taken, StartTurn) and taken.news.reasons == ("goal",)


def test_model_set_by_an_operator_after_the_escalation_takes_over() -> None:
    given = ModelDeciderSpec("test/given", stated="given")
    spec = AgentSpec(
        "task/.",
        ModelDeciderSpec("test/m"),
        Rights(),
        escalate=Escalation(ModelDeciderSpec("test/strong"), 3),
        granted=given,
    )
    for before, model in (("", "test/given"), ("given", "test/strong")):
        status = statuses.read_agent_status({"escalated": {"to": "test/strong", "over": before}})
        assert escalation.current_model(spec, status).model == model


async def test_fields_of_the_model_before_are_not_sent_to_the_stronger_one(tmp_path: Path) -> None:
    models = Thinking(
        [{**says("it cannot be done"), "times": 3}, calls("write", {"path": "answer.txt", "content": "x"}), says("So.")]
    )
    async with arena(tmp_path, models=models) as here:
        ready = await run(here, ESCALATING)
    assert ready["reason"] == "Done"
    assert [sent.count(b"reasoning_content") for sent in models.sent] == [0, 1, 2, 0, 1]


@pytest.mark.sweep(keep=3)
@pytest.mark.parametrize("after", range(2, 17))
async def test_an_owner_that_dies_at_any_write_escalates_once(tmp_path: Path, after: int) -> None:
    answers: list[Answer] = ["it cannot be done"] * 3
    models = PureModels(
        {"agent/.": [*answers, [("write", {"path": "answer.txt", "content": "x"})], "There."]}, takes_s=0
    )
    seen: list[JsonObject] = []

    async def play(here: Arena) -> None:
        await to_the_end(here, ESCALATING)
        seen[:] = [draft.data for draft in await here.log() if draft.type == "agent.escalated"]

    await live_and_die(play, tmp_path, [after], models=models)
    assert len(seen) == 1
    by_turn = {request.key.turn: request.model for request in models.asked}
    assert by_turn == {1: "test/m", 2: "test/m", 3: "test/m", 4: "test/strong", 5: "test/strong"}
