"""Trace, timeout, permits and cache: each alone, then together in their stated order."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.controllers.agent.arena import Arena, arena
from tests.controllers.agent.behaviours.tools import Flaky, tools_with
from tests.controllers.task.harness import is_alive
from tests.product import EffectClass, JsonObject

pytestmark = pytest.mark.anyio


async def run(here: Arena, text: str, expected: str = "done") -> None:
    await here.apply(text)
    await here.until_state("task/.", "done", "failed")
    await here.settled()
    assert here.state("task/.") == expected, str(here.get("task/.").status)


async def settled(here: Arena, tool: str) -> list[JsonObject]:
    """The data of the records that settled calls of the tool."""
    return [each.data for each in await here.log() if each.type == "call.settled" and each.data["tool"] == tool]


def agent(mixins: str, script: str, tools: str = "[search, shell, read, write, list]") -> str:
    return f"agent:\n  tools: {tools}\n  mixins: {mixins}\n  script: {script}\n"


SEARCH = "call: {search: {text: x}}"


async def test_trace_writes_how_long_calls_and_turns_took_and_how_they_ended(tmp_path: Path) -> None:
    flaky = Flaky(failures=1, error="BadQuery")
    script = f"[{{{SEARCH}}}, {{expect: {{ok: false}}}}, {{call: {{list: {{}}}}}}, {{done: so}}]"
    async with arena(tmp_path, tools=tools_with(flaky)) as here:
        await run(here, agent("[lib:trace]", script))
        (failed,) = await settled(here, "search")
        assert failed["trace"]["outcome"] == "BadQuery" and failed["trace"]["seconds"] >= 0
        (in_place,) = await settled(here, "list")
        assert in_place["trace"]["outcome"] == "Succeeded"
        replies = [each.data for each in await here.log() if each.type == "model.replied"]
        assert all(reply["trace"]["outcome"] == "replied" for reply in replies)


async def test_trace_can_be_turned_off_by_its_setting(tmp_path: Path) -> None:
    script = "[{call: {list: {}}}, {done: so}]"
    async with arena(tmp_path) as here:
        await run(here, agent("[{lib:trace: {enabled: false}}]", script))
        assert "trace" not in (await settled(here, "list"))[0]


async def test_timeout_kills_the_process_group_of_a_command_and_keeps_its_output(
    tmp_path: Path,
) -> None:
    line = "echo began; sleep 60 & echo $! > pid; wait"
    script = f'[{{call: {{shell: {{command: "{line}"}}}}}}, {{expect: {{error: TimedOut}}}}, {{done: so}}]'
    async with arena(tmp_path) as here:
        await run(here, agent("[{lib:timeout: {after: 300ms}}]", script))
        (result,) = await here.results("shell")
        assert "began" in result["text"]
        assert not is_alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("effect", "state"),
    [(EffectClass.READ, "Failed"), (EffectClass.IDEMPOTENT, "Failed"), (EffectClass.ONCE, "Unknown")],
)
async def test_stopped_call_that_may_have_happened_is_unknown(tmp_path: Path, effect: EffectClass, state: str) -> None:
    hangs = Flaky(effect=effect, gate=anyio.Event())
    async with arena(tmp_path, tools=tools_with(hangs)) as here:
        await here.apply(agent("[{lib:timeout: {after: 50ms}}]", f"[{{{SEARCH}}}, {{done: so}}]"))
        await here.until(lambda: hangs.began != [] and hangs.running == 0)
        await here.until(lambda: not here.work.live_count)
        (result,) = await here.results("search")
        assert (result["state"], "timeout" in result["text"]) == (state, True)


async def test_a_turn_that_takes_too_long_gives_up_with_the_mixins_name(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await run(here, 'goal: g\nagent: {run: "sleep 60", mixins: [{lib:timeout: {turn: 200ms}}]}', "failed")
        assert "lib:timeout" in str(here.get("task/.").status)


async def test_crashed_decider_is_asked_again_under_a_new_request(tmp_path: Path) -> None:
    (tmp_path / "m.sh").write_text("echo x >> tries; test $(wc -l < tries) -ge 3 || exit 1; echo '{\"done\": 1}'")
    text = """
