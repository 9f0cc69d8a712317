"""Every call gets exactly one result, whatever it is, and a forbidden call never starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.reconciler.admission.gate import PlanGate
from planloop.schemas.objects.approval import APPROVED, REJECTED
from tests import golden_text
from tests.controllers.agent.arena import Arena, arena
from tests.product import RecordDraft, SetStatus

pytestmark = pytest.mark.anyio

ECHO = """
def step(turn):
    if turn["results"]:
        return {"done": [[r["tool"], r["result"]["state"], r["result"].get("error", "")] for r in turn["results"]]}
    return CALLS
"""


async def outcome(here: Arena, calls: str, plan: str = "tools: [read, write, shell, list]") -> list[list[str]]:
    """Tool, state and error of each result that a decider got for `calls`, a Python expression."""
    (here.folder / "mind.py").write_text(ECHO.replace("CALLS", calls))
    await here.apply(f'agent:\n  python: "mind.py:step"\n  {plan}')
    await here.until_state("task/.", "done", "failed")
    await here.settled()
    found: list[list[str]] = here.get("task/.").status["result"]["text"]
    return found


async def test_an_unknown_tool_is_a_result_with_a_suggestion(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        assert await outcome(here, '{"call": {"writ": {}}}') == [["writ", "Failed", "UnknownTool"]]
        said = [draft for draft in await here.log() if draft.type == "call.authorized"]
        golden_text.said(said[0].data.values(), "write")


@pytest.mark.parametrize(
    "arguments",
    ['{"content": "x"}', '{"path": 3, "content": "x"}', "[]", '"text"', '{"path": "a", "content": "x", "z": 1}'],
)
async def test_malformed_arguments_are_a_result(tmp_path: Path, arguments: str) -> None:
    async with arena(tmp_path) as here:
        calls = f'{{"call": {{"write": {arguments}}}}}'
        assert await outcome(here, calls) == [["write", "Failed", "BadArguments"]]
        assert not (tmp_path / "a").exists()


async def test_nonsense_and_sense_in_one_reply_each_get_their_result_in_order(tmp_path: Path) -> None:
    calls = (
        '[{"call": {"shell": {"command": "sleep 0.05; echo slow"}}}, {"jump": 1}, {"call": {"list": {}}}, '
        '{"call": {"shell": {"command": "exit 2"}}}]'
    )
    async with arena(tmp_path) as here:
        assert await outcome(here, calls) == [
            ["shell", "Succeeded", ""],
            ["?", "Failed", "Malformed"],
            ["list", "Succeeded", ""],
            ["shell", "Failed", "Exit"],
        ]


async def test_first_of_two_calls_with_one_id_counts(tmp_path: Path) -> None:
    call = '{"call": {"shell": {"command": "echo x >> log"}}, "key": "k"}'
    async with arena(tmp_path) as here:
        found = await outcome(here, f"[{call}, {call}]")
        assert [each[1:] for each in found] == [["Succeeded", ""], ["Failed", "DuplicateId"]]
        assert here.read("log") == "x\n"


async def test_law_11_calls_past_the_bound_of_one_reply_get_results_too(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        found = await outcome(here, '[{"call": {"list": {}}}] * 100')
        assert len(found) == 65
        assert found[63][1] == "Succeeded" and found[64][2] == "TooMany"


async def test_tool_outside_the_agents_list_is_denied(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        assert await outcome(here, '{"call": {"shell": {"command": "touch x"}}}', "tools: [read]") == [
            ["shell", "Denied", "Denied"]
        ]
        assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "command",
    ["rm -rf /tmp/x", "rm   -rf  x", "true && rm -rf x", "echo $(rm -rf x)", "cd .; rm -rf x", "true | rm -rf x"],
)
async def test_denied_command_never_starts_anywhere_in_the_line(tmp_path: Path, command: str) -> None:
    async with arena(tmp_path) as here:
        calls = f'{{"call": {{"shell": {{"command": "{command}; touch began"}}}}}}'
        plan = 'tools: [shell]\n  deny: ["shell(rm -rf *)"]'
        assert await outcome(here, calls, plan) == [["shell", "Denied", "Denied"]]
        assert not (tmp_path / "began").exists()


async def test_reads_run_in_parallel_and_a_shell_waits_for_them(tmp_path: Path) -> None:
    meet = "touch {own}; for i in $(seq 200); do test -e {other} && exit 0; sleep 0.01; done; exit 1"
    one, two = meet.format(own="a", other="b"), meet.format(own="b", other="a")
    shells = ", ".join(f'{{"call": {{"shell": {{"command": "{line}"}}}}}}' for line in (one, two))
    together = f'{{"parallel": [{shells}]}}'
    async with arena(tmp_path) as here:
        found = await outcome(here, f'[{together}, {{"call": {{"shell": {{"command": "rm a b"}}}}}}]')
        assert [each[1] for each in found] == ["Succeeded"] * 3


async def test_the_same_call_three_times_running_raises_stuck_and_another_one_clears_it(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              tools: [list, read]
              script:
                - call: {list: {}}
                - call: {list: {}}
                - call: {list: {}}
                - when: {message: go}
                  call: {list: {path: .}}
                - when: {message: end}
                  done: so
        """)
        await here.until_state("agent/.", "asleep")
        await here.settled()
        assert "3 times" in here.get("agent/.").status["conditions"]["Stuck"]["message"]
        await here.tell("agent/.", "go", "m1")
        await here.settled()
        assert here.get("agent/.").status["conditions"] == {}


