"""The life of hooks in a running plan: their end by turns, time and approval, new runs, edits while they run."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.controllers.agent.hooks import watchers
from planloop.reconciler.errors import TerminalError
from planloop.schemas.objects.hook import OVER
from tests.controllers.agent.arena import Arena, arena
from tests.golden_text import said
from tests.product import HUMAN_CLI, JsonObject, PatchAccepted, RecordDraft, SetStatus

pytestmark = pytest.mark.anyio

STEPS = "".join(f"    - call: {{write: {{path: {n}.txt, text: x}}}}\n" for n in range(5))
PLAN = f"""
goal: g
hooks:
  guard: HOOK
agent:
  script:
{STEPS}    - done: ok
"""
COUNTING = "rule: [{count: calls, comment: 'call {count.calls}'}]"
ASKED = "{when: {message: before-call}, say: ALLOW}"
WAITS = """
goal: g
hooks:
  guard: HOOK
agent:
  script:
    - {when: {message: go}, call: {write: {path: a.txt, text: x}}}
    - {when: {message: go}, call: {write: {path: b.txt, text: x}}}
    - {when: {message: end}, done: ok}
"""


def _plan(hook: str, text: str = PLAN) -> str:
    return text.replace("HOOK", hook)


async def _fired(here: Arena, hook: str = "hook/guard") -> int:
    told = [one for draft in await here.log() if draft.type == "hook.fired" for one in draft.data["fired"]]
    return sum(one["hook"] == hook for one in told)


def _status(here: Arena, hook: str = "hook/guard") -> JsonObject:
    return here.get(hook).status


async def test_hook_is_asked_for_a_bounded_number_of_turns(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(_plan(f"{{on: before-call, match: write, {COUNTING}, expires: {{turns: 2}}}}"))
        await here.until_state("task/.", "done")
        await here.settled()
        assert await _fired(here) == 2
        assert _status(here)["state"] == "over"
        said(_status(here)["why"])


async def test_a_hook_is_over_when_its_time_is(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(_plan(f"{{on: before-call, {COUNTING}, expires: {{time: 0.2}}}}", WAITS))
        await here.until_state("hook/guard", "over")
        await here.tell("agent/.", "go", "m1")
        await here.settled()
        assert (tmp_path / "a.txt").exists()
        assert await _fired(here) == 0


@pytest.mark.parametrize(
    "mind",
    [
        "rule: [{count: n}]",
        "first: [{count: n}], agent: {script: [{say: ALLOW}]}",
        f"first: [{{count: n}}, {{consult: true}}], agent: {{script: [{ASKED}, {ASKED}]}}",
        "run: 'exit 3', on-fault: note",
    ],
    ids=["rule", "first", "agent", "broken"],
)
async def test_hook_ends_with_the_verdict_that_meets_its_end_condition(tmp_path: Path, mind: str) -> None:
    when = "{turn: 2}" if "run" in mind else "{count: {n: {'>=': 2}}}"
    async with arena(tmp_path) as here:
        await here.apply(_plan(f"{{on: before-call, match: write, {mind}, expires: {{when: {when}}}}}"))
        await here.until_state("task/.", "done")
        await here.settled()
        assert [verdict.get("is_last", False) for _, verdict in await _verdicts(here)] == [False, True]
        assert _status(here)["state"] == "over"


async def test_operators_approval_ends_a_hook_that_awaits_it_and_its_read_only_copy(tmp_path: Path) -> None:
    text = _plan("{on: before-call, match: write, rule: {deny: not yet}, copy: read-only, expires: {approved: true}}")
    text += "tasks:\n  b: {goal: b, agent: {script: [{when: {message: go}, done: ok}]}}\n"
    async with arena(tmp_path) as here:
        await here.apply(text.replace("    - done: ok\n", "    - {when: {message: end}, done: ok}\n"))
        await here.settled_but_timers()
        with pytest.raises(TerminalError) as caught:
            await here.gate.approve("hook/b/guard", HUMAN_CLI)
        said(str(caught.value), "hook/guard")
        await here.gate.approve("hook/guard", HUMAN_CLI)
        await here.until_state("hook/b/guard", "over")
        said(_status(here)["why"])
        with pytest.raises(TerminalError, match="already ended"):
            await here.gate.approve("hook/guard", HUMAN_CLI)


async def test_a_read_only_copy_is_over_in_the_very_record_that_ends_its_original(tmp_path: Path) -> None:
    text = _plan(f"{{on: before-call, {COUNTING}, copy: read-only}}", WAITS)
    async with arena(tmp_path) as here:
        await here.apply(text + "tasks: {b: {goal: b, agent: {script: [{when: {message: go}, done: ok}]}}}\n")
        await here.settled_but_timers()
        over = SetStatus("hook/guard", here.get("hook/guard").uid, {"state": OVER, "incarnation": 1})
        here.store.propose(RecordDraft("hook.changed", "controller:hook", "hook/guard", (over,)), {})
        assert watchers.is_hook_over(here.store.view, here.get("hook/b/guard")), "nothing was awaited since"
        await here.until_state("hook/b/guard", OVER)


async def test_a_hook_without_that_end_is_not_approved_away(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(_plan(f"{{on: before-call, {COUNTING}}}", WAITS))
        with pytest.raises(TerminalError) as caught:
            await here.gate.approve("hook/guard", HUMAN_CLI)
        said(str(caught.value))


async def test_a_new_run_of_the_agent_has_a_hook_that_remembers_nothing(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(_plan(f"{{on: before-call, match: write, {COUNTING}}}"))
        await here.until_state("task/.", "done")
        await here.settled()
        assert _status(here)["fired"] == 5
        await here.patch({"op": "add", "path": "/again", "value": 1})
        await here.until(lambda: here.get("task/.").status.get("incarnation") == 2 and here.state("task/.") == "done")
        await here.settled()
        status = _status(here)
        assert (status["incarnation"], status["fired"]) == (2, 5)
        assert [one["comment"] for _, one in await _verdicts(here)] == [f"call {n}" for n in (1, 2, 3, 4, 5)] * 2


async def _verdicts(here: Arena) -> list[tuple[int, JsonObject]]:
    """The turn and the verdict of each firing."""
    told = [draft.data for draft in await here.log() if draft.type == "hook.fired"]
    return [(one["turn"], one["fired"][0]["verdict"]) for one in told]


async def _again(here: Arena) -> None:
    """The work is done once more, from its beginning."""
    await here.until_state("task/.", "done")
    await here.settled()
    await here.patch({"op": "add", "path": "/again", "value": 1})
    await here.until(lambda: here.get("task/.").status.get("incarnation") == 2 and here.state("task/.") == "done")
    await here.settled()


async def test_law_3_a_hook_that_has_quit_guards_the_next_run_from_its_first_call_on(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(_plan("{on: before-call, match: write, rule: [{comment: look out, quit: true}]}"))
        await _again(here)
        fired = await _verdicts(here)
        assert [turn for turn, _ in fired] == [1, 1]
        assert all(verdict["comment"] == "look out" for _, verdict in fired)
        assert (_status(here)["state"], _status(here)["incarnation"]) == ("over", 2)


async def test_law_3_agent_behind_an_ended_hook_is_asked_at_the_first_call_of_the_next_run(
    tmp_path: Path,
) -> None:
    smart = "agent: {script: [{done: {decision: allow, comment: look out, quit: true}}]}"
    async with arena(tmp_path) as here:
        await here.apply(_plan(f"{{on: before-call, match: write, {smart}}}"))
        await _again(here)
        fired = await _verdicts(here)
        assert fired == [(1, {"comment": "look out", "is_last": True})] * 2


async def test_hook_is_added_changed_and_removed_while_its_agent_runs(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(WAITS.replace("hooks:\n  guard: HOOK\n", ""))
        await here.settled()
        incarnation = here.get("agent/.").status["incarnation"]
        await here.apply(_plan(f"{{on: before-call, match: write, {COUNTING}}}", WAITS))
        await here.tell("agent/.", "go", "m1")
        await here.settled()
        assert (tmp_path / "a.txt").exists()
        assert await _fired(here) == 1
        await here.apply(_plan(f"{{on: before-call, match: shell, {COUNTING}}}", WAITS))
        await here.tell("agent/.", "go", "m2")
        await here.settled()
        assert (tmp_path / "b.txt").exists()
        assert await _fired(here) == 1
        assert here.get("hook/guard").spec["match"] == "shell"
        await here.apply(WAITS.replace("hooks:\n  guard: HOOK\n", ""))
        await here.until(lambda: here.find("hook/guard") is None)
        assert here.get("agent/.").spec["hooks"] == []
        assert here.get("agent/.").status["incarnation"] == incarnation


async def test_agent_behind_a_hook_is_created_and_removed_with_it(tmp_path: Path) -> None:
    smart = "{on: on-end, agent: {script: [{done: {decision: allow}}]}}"
    async with arena(tmp_path) as here:
        await here.apply(_plan(smart, WAITS))
        await here.settled()
        assert here.get("agent/~guard").spec["watches"] == "agent/."
        await here.apply(WAITS.replace("hooks:\n  guard: HOOK\n", ""))
        await here.until(lambda: here.find("agent/~guard") is None and here.find("hook/guard") is None)


async def test_the_agent_behind_a_hook_ends_when_that_is_over(tmp_path: Path) -> None:
    smart = "{on: on-end, agent: {script: [{done: {decision: allow}}]}, expires: {approved: true}}"
    async with arena(tmp_path) as here:
        await here.apply(_plan(smart, WAITS))
        await here.settled()
        await here.gate.approve("hook/guard", HUMAN_CLI)
        await here.until_state("agent/~guard", "ended")
        await here.tell("agent/.", "go", "m1")
        await here.tell("agent/.", "go", "m2")
        await here.tell("agent/.", "end", "m3")
        await here.until_state("task/.", "done")
        assert await _fired(here) == 0


@pytest.mark.parametrize("how", ["taken away", "approved away", "changed"])
async def test_caller_that_waits_for_a_removed_hook_continues(tmp_path: Path, how: str) -> None:
    hook = "{on: before-call, match: write, run: [sleep, '60'], expires: {approved: true}}"
    async with arena(tmp_path) as here:
        await here.apply(_plan(hook, WAITS))
        await here.tell("agent/.", "go", "m1")
        await here.until(lambda: any(key.startswith("hook") for key in here.work.live_for("agent/.")))
        match how:
            case "taken away":
                await here.apply(WAITS.replace("hooks:\n  guard: HOOK\n", ""))
            case "approved away":
                await here.gate.approve("hook/guard", HUMAN_CLI)
            case _:
                await here.apply(_plan(hook.replace("write", "shell"), WAITS))
        await here.until(lambda: here.get("agent/.").state == "asleep")
        await here.settled_but_timers()
        assert (tmp_path / "a.txt").exists()


async def test_hook_program_runs_where_the_hook_is_set_whichever_agent_it_watches(tmp_path: Path) -> None:
    (tmp_path / "guard").write_text('#!/bin/sh\necho "{\\"comment\\": \\"$WHO in $PWD\\"}"\n')
    (tmp_path / "guard").chmod(0o755)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "guard").write_text("#!/bin/sh\nexit 1\n")
    child = "goal: a, cwd: deep, env: {WHO: me}, agent: {script: [{call: {write: {path: a.txt, text: x}}}, {done: ok}]}"
    text = "env: {WHO: top}\nhooks: {guard: {on: before-call, match: write, run: ./guard}}\n"
    text += f"tasks: {{a: {{{child}}}}}"
    async with arena(tmp_path) as here:
        await here.apply(text)
        await here.until_state("task/a", "done", "failed")
        (told,) = [draft.data["fired"][0]["verdict"] for draft in await here.log() if draft.type == "hook.fired"]
        assert told == {"comment": f"top in {tmp_path}"}


async def test_a_hook_goes_along_when_its_task_moves_and_remembers(tmp_path: Path) -> None:
    task = "goal: a\n    hooks: {mine: {on: before-call, match: write, rule: [{count: seen}]}}\n"
    task += "    agent:\n      script:\n"
    task += "        - call: {write: {path: a.txt, text: x}}\n        - {when: {message: end}, done: ok}\n"
    async with arena(tmp_path) as here:
        await here.apply(f"tasks:\n  a:\n    {task}")
        await here.settled()
        assert (tmp_path / "a.txt").exists()
        before = here.get("hook/a/mine")
        verdict = await here.apply(f"moved: {{a: b}}\ntasks:\n  b:\n    {task}")
        assert isinstance(verdict, PatchAccepted)
        after = here.get("hook/b/mine")
        assert (after.uid, after.status["memory"]) == (before.uid, before.status["memory"])
        assert after.spec["watches"] == "agent/b"
        assert here.find("hook/a/mine") is None
        await here.tell("agent/b", "end", "m1")
        await here.until_state("task/b", "done")


async def test_inherited_hook_with_the_name_of_an_ended_one_still_guards(tmp_path: Path) -> None:
    steps = "{call: {write: {path: a.txt, text: x}}}, {when: {message: go}, call: {write: {path: b.txt, text: x}}}"
    own = "hooks: {guard: {on: before-call, match: write, rule: [{count: n, quit: true}]}}"
    text = (
        f"tasks:\n  a: {{goal: a, {own}, agent: {{script: [{steps}, {{expect: {{error: Denied}}}}, {{done: ok}}]}}}}\n"
    )
    async with arena(tmp_path) as here:
        await here.apply(text)
        await here.until(lambda: here.state("hook/a/guard") == "over" and here.state("agent/a") == "asleep")
        await here.apply(text + "hooks: {guard: {on: before-call, match: write, rule: [{deny: never}]}}")
        assert here.get("hook/a/guard-2").spec["stated_as"] == "guard"
        assert not here.get("hook/a/guard").status
        await here.tell("agent/a", "go", "m1")
        await here.until_state("task/a", "done", "failed")
        assert here.state("task/a") == "done" and not (tmp_path / "b.txt").exists()


async def test_a_removed_task_takes_its_hooks_along(tmp_path: Path) -> None:
    task = "a: {goal: a, hooks: {mine: {on: on-end, agent: {script: [{done: ok}]}}}, agent: {script: [{sleep: 60}]}}"
    async with arena(tmp_path) as here:
        await here.apply(f"tasks:\n  {task}\n  b: {{run: 'true'}}")
        await here.until_state("agent/a", "asleep", "running")
        await here.apply("tasks:\n  b: {run: 'true'}")

        def left() -> list[str]:
            return [one.address for kind in ("agent", "hook", "call", "task") for one in here.store.view.list(kind)]

        await here.until(lambda: left() == ["task/.", "task/b"])


async def test_an_agent_does_not_write_the_program_that_watches_it(tmp_path: Path) -> None:
    (tmp_path / "guard.sh").write_text("exit 0\n")
    steps = "{call: {write: {path: guard.sh, text: x}}}, {expect: {error: Denied}}, {done: ok}"
    text = f"goal: g\nhooks: {{guard: {{on: on-end, run: [sh, guard.sh]}}}}\nagent: {{script: [{steps}]}}"
    async with arena(tmp_path) as here:
        await here.apply(text)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        assert (tmp_path / "guard.sh").read_text() == "exit 0\n"
