"""Scripted agents with a real store, gate, compiler, engine and real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.client.presenters import conversation
from tests.controllers.agent.arena import Arena, arena
from tests.product import PatchAccepted

pytestmark = pytest.mark.anyio


async def ended(here: Arena, task: str = "task/.") -> str:
    await here.until_state(task, "done", "failed", "cancelled")
    await here.settled()
    return here.state(task)


async def test_a_script_writes_a_file_runs_a_command_and_its_task_is_done(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            goal: greet
            agent:
              tools: [write, shell]
              script:
                - say: writing
                - call: {write: {path: hello.txt, content: hello}}
                - call: {shell: {command: cat hello.txt}}
                - expect: hello
                - done: greeted
            acceptance: [{contains: {path: hello.txt, text: hello}}]
        """)
        assert await ended(here) == "done"
        assert here.state("agent/.") == "ended"
        assert here.get("task/.").status["result"] == {"ok": True, "text": "greeted"}
        assert here.read("hello.txt") == "hello"
        assert here.store.view.list("call") == []


async def test_the_end_of_a_script_claims_that_it_is_done(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("agent: {script: [{say: that was all}]}")
        assert await ended(here) == "done"
        assert here.get("task/.").status["result"]["text"] == "that was all"


async def test_unexpected_failed_call_ends_the_script_as_failed(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              tools: [shell]
              script: [{call: {shell: {command: "echo oh; exit 3"}}}, {done: never}]
        """)
        assert await ended(here) == "failed"
        assert "oh" in here.get("agent/.").status["claim"]["result"][0]


async def test_script_continues_after_an_expected_failed_call(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              tools: [shell]
              script: [{call: {shell: {command: exit 3}}}, {expect: {exit: 3}}, {done: as planned}]
        """)
        assert await ended(here) == "done"


async def test_rejected_claim_wakes_the_agent_and_a_later_step_repairs_it(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              tools: [write]
              script:
                - done: too soon
                - when: {rejected: true}
                  call: {write: {path: a.txt, content: now}}
                - done: now it holds
            acceptance: [{require-file: a.txt}]
        """)
        assert await ended(here) == "done"
        assert here.get("agent/.").status["claims"] == 2


async def test_messages_to_a_script_are_in_its_conversation_though_its_turn_is_one_record(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("agent: {script: [{done: too soon}]}\nacceptance: [{require-file: a.txt}]")
        assert await ended(here) == "failed"
        records = await here.store.log(0, 100)
    turns = [one for one in conversation.conversation_items(records, "agent/.") if one["kind"] == "turn"]
    assert [len(one["told"]) for one in turns] == [0, 1]
    assert "a.txt" in turns[1]["told"][0]["text"]


async def test_rejected_claim_without_another_step_fails_the_task(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("agent: {script: [{done: done}]}\nacceptance: [{require-file: a.txt}]")
        assert await ended(here) == "failed"
        assert "no step left" in here.get("agent/.").status["claim"]["result"][0]


async def test_a_retry_is_a_new_incarnation_that_starts_the_script_again(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            retries: 1
            agent:
              tools: [shell]
              script: [{call: {shell: {command: "test -e once || { touch once; false; }"}}}, {done: second time}]
        """)
        assert await ended(here) == "done"
        assert here.get("agent/.").status["incarnation"] == 2


async def test_a_parent_adds_children_sleeps_and_wakes_when_they_end(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              tools: [task, plan_view, write]
              script:
                - task:
                    - {id: first, goal: first file, run: echo one > one.txt}
                    - id: second
                      goal: second file
                      needs: [first]
                      agent:
                        tools: [write]
                        script: [{call: {write: {path: two.txt, content: two}}}, {done: two}]
                - when: {child: second}
                  call: {plan_view: {}}
                - expect: {contains: second}
                - done: both
        """)
        assert await ended(here) == "done"
        assert here.read("one.txt") == "one\n" and here.read("two.txt") == "two"
        assert "agent.slept" in await here.types()


async def test_failed_child_is_reported_to_its_parent_which_acts(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              tools: [task, terminate]
              script:
                - task: {id: weak, goal: cannot be, run: exit 1}
                - when: {child: weak, state: failed}
                  call: {terminate: {name: weak}}
                - done: without it
        """)
        assert await ended(here) == "done"
        assert here.find("task/weak") is None


async def test_unhandled_failed_child_keeps_the_parent_from_being_done(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              tools: [task]
              script: [{task: {id: weak, goal: cannot be, run: exit 1}}, {done: all is well}]
        """)
        assert await ended(here) == "failed"


async def test_new_goal_is_reported_once_and_the_agent_continues(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            goal: blue
            agent:
              script: [{when: {goal: green}, say: green then}, {done: painted}]
        """)
        await here.until_state("agent/.", "asleep")
        assert isinstance(await here.patch({"op": "replace", "path": "/goal", "value": "green"}), PatchAccepted)
        assert await ended(here) == "done"
        assert await here.said() == ["green then"]
        assert here.get("agent/.").status["incarnation"] == 1
        told = [draft for draft in await here.log() if "goal" in draft.data.get("reasons", ())]
        assert len(told) == 1


async def test_message_wakes_a_sleeping_script_and_is_kept_until_a_step_needs_it(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - {when: {message: first}, say: heard first}
                - {when: {message: second}, say: heard second}
                - done: both
        """)
        await here.until_state("agent/.", "asleep")
        await here.tell("agent/.", "second", "m2")
        await here.settled()
        await here.tell("agent/.", "first", "m1")
        assert await ended(here) == "done"
        assert await here.said() == ["heard first\nheard second"]


async def test_children_and_parents_talk(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - {when: {message: ready, from: child}, say: {to: child, text: go}}
                - done: talked
            tasks:
              child:
                agent:
                  script:
                    - say: {to: parent, text: ready}
                    - {when: {message: go}, say: going}
                    - done: went
        """)
        assert await ended(here) == "done"
        assert here.state("task/child") == "done"


async def test_a_sleep_is_slept_through_though_messages_come(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("agent: {script: [{sleep: 300ms}, {say: awake}, {done: rested}]}")
        await here.until_state("agent/.", "asleep")
        start = here.world.clock.now()
        await here.tell("agent/.", "wake up", "m1")
        assert await ended(here) == "done"
        assert here.world.clock.now() - start >= 0.2


async def test_law_4_interrupting_message_stops_the_running_command_and_is_read(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              tools: [shell]
              script:
                - call: [{shell: {command: touch began; sleep 60}}, {shell: {command: touch second}}]
                - expect: {error: Interrupted}
                - {when: {message: stop}, say: stopped}
                - done: x
        """)
        await here.until((here.folder / "began").exists)
        await here.tell("agent/.", "stop it", "m", "interrupt")
        assert await ended(here) == "done", here.get("agent/.").status["claim"]
        assert await here.said() == ["stopped"] and not (here.folder / "second").exists()


async def test_an_interrupting_message_ends_a_sleep(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("agent: {script: [{sleep: 1h}, {when: {message: up}, say: up}, {done: x}]}")
        await here.until_state("agent/.", "asleep")
        await here.tell("agent/.", "up", "m", "interrupt")
        assert await ended(here) == "done"


async def test_an_interrupted_program_is_asked_again_with_the_message(tmp_path: Path) -> None:
    (tmp_path / "mind.py").write_text(
        "import pathlib, time\n"
        "def step(turn):\n"
        "    if turn['messages']:\n"
        "        return {'done': turn['messages'][0]['body']}\n"
        "    pathlib.Path('began').touch()\n"
        "    time.sleep(60)\n"
    )
    async with arena(tmp_path) as here:
        await here.apply('agent: {python: "mind.py:step"}')
        await here.until((here.folder / "began").exists)
        await here.tell("agent/.", "hurry", "m", "interrupt")
        assert await ended(here) == "done"
        assert here.get("task/.").status["result"]["text"] == "hurry"


async def test_pausing_stops_at_the_boundary_and_resuming_continues(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              tools: [shell]
              script: [{when: {message: go}, call: {shell: {command: echo x >> log}}}, {done: ok}]
        """)
        await here.until_state("agent/.", "asleep")
        await here.patch({"op": "add", "path": "/pause", "value": True})
        await here.until_state("agent/.", "blocked")
        await here.tell("agent/.", "go", "m1")
        await here.settled()
        assert here.state("agent/.") == "blocked" and not (here.folder / "log").exists()
        await here.patch({"op": "remove", "path": "/pause"})
        assert await ended(here) == "done"
        assert here.get("agent/.").status["incarnation"] == 1


async def test_cancelling_stops_a_running_command_of_the_agent(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("agent: {tools: [shell], script: [{call: {shell: {command: touch began; sleep 60}}}]}")
        await here.until((here.folder / "began").exists)
        await here.patch({"op": "add", "path": "/cancel", "value": True})
        assert await ended(here) == "cancelled"
        assert here.state("agent/.") in ("idle", "ended")
        assert here.store.view.list("call") == []
        await here.jobs_left(0)


async def test_a_removed_task_takes_its_agent_and_its_command_along(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            tasks:
              stays: {run: "true"}
              goes: {agent: {tools: [shell], script: [{call: {shell: {command: touch began; sleep 60}}}]}}
        """)
        await here.until((here.folder / "began").exists)
        await here.patch({"op": "remove", "path": "/tasks/goes"})
        await here.until(lambda: here.find("task/goes") is None and here.find("agent/goes") is None)
        await here.settled()
        assert here.store.view.list("call") == []


async def test_law_4_edited_script_restarts(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("agent: {script: [{when: {message: never}, say: old}]}")
        await here.until_state("agent/.", "asleep")
        await here.patch({"op": "replace", "path": "/agent/script", "value": [{"say": "new"}, {"done": "so"}]})
        assert await ended(here) == "done"
        assert await here.said() == ["new"] and here.get("agent/.").status["incarnation"] == 2


async def test_a_turn_budget_parks_the_agent_until_it_is_raised(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            budget: {turns: 2}
            agent:
              tools: [shell]
              script: [{call: {shell: {command: echo 1}}}, {call: {shell: {command: echo 2}}}, {done: spent}]
        """)
        await here.until_state("agent/.", "parked")
        condition = here.get("agent/.").status["conditions"]["BudgetSpent"]
        assert "turns" in condition["message"] and condition["unblocks"]
        await here.patch({"op": "replace", "path": "/budget/turns", "value": 10})
        assert await ended(here) == "done"
        assert here.get("agent/.").status["conditions"] == {}


async def test_usage_of_children_counts_against_the_budget_above_them(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            budget: {calls: 3}
            agent: {script: [{when: {children: ended}, done: all}]}
            tasks:
              a: {agent: {tools: [shell], script: [{call: {shell: {command: echo a}}}, {done: a}]}}
        """)
        await here.until_state("task/a", "done")
        await here.settled()
        assert here.get("task/.").status["ledger"]["calls"]["spent"] == 3
        assert here.state("task/.") == "done"


async def test_parent_is_told_when_a_childs_budget_runs_low_and_out(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              tools: [edit_plan]
              script:
                - when: {message: spent}
                  call: {edit_plan: {path: tasks/child/budget/turns, value: 50}}
                - {when: {children: done}, done: helped}
            tasks:
              child:
                budget: {turns: 5}
                open: [budget]
                agent:
                  tools: [list]
                  script:
                    - {call: {list: {}}}
                    - {call: {list: {path: .}}}
                    - {call: {list: {}}}
                    - {call: {list: {path: .}}}
                    - {call: {list: {}}}
                    - {call: {list: {path: .}}}
                    - {done: long}
        """)
        assert await ended(here) == "done", await here.results()
        started = [
            draft for draft in await here.log() if draft.type == "turn.started" and draft.subject == "agent/child"
        ]
        assert ["agent/." in str(draft.changes) for draft in started].count(True) == 1, "told once that it runs low"


async def test_decider_that_asks_for_turns_and_does_nothing_is_stuck_and_sleeps(tmp_path: Path) -> None:
    (tmp_path / "mind.py").write_text(
        "def step(turn):\n    return {'done': 1} if turn['messages'] else {'again': True}\n"
    )
    async with arena(tmp_path) as here:
        await here.apply('agent: {python: "mind.py:step"}')
        await here.until_state("agent/.", "asleep")
        await here.settled()
        assert "without doing anything" in here.get("agent/.").status["conditions"]["Stuck"]["message"]
        assert here.get("agent/.").status["used"]["turns"] == 16
        await here.tell("agent/.", "end", "m")
        assert await ended(here) == "done"


async def test_turn_that_only_reads_and_ends_is_one_complete_record(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              tools: [read]
              script: [{parallel: [{call: {read: {path: a.txt}}}, {done: it is read}]}]
        """)
        assert await ended(here) == "done"
        records = [one.draft for one in await here.store.log(0, 100) if one.draft.subject == "agent/."]

    assert [draft.type for draft in records] == ["agent.woken", "agent.ended"]
    said = [one.type for one in records[0].entries]
    assert said[1:4] == ["turn.started", "model.replied", "call.authorized"]
    assert said[4:7] == ["call.settled", "call.settled", "turn.ended"]
    # The calls were made and over within it: no object of theirs ever stood.
    assert {change.address for change in records[0].changes} == {"agent/."}
