"""An approval grants what was requested: to a named agent, above a stated budget, and another model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planloop.reconciler.admission import approvals
from planloop.reconciler.errors import TerminalError
from tests import rows
from tests.controllers.agent.arena import Arena, arena
from tests.fakes.scripted_models import ScriptedModels
from tests.product import HUMAN_CLI, JsonObject, PatchAccepted, PatchRefused

pytestmark = pytest.mark.anyio

SCRIPTED = """
rights: {{tools: all, network: all}}
agents:
  reader:
    tools: [read]
    budget: {{turns: 9}}
    script: [{{call: {{request: {what}}}}}, {{when: {{message: approved}}, done: x}}]
tasks:
  kid: {{goal: a, agent: reader{more}}}
  twin: {{goal: b, agent: {{tools: [read], extends: reader, script: [{{when: {{message: never}}, done: x}}]}}}}
"""


async def asked(here: Arena, plan: str, agent: str = "kid") -> None:
    verdict = await here.apply(plan)
    assert isinstance(verdict, PatchAccepted)
    await here.until(lambda: here.find(f"approval/{agent}.1") is not None)


def request(kind: str, what: str) -> str:
    return f"{{kind: {kind}, what: {what}, why: so, to: person}}"


async def test_tool_is_granted_to_a_named_agent_only(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await asked(here, SCRIPTED.format(what=request("tool", "fetch"), more=""))
        assert isinstance(await here.gate.approve("approval/kid.1", HUMAN_CLI), PatchAccepted)
        await here.until_state("task/kid", "done")
        assert "fetch" in here.get("agent/kid").spec["tools"]
        assert "fetch" not in here.get("agent/twin").spec["tools"]


async def test_toolset_is_granted_as_its_tools(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await asked(here, SCRIPTED.format(what=request("tools", "[lib:tiny, fetch]"), more=""))
        assert isinstance(await here.gate.approve("approval/kid.1", HUMAN_CLI), PatchAccepted)
        await here.until_state("task/kid", "done")
        assert {"list", "fetch"} <= set(here.get("agent/kid").spec["tools"])


async def test_a_budget_that_the_agent_states_is_raised_for_its_task_alone(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await asked(here, SCRIPTED.format(what=request("budget", "{turns: 5}"), more=""))
        assert isinstance(await here.gate.approve("approval/kid.1", HUMAN_CLI), PatchAccepted)
        assert here.get("task/kid").spec["budget"]["turns"] == 14
        assert here.get("task/twin").spec["budget"]["turns"] == 9


@pytest.mark.parametrize(
    "what",
    ["'{\"turns\": 5}'", "5 turns", "{turns: '5'}"],
    ids=["text", "words", "number"],
)
async def test_a_budget_is_raised_however_the_amount_is_written(tmp_path: Path, what: str) -> None:
    async with arena(tmp_path) as here:
        await asked(here, SCRIPTED.format(what=request("budget", what), more=""))
        assert isinstance(await here.gate.approve("approval/kid.1", HUMAN_CLI), PatchAccepted)
        assert here.get("task/kid").spec["budget"]["turns"] == 14


WORDS = {
    "1 turn": {"turns": "1"},
    "1,000 tokens, $2": {"tokens": "1000"},
    "2 dollars or 90 seconds": {"usd": "2", "time": "90"},
    "3 retries": {"retries": "3"},
    "a few more turns": {},
}


@rows.each("words, amounts".split(", "), WORDS.items(), ids=WORDS)
def test_amounts_are_read_from_the_text_of_a_request(words: str, amounts: JsonObject) -> None:
    assert approvals._amounts(words) == amounts


@pytest.mark.parametrize("amount", ["Infinity", "NaN", "-5", "[1]"])
async def test_a_request_without_a_finite_positive_amount_is_refused(tmp_path: Path, amount: str) -> None:
    async with arena(tmp_path) as here:
        await asked(here, SCRIPTED.format(what=request("budget", f"{{turns: '{amount}'}}"), more=""))
        with pytest.raises(TerminalError, match="invalid amount"):
            await here.gate.approve("approval/kid.1", HUMAN_CLI)
        assert here.get("task/kid").spec["budget"]["turns"] == 9


async def test_a_budget_that_task_and_agent_state_is_raised_in_both(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await asked(here, SCRIPTED.format(what=request("budget", "{turns: 5}"), more=", budget: {turns: 10, calls: 7}"))
        assert isinstance(await here.gate.approve("approval/kid.1", HUMAN_CLI), PatchAccepted)
        assert here.get("task/kid").spec["budget"] == {"turns": 14, "calls": 7}


async def test_a_budget_that_only_the_plan_states_is_raised_there(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        plan = SCRIPTED.format(what=request("budget", "{calls: 5}"), more="") + "budget: {calls: 20}\n"
        await asked(here, plan)
        assert isinstance(await here.gate.approve("approval/kid.1", HUMAN_CLI), PatchAccepted)
        assert here.get("task/.").spec["budget"]["calls"] == 25


async def test_more_than_the_tier_allows_is_refused_with_its_line_and_the_hint_helps(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        tiers = "rights: {tiers: [{tools: all}, {budget: {turns: 10}}]}\n"
        plan = SCRIPTED.format(what=request("budget", "{turns: 5}"), more="").replace(
            "rights: {tools: all, network: all}\n", tiers
        )
        await asked(here, plan)
        refused = await here.gate.approve("approval/kid.1", HUMAN_CLI)
        assert isinstance(refused, PatchRefused)
        assert "rights.tiers.1.budget.turns" in refused.faults[0].message
        assert refused.faults[0].hint.endswith("plan patch . rights.tiers.1.budget.turns=15")
        await here.patch({"op": "replace", "path": "/rights/tiers/1/budget/turns", "value": 15})
        assert isinstance(await here.gate.approve("approval/kid.1", HUMAN_CLI), PatchAccepted)


async def test_a_tool_that_rights_deny_is_refused_and_the_request_waits_on(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        plan = SCRIPTED.format(what=request("tool", "shell"), more="").replace(
            "tools: all", "tools: all, deny: [shell]"
        )
        await asked(here, plan)
        assert isinstance(await here.gate.approve("approval/kid.1", HUMAN_CLI), PatchRefused)
        assert here.state("approval/kid.1") == "waiting"


async def test_a_yes_to_another_model_continues_the_same_conversation(tmp_path: Path) -> None:
    asks: JsonObject = {"kind": "model", "what": "test/strong", "why": "it is hard", "to": "person"}
    models = ScriptedModels(
        [
            {"reply": {"calls": [{"name": "request", "arguments": asks}]}},
            {"reply": {"text": "I wait for that."}},
            {"reply": {"text": "done it"}, "when": {"last": "approved"}},
        ]
    )
    async with arena(tmp_path, models=models) as here:
        await asked(here, "goal: x\nagents: {worker: {model: test/m}}\nagent: worker\n", "root")
        await here.until_state("agent/.", "asleep", "blocked")
        assert isinstance(await here.gate.approve("approval/root.1", HUMAN_CLI), PatchAccepted)
        await here.until_state("task/.", "done")
        assert here.get("task/.").status["incarnation"] == 1
    assert [each.model for each in models.asked] == ["test/m", "test/m", "test/strong"]
    assert b"I wait for that." in b"".join(models.asked[2].messages)


async def test_a_model_that_rights_do_not_allow_is_refused(tmp_path: Path) -> None:
    asks: JsonObject = {"kind": "model", "what": "other/strong", "why": "it is hard", "to": "person"}
    models = ScriptedModels(
        [{"reply": {"calls": [{"name": "request", "arguments": asks}]}}, {"reply": {"text": "I wait"}}]
    )
    async with arena(tmp_path, models=models) as here:
        await asked(here, "goal: x\nrights: {models: ['test/*']}\nagent: {model: test/m}\n", "root")
        refused = await here.gate.approve("approval/root.1", HUMAN_CLI)
        assert isinstance(refused, PatchRefused)
        assert "other/strong" in refused.faults[0].message


async def test_a_parent_gives_a_child_of_the_file_a_tool_that_it_may_grant(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            rights: {network: all}
            agents:
              reader:
                tools: [read]
                script:
                  - call: {request: {kind: tool, what: fetch, why: to look}}
                  - {when: {message: approved}, done: x}
            agent:
              script:
                - {when: {message: to look}, call: {answer: {to: kid.1, answer: "yes"}}}
                - expect: ok
                - {when: {children: done}, done: x}
            tasks:
              kid: {goal: a, agent: reader}
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        assert "fetch" in here.get("agent/kid").spec["tools"]


@pytest.mark.parametrize(
    "field",
    [
        '{"granted": {"tools": ["shell"]}}',
        '{"agent": {"model": "test/m", "escalate": "x@http://elsewhere.example/v1"}}',
        '{"agent": {"model": "test/m"}, "granted": {"model": "x@http://elsewhere.example/v1"}}',
    ],
    ids=["tool", "escalation", "model"],
)
async def test_law_6_an_agent_gives_a_child_nothing_that_it_may_not_grant(tmp_path: Path, field: str) -> None:
    value = json.dumps({"goal": "a", "agent": {"tools": ["read"], "script": [{"done": "x"}]}, **json.loads(field)})
    patch = f'[{{"op": "add", "path": "/tasks/kid", "value": {value}}}]'
    async with arena(tmp_path) as here:
        await here.apply(f"""
            rights: {{tools: [read, list, edit_plan, task], grant: {{tools: [read]}}}}
            goal: x
            agent: {{script: [{{patch: {patch}}}, {{expect: {{ok: false}}}}, {{done: x}}]}}
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        assert here.find("task/kid") is None