async def answer(here: Arena, approval: str, state: str) -> None:
    found = here.get(approval)
    merge = {"state": state, "by": "human:cli", "reason": "because"}
    await here.store.append(
        RecordDraft("plan.approved", "human:cli", approval, (SetStatus(approval, found.uid, merge),))
    )


@pytest.mark.parametrize(("state", "expected"), [(APPROVED, "Succeeded"), (REJECTED, "Denied")])
async def test_call_that_needs_approval_waits_for_the_answer(tmp_path: Path, state: str, expected: str) -> None:
    async with arena(tmp_path) as here:
        (tmp_path / "mind.py").write_text(ECHO.replace("CALLS", '{"call": {"shell": {"command": "echo push >> log"}}}'))
        await here.apply("""
            approve: ["shell(echo push*)"]
            agent: {python: "mind.py:step", tools: [shell]}
        """)
        await here.until_state("agent/.", "blocked")
        await here.settled()
        assert not (tmp_path / "log").exists()
        (approval,) = here.store.view.list("approval")
        assert here.get("agent/.").status["conditions"]["AwaitingApproval"]["unblocks"] == [
            f"plan approve {approval.address}"
        ]
        await answer(here, approval.address, state)
        await here.until_state("task/.", "done")
        assert here.get("task/.").status["result"]["text"][0][1] == expected
        assert (tmp_path / "log").exists() is (state == APPROVED)
        assert here.store.view.list("approval") == []


async def test_request_goes_to_the_parent_and_its_answer_is_returned_once(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent: {script: [{when: {message: budget}, say: I see}, {when: {children: ended}, done: x}]}
            tasks:
              child:
                agent:
                  tools: []
                  script:
                    - call: {request: {kind: budget, what: {turns: 5}, why: it is long}}
                    - {when: {message: approved}, say: thanks}
                    - done: done
        """)
        await here.until_state("agent/child", "asleep")
        (approval,) = here.store.view.list("approval")
        assert approval.owner == "agent/child" and approval.spec["what"]["of"] == "agent/."
        await answer(here, approval.address, APPROVED)
        await here.until_state("task/.", "done")
        await here.settled()
        assert sorted(await here.said()) == ["I see", "thanks"]
        assert here.store.view.list("approval") == []


async def test_an_agent_may_not_talk_past_its_topology_but_always_upward(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            tasks:
              one:
                agent:
                  topology: {talk-to: []}
                  script:
                    - call: {send: {to: two, text: psst}}
                    - expect: {error: NotAllowed}
                    - call: {send: {to: parent, text: hi}}
                    - expect: {error: NoSuchAgent}
                    - done: x
              two: {agent: {script: [{done: well}]}}
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"


async def test_agents_patch_outside_its_subtree_is_refused_with_a_message_and_recorded(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        assert isinstance(here.gate, PlanGate)
        await here.apply("""
            tasks:
              one:
                agent:
                  tools: [plan_patch, edit_plan]
                  script:
                    - patch: [{op: replace, path: /tasks/two/goal, value: mine}]
                    - expect: {error: Refused}
                    - call: {edit_plan: {path: /goal, value: mine}}
                    - expect: {error: Refused}
                    - call: {edit_plan: {path: acceptance, value: []}}
                    - expect: {error: Refused}
                    - done: tried
              two: {goal: theirs, run: "true"}
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        assert [draft.type for draft in await here.log()].count("plan.refused") == 3
        assert here.gate.present.document["tasks"]["two"]["goal"] == "theirs"