goal: g
budget: {retries: 5}
mixins: {stubborn: {around: [{retry: {max: 4, backoff: 1ms}, on: turn}]}}
agent: {run: "sh m.sh", mixins: [stubborn, lib:trace]}
"""
    async with arena(tmp_path) as here:
        await run(here, text)
        assert (tmp_path / "tries").read_text().count("x") == 3
        requests = [each.data for each in await here.log() if each.type == "model.requested"]
        assert len({request["op"] for request in requests}) == 3
        assert [request["retry"] for request in requests if "retry" in request] == [1, 2]


async def test_permits_bound_parallel_calls_and_all_calls_run_in_the_end(tmp_path: Path) -> None:
    flaky = Flaky(gate=anyio.Event())
    calls = ", ".join(f"{{call: {{search: {{text: x{n}}}}}}}" for n in range(6))
    async with arena(tmp_path, tools=tools_with(flaky)) as here:
        await here.apply(agent("[{lib:concurrency-limit: {permits: 2}}]", f"[{{parallel: [{calls}]}}, {{done: so}}]"))
        await here.until(lambda: flaky.running == 2)
        assert flaky.gate is not None
        flaky.gate.set()
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert (flaky.most, len(flaky.began)) == (2, 6)


def shared(count: int, permits: int) -> str:
    agents = "\n".join(
        f"  a{n}: {{goal: g, agent: {{extends: one, script: [{{{SEARCH}}}, {{done: so}}]}}}}" for n in range(count)
    )
    mixin = f"{{lib:concurrency-limit: {{permits: {permits}, name: database}}}}"
    return f"agents: {{one: {{tools: [search], mixins: [{mixin}], script: []}}}}\ntasks:\n{agents}\n"


async def test_agents_with_the_same_permit_name_share_the_permits(tmp_path: Path) -> None:
    flaky = Flaky(gate=anyio.Event())
    async with arena(tmp_path, tools=tools_with(flaky)) as here:
        await here.apply(shared(5, 2))
        await here.until(lambda: flaky.running == 2)
        whys = [str(here.get(f"agent/a{n}").status.get("why")) for n in range(5)]
        await here.until(lambda: sum("permit" in str(here.get(f"agent/a{n}").status.get("why")) for n in range(5)) == 3)
        assert flaky.gate is not None, whys
        flaky.gate.set()
        await here.until_state("task/.", "done", "failed")
        assert (flaky.most, len(flaky.began)) == (2, 5)


async def test_removing_a_waiter_for_a_permit_leaves_no_other_waiting(tmp_path: Path) -> None:
    flaky = Flaky(gate=anyio.Event())
    async with arena(tmp_path, tools=tools_with(flaky)) as here:
        await here.apply(shared(3, 1))
        await here.until(lambda: flaky.running == 1)
        running = next(n for n in range(3) if "permit" not in str(here.get(f"agent/a{n}").status.get("why")))
        waiting = [n for n in range(3) if n != running]
        await here.patch({"op": "remove", "path": f"/tasks/a{waiting[0]}"})
        await here.patch({"op": "remove", "path": f"/tasks/a{running}"})
        await here.until(lambda: len(flaky.began) == 2)
        assert flaky.gate is not None
        flaky.gate.set()
        await here.until_state(f"task/a{waiting[1]}", "done")
        assert flaky.most == 1


async def test_a_call_that_waits_for_a_permit_has_not_begun(tmp_path: Path) -> None:
    flaky = Flaky(gate=anyio.Event(), effect=EffectClass.ONCE)
    async with arena(tmp_path, tools=tools_with(flaky)) as here:
        await here.apply(shared(2, 1))
        await here.until(lambda: flaky.running == 1 and len(here.store.view.list("call")) == 2)
        assert sorted(call.state for call in here.store.view.list("call")) == ["Authorized", "Started"]


async def test_the_same_reading_call_is_answered_from_memory_until_something_was_written(tmp_path: Path) -> None:
    flaky = Flaky()
    write = "call: {write: {path: b.txt, content: x}}"
    script = f"[{{{SEARCH}}}, {{{SEARCH}}}, {{{write}}}, {{{SEARCH}}}, {{call: {{search: {{text: y}}}}}}, {{done: so}}]"
    async with arena(tmp_path, tools=tools_with(flaky)) as here:
        await run(here, agent("[lib:cache]", script))
        assert len(flaky.began) == 3
        assert [each.get("cached", False) for each in await settled(here, "search")] == [False, True, False, False]
        assert [each["result"]["text"] for each in await settled(here, "search")][:2] == ["call 1", "call 1"]


async def test_change_of_a_file_by_another_makes_an_answer_stale(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x one\n")
    calls = [f"{{{SEARCH}}}", "{when: {message: go}, call: {search: {text: x}}}", f"{{{SEARCH}}}", "{done: so}"]
    async with arena(tmp_path) as here:
        await here.apply(agent("[lib:cache]", f"[{', '.join(calls)}]"))
        await here.until_state("agent/.", "asleep")
        (tmp_path / "a.txt").write_text("x two\n")
        await here.tell("agent/.", "go", "m1")
        await here.until_state("task/.", "done", "failed")
        assert [each.get("cached", False) for each in await settled(here, "search")] == [False, False, True]
        assert "x two" in (await settled(here, "search"))[2]["result"]["text"]


async def test_a_failure_and_a_call_with_an_effect_are_not_kept(tmp_path: Path) -> None:
    flaky = Flaky(failures=1, error="BadQuery")
    shell = Flaky(name="shell", effect=EffectClass.ONCE)
    script = f"[{{{SEARCH}}}, {{expect: {{ok: false}}}}, {{{SEARCH}}}, {{call: {{shell: {{command: a}}}}}}, "
    script += "{call: {shell: {command: a}}}, {done: so}]"
    async with arena(tmp_path, tools=tools_with(flaky, shell)) as here:
        await run(here, agent("[lib:cache]", script))
        assert (len(flaky.began), len(shell.began)) == (2, 2)


@pytest.mark.parametrize(("order", "seen"), [("[lib:trace, lib:retry]", [3]), ("[lib:retry, lib:trace]", [1])])
async def test_the_first_mixin_stated_is_the_outermost(tmp_path: Path, order: str, seen: list[int]) -> None:
    flaky = Flaky(failures=2)
    async with arena(tmp_path, tools=tools_with(flaky)) as here:
        order = order.replace("lib:retry", "{lib:retry: {backoff: 60ms}}")
        await run(here, agent(order, f"[{{{SEARCH}}}, {{done: so}}]"))
        (data,) = await settled(here, "search")
        # Outside of the tries it takes in their pauses, inside of them only the last one.
        assert (data["trace"]["seconds"] > 0.15) == (seen == [3])


async def test_a_step_is_only_for_the_calls_that_it_matches(tmp_path: Path) -> None:
    flaky, shell = Flaky(failures=9), Flaky(name="shell", failures=9)
    script = f"[{{{SEARCH}}}, {{expect: {{ok: false}}}}, {{call: {{shell: {{command: git push}}}}}}, "
    script += "{expect: {ok: false}}, {call: {shell: {command: ls}}}, {expect: {ok: false}}, {done: so}]"
    async with arena(tmp_path, tools=tools_with(flaky, shell)) as here:
        await run(here, agent('[{lib:retry: {backoff: 1ms, match: ["shell(git *)"]}}]', script))
        assert (len(flaky.began), len(shell.began)) == (1, 3 + 1)
