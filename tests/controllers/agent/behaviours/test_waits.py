"""Time in which an agent only waits: traced where a call waited, and no active time where a turn did."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from schemas.record import SetStatus
from tests.controllers.agent.arena import Arena, arena
from tests.fakes.scripted_models import ScriptedModels

pytestmark = pytest.mark.anyio

TRACED = """
agent:
  mixins: [lib:trace]
  script:
    - task: {id: aide, prompt: hello, script: [{call: {shell: {command: cat go}}}, {done: hello}]}
    - done: x
"""


async def test_trace_of_a_call_that_waited_for_a_child_has_the_time_that_it_waited(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    async with arena(tmp_path) as here:
        await here.apply(TRACED)
        await here.until(lambda: any(one.spec["tool"] == "shell" for one in here.store.view.list("call")))
        (call,) = (one for one in here.store.view.list("call") if one.spec["tool"] == "task")
        await anyio.Path(tmp_path / "go").write_text("now")
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        (settled,) = [each for each in await here.log() if each.type == "call.settled" and each.subject == call.address]
        records = await here.store.log(0, 1_000)
        asked, answered = (
            next(one.at for one in records if any(step.type == kind and step.subject == call.address
                                                  for step in one.draft.entries))
            for kind in ("call.waiting", "call.settled")
        )  # fmt: skip
        assert settled.data["trace"]["outcome"] == "Succeeded"
        assert settled.data["trace"]["seconds"] == pytest.approx(answered - asked, abs=0.2)
        assert settled.data["trace"]["seconds"] > 0


SHARED = """
agents:
  model: {model: test/m}
  outside: {outside: {run: "sleep 0.3; echo so"}}
mixins:
  one: {around: [{on: turn, concurrency-limit: {permits: 1, name: mind}}]}
tasks:
"""


@pytest.mark.parametrize("kind", ["model", "outside"])
async def test_waiting_for_a_permit_to_think_is_no_active_time(tmp_path: Path, kind: str) -> None:
    models = ScriptedModels([{"reply": {"text": "so"}, "delay": 0.3}, {"reply": {"text": "so"}, "delay": 0.3}])
    tasks = "".join(f"  {name}: {{goal: g, agent: {{extends: {kind}, mixins: [one]}}}}\n" for name in "ab")
    async with arena(tmp_path, models=models) as here:
        await here.apply(SHARED + tasks)
        await here.until(lambda: any(why_of(here, name) for name in "ab"))
        name = next(name for name in "ab" if why_of(here, name))
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done"
        waited_s, whole_s, active_s = await turn_of(here, f"agent/{name}")
        assert waited_s > 0.1
        assert active_s <= whole_s - waited_s + 0.05
        assert here.get(f"agent/{name}").status["used"]["time_s"] == pytest.approx(active_s, abs=0.001)


def why_of(here: Arena, name: str) -> bool:
    agent = here.find(f"agent/{name}")
    return agent is not None and "permit" in str(agent.status.get("why"))


async def turn_of(here: Arena, agent: str) -> tuple[float, float, float]:
    """Seconds that the agent's turn waited, that it took in all, and that count."""
    records = await here.store.log(0, 1_000)
    steps = [(one.at, step) for one in records for step in one.draft.entries if step.subject == agent]
    merges = [each.merge for one in records for each in one.draft.changes if isinstance(each, SetStatus)
              and each.address == agent]  # fmt: skip
    waited_s = max(float((merge.get("open") or {}).get("waited_s") or 0.0) for merge in merges)
    began = next(at for at, step in steps if step.type == "turn.started")
    ended, data = next((at, step.data) for at, step in steps if step.type == "turn.ended")
    return waited_s, ended - began, float(data["active_s"])
