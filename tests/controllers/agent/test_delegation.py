"""`task` with prompt, wait and several children; questions to children, whatever has become of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.agent.arena import arena

pytestmark = pytest.mark.anyio


async def test_task_with_a_prompt_waits_and_its_result_is_the_childs_answer(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - task: {id: sum, prompt: what is 2 and 2, script: [{when: {goal: 2 and 2}, done: four}]}
                - expect: four
                - done: x
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        (result,) = await here.results("task")
        assert result["text"] == "four"
        assert here.get("task/sum").spec["goal"] == "what is 2 and 2"


async def test_a_prompt_beside_a_goal_is_told_with_the_first_turn(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - task:
                    {id: sum, goal: arithmetic, prompt: what is 2 and 2, script: [{when: {notes: 2 and}, done: four}]}
                - expect: four
                - done: x
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"


async def test_the_failure_of_a_child_is_the_result_of_the_call_with_its_class(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - task: {id: sum, prompt: what is 2 and 2, script: [{fail: I cannot count}]}
                - expect: {ok: false}
                - done: x
        """)
        await here.until_state("task/.", "done", "failed")
        (result,) = await here.results("task")
        assert result["state"] == "Failed" and result["error"] and "I cannot count" in result["text"]


async def test_several_children_with_prompts_are_all_waited_for_and_named(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - task:
                    - {id: a, prompt: one, script: [{done: from a}]}
                    - {id: b, prompt: two, script: [{done: from b}]}
                - done: x
        """)
        await here.until_state("task/.", "done", "failed")
        (result,) = await here.results("task")
        assert result["text"] == "[a] from a\n\n[b] from b"


async def test_wait_is_over_when_the_child_has_ended_and_its_checks_hold(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - task:
                    id: file
                    goal: a file
                    wait: true
                    acceptance: [{require-file: a.txt}]
                    script:
                      - done: early
                      - {when: {rejected: true}, call: {write: {path: a.txt, text: hi}}}
                      - done: late
                - expect: late
                - done: x
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"


async def test_a_child_whose_task_is_over_can_be_asked_again_and_its_verdict_stays(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - task: {id: aide, prompt: hello, script: [{done: hello}, {when: {message: capital}, say: Paris}]}
                - call: {discuss: {prompt: what is the capital of France}}
                - expect: "[aide] Paris"
                - done: x
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        task = here.get("task/aide")
        assert task.state == "done" and task.status["result"]["text"] == "hello"
        assert here.get("agent/aide").status["claims"] == 1
        assert [each.address for each in here.store.view.list("thread")] == []


async def test_a_child_that_was_terminated_is_gone(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - task: {id: aide, prompt: hello, script: [{done: hello}]}
                - call: {terminate: {name: aide}}
                - when: {result: {ok: true}}
                  call: {discuss: {prompt: are you there, speakers: [aide]}}
                - expect: {ok: false}
                - done: x
        """)
        await here.until_state("task/.", "done", "failed")
        (result,) = await here.results("discuss")
        assert result["error"] in ("NoSuchAgent", "Gone", "NoAnswer"), result
