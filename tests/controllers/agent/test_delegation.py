"""`task` with prompt, wait and several children; questions to children in every state."""

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


async def test_prompt_beside_a_goal_arrives_with_the_first_turn(tmp_path: Path) -> None:
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


OUTER = """
            agent:
              script:
                - task:
                    id: site
                    goal: a site
                    wait: true
                    acceptance: [{require-file: index.html}]
                    script:
                      - when: {children: done}
                        call: {write: {path: index.html, text: hi}}
                      - done: the site is there
                    tasks:
                      - {id: page, goal: a page, script: [{done: a page}]}
                      - {id: style, prompt: a style, script: [{done: green}]}
                - done: x
"""


async def test_fields_beside_tasks_create_the_enclosing_task_with_its_checks(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(OUTER)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        assert here.get("task/site").spec["children"] == ["task/site/page", "task/site/style"]
        assert [each["kind"] for each in here.get("task/site").spec["acceptance"]] == ["require-file"]
        (result,) = await here.results("task")
        # What is waited for below it is waited for as well.
        assert result["text"] == "[site] the site is there\n\n[site/style] green"


REFUSED = {
    "fields of the task around them, and no name for it": (
        "{budget: {turns: 3}, tasks: [{id: a, run: 'true'}]}",
        "budget",
    ),
    "two ids alike below": ("{id: out, tasks: [{id: a, run: 'true'}, {id: a, run: 'false'}]}", "same id"),
    "two ids alike": ("[{id: a, run: 'true'}, {id: a, run: 'false'}]", "same id"),
    "a model said twice": ("{id: a, model: b/c, agent: {model: d/e}}", "two values"),
    "a command and children": ("{id: a, run: 'true', tasks: [{id: b, run: 'true'}]}", "exclude each other"),
    "one name for two prompts": (
        "[{id: a, store: p, instructions: one, script: []}, {id: b, store: p, instructions: two, script: []}]",
        "two different texts",
    ),
    "the name of a prompt of the plan": ("{id: a, store: taken, instructions: one, script: []}", "another prompt"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_task_call_with_contradictory_fields_is_refused(tmp_path: Path, name: str) -> None:
    written, words = REFUSED[name]
    async with arena(tmp_path) as here:
        await here.apply(f"""
            prompts: {{taken: the text of the plan}}
            agent:
              script:
                - call: {{task: {written if written[0] == "{" else "{tasks: " + written + "}"}}}
                - expect: {{ok: false, contains: "{words}"}}
                - done: x
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        assert [each.address for each in here.store.view.list("task")] == ["task/."]
        assert here.get("plan/arena").spec["prompts"] == {"taken": "the text of the plan"}


async def test_wait_beside_tasks_waits_for_each(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - call:
                    task: {wait: true, goal: "", tasks: [{id: a, script: [{done: A}]}, {id: b, script: [{done: B}]}]}
                - expect: "[a] A"
                - done: x
        """)
        await here.until_state("task/.", "done", "failed")
        (result,) = await here.results("task")
        assert result["text"] == "[a] A\n\n[b] B"


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


async def test_terminated_child_is_removed(tmp_path: Path) -> None:
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


async def test_a_declared_agent_is_a_tool_and_every_call_asks_the_same_child(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agents:
              reviewer:
                script:
                  - {when: {goal: first}, done: looks good}
                  - {when: {message: second}, done: still good}
            agent:
              tools: ["agent:reviewer"]
              script:
                - call: {"agent:reviewer": {prompt: first}}
                - expect: looks good
                - call: {"agent:reviewer": {prompt: second}}
                - expect: still good
                - call: {"agent:reviewer": {}}
                - expect: {error: BadArguments}
                - call: {"agent:nobody": {prompt: x}}
                - expect: {error: UnknownTool}
                - done: x
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done", here.get("task/.").status
        assert [each.address for each in here.store.view.list("task")] == ["task/.", "task/reviewer"]


async def test_agent_that_is_not_a_tool_of_the_caller_is_denied(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agents: {reviewer: {script: [{done: x}]}}
            agent:
              tools: [read]
              script: [{call: {"agent:reviewer": {prompt: x}}}, {expect: {error: Denied}}, {done: x}]
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"


async def test_a_prompt_can_be_kept_in_the_plan_under_a_name(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - task: {id: a, prompt: x, instructions: be brief, store: brief, script: [{done: x}]}
                - task: {id: b, prompt: x, instructions: brief, script: [{done: x}]}
                - done: x
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        assert here.get("agent/a").spec["prompt"] == here.get("agent/b").spec["prompt"] == "be brief"
        assert here.get("plan/arena").spec["prompts"] == {"brief": "be brief"}


async def test_result_collected_by_the_waiting_call_causes_no_second_wake(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - task: {id: kid, prompt: x, script: [{done: four}]}
                - {when: {message: bye}, done: x}
        """)
        await here.until_state("agent/.", "asleep")
        await here.until(lambda: here.get("agent/.").status.get("turn") == 2)
        await here.settled()
        await here.tell("agent/.", "bye", "m")
        await here.until_state("task/.", "done", "failed")
        turns = [
            draft.data for draft in await here.log() if draft.type == "turn.started" and draft.subject == "agent/."
        ]
        assert [turn["reasons"] for turn in turns] == [["start"], ["results"], ["message"]]
