"""The budget of a tier limits each agent by itself and reserves nothing of its parent's. Limits are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.agent.arena import Arena, arena
from tests.fakes.scripted_models import ScriptedModels
from tests.product import JsonObject, PatchAccepted

pytestmark = pytest.mark.anyio

WAITS = "{script: [{when: {message: end}, done: x}]}"
IDLE = "{script: [{call: {list: {}}}, {call: {list: {}}}, {call: {list: {}}}, {done: x}], tools: [list]}"


def ready(here: Arena, task: str) -> JsonObject:
    found: JsonObject = here.get(task).status["conditions"]["Ready"]
    return found


async def obey(here: Arena, way: str) -> None:
    """Run the command of a hint: `plan patch TASK FIELD=VALUE …`."""
    _, verb, task, *settings = way.split()
    assert verb == "patch"
    prefix = "" if task == "." else "".join(f"/tasks/{name}" for name in task.partition("/")[2].split("/"))
    ops = [(path, value) for path, _, value in (each.partition("=") for each in settings)]
    verdict = await here.patch(
        *({"op": "add", "path": f"{prefix}/{path.replace('.', '/')}", "value": int(value)} for path, value in ops)
    )
    assert isinstance(verdict, PatchAccepted), verdict


async def test_children_start_together_though_their_caps_add_up_to_more(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(f"""
            budget: {{turns: 10}}
            rights: {{tiers: [{{}}, {{budget: {{turns: 8, usd: 100}}}}]}}
            tasks:
              a: {{goal: x, agent: {WAITS}}}
              b: {{goal: x, agent: {WAITS}}}
              c: {{goal: x, agent: {WAITS}}}
        """)
        await here.until(lambda: all(here.state(f"task/{name}") == "running" for name in "abc"))
        assert here.get("task/.").status["ledger"]["turns"].get("granted") is None
        assert here.get("task/a").spec["budget"] == {}


async def test_agent_may_add_a_child_whose_cap_exceeds_its_remaining_budget(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            budget: {turns: 6}
            rights: {tiers: [{}, {budget: {turns: 50}}]}
            agent:
              script:
                - task: {id: kid, goal: a, script: [{done: x}]}
                - {when: {children: done}, done: x}
        """)
        await here.until_state("task/.", "done", "failed", "blocked")
        assert here.state("task/.") == "done"


async def test_agent_at_its_tier_cap_is_parked_and_continues_after_the_hint_is_run(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(f"""
            budget: {{turns: 40}}
            rights: {{tiers: [{{}}, {{budget: {{turns: 2}}}}]}}
            tasks:
              a: {{goal: x, agent: {IDLE}}}
        """)
        await here.until_state("task/a", "blocked")
        found = ready(here, "task/a")
        assert found["reason"] == "BudgetSpent"
        assert "its tier's cap of turns is used up: 2 turns (rights.tiers.1.budget.turns)" in found["message"]
        await obey(here, found["unblocks"][0])
        await here.until_state("task/a", "done")


async def test_each_agent_of_a_tier_has_the_cap_for_itself(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(f"""
            rights: {{tiers: [{{budget: {{turns: 5}}}}]}}
            tasks:
              a: {{goal: x, agent: {IDLE}, tasks: {{b: {{goal: y, agent: {IDLE}}}}}}}
        """)
        await here.until_state("task/.", "done", "blocked")
        assert here.state("task/.") == "done"


async def test_a_cap_over_the_budget_of_the_task_gives_nothing_more(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(f"""
            rights: {{tiers: [{{}}, {{budget: {{turns: 8}}}}]}}
            tasks:
              a: {{goal: x, agent: {IDLE}, budget: {{turns: 2}}}}
        """)
        await here.until_state("task/a", "blocked", "done")
        assert here.state("task/a") == "blocked"
        assert "tasks.a.budget.turns" in ready(here, "task/a")["message"]


@pytest.mark.parametrize(
    ("lines", "whose", "line"),
    [
        ("a: {goal: x, agent: AGENT, budget: {turns: 2}}", "its budget", "tasks.a.budget.turns"),
        ("a: {goal: x, agent: worker}", "its agent's budget", "agents.worker.budget.turns"),
        ("a: {goal: x, agent: AGENT}", "the plan's budget", "budget.turns"),
        (
            "g: {budget: {turns: 2}, tasks: {a: {goal: x, agent: AGENT}}}",
            "task/g's budget",
            "tasks.g.budget.turns",
        ),
        (
            "g: {budget: {turns: 3}, tasks: {a: {goal: x, agent: AGENT, budget: {turns: 2}}}}",
            "its budget",
            "tasks.a.bu",
        ),
    ],
    ids=["task", "agent", "plan", "parent", "task-of-a-poor-parent"],
)
async def test_parked_agent_names_the_exceeded_limit_and_its_hint_resumes_it(
    tmp_path: Path, lines: str, whose: str, line: str
) -> None:
    async with arena(tmp_path) as here:
        plan = f"budget: {{turns: 2}}\ntasks:\n  {lines}" if whose.startswith("the plan") else f"tasks:\n  {lines}"
        agents = f"agents: {{worker: {IDLE[:-1]}, budget: {{turns: 2}}}}}}\n"
        await here.apply(agents + plan.replace("AGENT", IDLE))
        at = "task/g/a" if "g: {" in lines else "task/a"
        await here.until_state(at, "blocked")
        found = ready(here, at)
        assert whose in found["message"]
        assert line in found["message"]
        await obey(here, found["unblocks"][0])
        await here.until_state(at, "done")


async def test_a_model_at_its_tiers_cap_hands_over_in_a_last_turn(tmp_path: Path) -> None:
    looks = {"reply": {"calls": [{"name": "list", "arguments": {}}]}}
    models = ScriptedModels([looks, looks, {"reply": {"text": "half of it is done"}, "when": {"last": "last turn"}}])
    async with arena(tmp_path, models=models) as here:
        await here.apply("goal: x\nrights: {tiers: [{budget: {turns: 3}}]}\nagent: {model: test/m, tools: [list]}\n")
        await here.until_state("task/.", "blocked")
        assert ready(here, "task/.")["reason"] == "BudgetSpent"
    assert len(models.asked) == 3


async def test_no_request_uses_more_than_the_cap_leaves(tmp_path: Path) -> None:
    last = {"reply": {"text": "half of it"}, "when": {"last": "last turn"}, "usage": {"in": 900, "out": 10}}
    looks = {"reply": {"calls": [{"name": "list", "arguments": {}}]}, "times": 9, "usage": {"in": 7_890, "out": 10}}
    models = ScriptedModels([last, looks])
    async with arena(tmp_path, models=models) as here:
        await here.apply("goal: x\nrights: {tiers: [{budget: {tokens: 20k}}]}\nagent: {model: test/m, tools: [list]}\n")
        await here.until_state("task/.", "blocked")
        used = here.get("agent/.").status["used"]["tokens"]

    assert 15_800 < used <= 20_000


async def test_model_is_told_its_cap_and_when_little_is_left(tmp_path: Path) -> None:
    looks = {"reply": {"calls": [{"name": "list", "arguments": {}}]}, "times": 9}
    models = ScriptedModels([looks, {"reply": {"text": "ten"}}])
    async with arena(tmp_path, models=models) as here:
        await here.apply("goal: x\nrights: {tiers: [{budget: {turns: 11}}]}\nagent: {model: test/m, tools: [list]}\n")
        await here.until_state("task/.", "done")
    assert b"Your budget: 11 turns" in models.asked[0].messages[0]
    assert b"budget_left" in b"".join(models.asked[-1].messages)
