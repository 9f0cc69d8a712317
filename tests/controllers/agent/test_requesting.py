"""Requests go to ancestors, an approval is the approver's patch, and an unanswerable request never hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.agent.arena import arena
from tests.product import HUMAN_CLI, PatchAccepted, PatchRefused

pytestmark = pytest.mark.anyio


async def test_parent_grants_more_budget_and_the_child_continues(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - task:
                    id: kid
                    goal: a
                    budget: {turns: 3}
                    script:
                      - call: {request: {kind: budget, what: {turns: 5}, why: it is long}}
                      - when: {message: approved}
                        done: x
                - when: {message: it is long}
                  call: {answer: {to: approval/kid.1, answer: "yes"}}
                - expect: ok
                - when: {children: done}
                  done: x
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        assert here.get("task/kid").spec["budget"]["turns"] == 8
        assert here.store.view.list("approval") == []


async def test_a_no_reaches_the_child_with_its_reason_and_changes_nothing(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - task:
                    id: kid
                    goal: a
                    budget: {turns: 3}
                    script:
                      - call: {request: {kind: budget, what: {turns: 5}, why: it is long}}
                      - {when: {message: make do}, done: x}
                - when: {message: it is long}
                  call: {answer: {to: kid.1, answer: "no", why: make do}}
                - when: {children: done}
                  done: x
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        assert here.get("task/kid").spec["budget"]["turns"] == 3


async def test_a_parent_cannot_grant_what_it_may_not_grant_and_the_request_waits_on(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            rights: {tools: [lib:work], deny: [shell]}
            agent:
              script:
                - task:
                    id: kid
                    goal: a
                    tools: [read]
                    script:
                      - call: {request: {kind: tool, what: shell, why: to build}}
                      - {when: {message: never}, done: x}
                - when: {message: to build}
                  call: {answer: {to: kid.1, answer: "yes"}}
                - expect: {ok: false}
                - send: {to: kid, text: no way}
                - {when: {message: never}, done: x}
        """)
        await here.until(lambda: here.find("approval/kid.1") is not None)
        await here.until(lambda: "agent/kid" in here.get("agent/.").status.get("sent", {}))
        await here.settled()
        assert here.state("approval/kid.1") == "waiting"
        assert "shell" not in here.get("agent/kid").spec["tools"]
        assert isinstance(await here.gate.approve("approval/kid.1", HUMAN_CLI), PatchRefused)


async def test_a_tool_that_the_parent_may_grant_is_there_with_the_next_turn(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - task:
                    id: kid
                    goal: a
                    tools: [read]
                    script:
                      - call: {request: {kind: tool, what: write, why: to build}}
                      - {when: {message: approved}, call: {write: {path: a.txt, text: hi}}}
                      - done: x
                - when: {message: to build}
                  call: {answer: {to: kid.1, answer: "yes"}}
                - expect: ok
                - {when: {children: done}, done: x}
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done" and here.read("a.txt") == "hi"


async def test_operator_grants_by_approving(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            budget: {turns: 4}
            agent:
              script:
                - call: {request: {kind: budget, what: {turns: 5}, why: it is long, to: person}}
                - {when: {message: approved}, done: x}
        """)
        await here.until(lambda: here.state("approval/root.1") == "waiting")
        assert isinstance(await here.gate.approve("approval/root.1", HUMAN_CLI, "fine"), PatchAccepted)
        await here.until_state("task/.", "done", "failed")
        assert here.get("task/.").spec["budget"]["turns"] == 9


async def test_only_those_above_may_answer(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            tasks:
              ann:
                goal: a
                agent: {script: [{call: {request: {kind: fruit, what: apple, why: hungry}}}, {when: never, done: x}]}
              bob:
                goal: b
                agent:
                  script:
                    - {when: {message: go}, call: {answer: {to: ann.1, answer: "yes"}}}
                    - expect: {error: NotAllowed}
                    - done: x
        """)
        await here.until(lambda: here.state("approval/ann.1") == "waiting")
        await here.tell("agent/bob", "go", "m")
        await here.until_state("task/bob", "done", "failed")
        assert here.state("task/bob") == "done" and here.state("approval/ann.1") == "waiting"


async def test_request_to_a_removed_parent_is_reported_as_unanswerable(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - {when: {message: hungry}, fail: I give up}
            tasks:
              kid:
                goal: a
                agent:
                  script:
                    - call: {request: {kind: fruit, what: apple, why: hungry}}
                    - {when: {message: nobody}, done: without}
        """)
        await here.until_state("task/.", "failed")
        await here.settled()
        assert here.state("task/kid") in ("done", "cancelled")
        assert here.store.view.list("approval") == []


async def test_parent_that_waits_for_a_child_gets_the_childs_request_first(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - task:
                    id: kid
                    prompt: bake
                    script:
                      - call: {request: {kind: fruit, what: apple, why: for the pie}}
                      - {when: {message: approved}, done: pie}
                - expect: {error: AsksFirst}
                - call: {answer: {to: kid.1, answer: "yes", why: a red one}}
                - {when: {children: done}, done: x}
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done", here.get("task/.").status


async def test_question_can_be_answered_while_the_work_continues(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script: [{when: {message: go}, call: {discuss: {prompt: how far, speakers: [kid]}}},
                       {expect: "[kid] half way"}, {send: {to: kid, text: fine}}, {when: {children: done}, done: x}]
            tasks:
              kid:
                goal: a
                agent:
                  script:
                    - {when: {message: how far}, call: {answer: {to: parent, answer: half way}}}
                    - {when: {message: fine}, done: x}
        """)
        await here.until_state("agent/kid", "asleep")
        await here.tell("agent/.", "go", "m")
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
