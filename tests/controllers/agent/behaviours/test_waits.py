"""Time in which an agent only waits is traced for calls and is not active time of turns."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from tests.controllers.agent.arena import Arena, arena
from tests.fakes.scripted_models import ScriptedModels
from tests.fakes.virtual_time import StillClock
from tests.product import JsonObject, ModelReply, ModelRequest, OnDelta, SetStatus

pytestmark = pytest.mark.anyio

WAITED_S = 100.0


class Gated(ScriptedModels):
    """Models that answer once their gate is open."""

    def __init__(self, steps: list[JsonObject]) -> None:
        super().__init__(steps)
        self.gate = anyio.Event()

    async def complete(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        await self.gate.wait()
        return await super().complete(request, on_delta)


TRACED = """
agent:
  mixins: [lib:trace]
  script:
    - task: {id: aide, prompt: hello, script: [{call: {shell: {command: cat go}}}, {done: hello}]}
    - done: x
"""


async def test_trace_of_a_call_that_waited_for_a_child_has_the_time_that_it_waited(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    clock = StillClock()
    async with arena(tmp_path, clock=clock) as here:
        await here.apply(TRACED)
        await here.until(lambda: any(one.spec["tool"] == "shell" for one in here.store.view.list("call")))
        (call,) = (one for one in here.store.view.list("call") if one.spec["tool"] == "task")
        await here.until_state(call.address, "AwaitingChild")
        clock.at_s += WAITED_S
        await anyio.Path(tmp_path / "go").write_text("now")
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        (settled,) = [each for each in await here.log() if each.type == "call.settled" and each.subject == call.address]
        assert settled.data["trace"]["outcome"] == "Succeeded"
        assert settled.data["trace"]["seconds"] == WAITED_S


SHARED = """
agents:
  model: {model: test/m}
  outside: {outside: {run: "until [ -e go ]; do sleep 0.02; done; echo so"}}
mixins:
  one: {around: [{on: turn, concurrency-limit: {permits: 1, name: mind}}]}
tasks:
"""


@pytest.mark.parametrize("kind", ["model", "outside"])
async def test_waiting_for_a_permit_to_think_is_not_active_time(tmp_path: Path, kind: str) -> None:
    models = Gated([{"reply": {"text": "so"}, "times": 2}])
    clock = StillClock()
    tasks = "".join(f"  {name}: {{goal: g, agent: {{extends: {kind}, mixins: [one]}}}}\n" for name in "ab")
    async with arena(tmp_path, models=models, clock=clock) as here:
        await here.apply(SHARED + tasks)
        await here.until(lambda: any(why_of(here, name) for name in "ab"))
        name = next(name for name in "ab" if why_of(here, name))
        clock.at_s += WAITED_S
        (tmp_path / "go").touch()
        models.gate.set()
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done"
        assert await turn_of(here, f"agent/{name}") == (WAITED_S, WAITED_S, 0.0)
        assert here.get(f"agent/{name}").status["used"]["time_s"] == 0.0


def why_of(here: Arena, name: str) -> bool:
    agent = here.find(f"agent/{name}")
    return agent is not None and "permit" in str(agent.status.get("why"))


async def turn_of(here: Arena, agent: str) -> tuple[float, float, float]:
    """Seconds that the agent's turn waited, that it took in all, and that count as active time."""
    records = await here.store.log(0, 1_000)
    steps = [(one.at, step) for one in records for step in one.draft.entries if step.subject == agent]
    merges = [each.merge for one in records for each in one.draft.changes if isinstance(each, SetStatus)
              and each.address == agent]  # fmt: skip
    waited_s = max(float((merge.get("open") or {}).get("waited_s") or 0.0) for merge in merges)
    began = next(at for at, step in steps if step.type == "turn.started")
    ended, data = next((at, step.data) for at, step in steps if step.type == "turn.ended")
    return waited_s, ended - began, float(data["active_s"])
