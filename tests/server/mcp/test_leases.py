"""Seats: who plays an outside agent, what its calls do, and how it is lost."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from planloop.schemas import limits
from planloop.server.mcp.tool_handlers import ToolHandlers
from tests.golden_text import said, said_in
from tests.product import HUMAN_CLI, CommandError
from tests.server.mcp.running_plan import RunningPlan, run_plan

pytestmark = pytest.mark.anyio

PLAN = """
goal: a handbook
agents:
  helper: {outside: {lease: 60}, tools: [lib:work], deny: ["shell(git push*)"]}
tasks:
  guide:
    goal: write guide.md
    agent: helper
    acceptance: [{contains: {path: guide.md, text: planloop}}]
"""


async def begun(running: RunningPlan, agent: str = "agent/guide") -> None:
    await running.here.until(lambda: running.here.state(agent) == "blocked")


async def test_absence_of_external_clients_is_a_condition_that_names_the_fix(tmp_path: Path) -> None:
    async with run_plan(tmp_path, PLAN) as running:
        await running.here.until_state("task/guide", "blocked")
        ready = running.here.get("task/guide").status["conditions"]["Ready"]
        assert (ready["reason"], ready["unblocks"]) == ("AwaitingGuest", ["plan mcp --as helper"])


async def test_a_call_is_one_of_a_turn_of_the_agent_like_any_other(tmp_path: Path) -> None:
    async with run_plan(tmp_path, PLAN) as running:
        await begun(running)
        ann = running.caller()
        taken = await ann.call("take_task")
        assert taken.facts["task"] == "guide"
        await ann.call("write", path="guide.md", content="planloop\n")
        assert (await ann.call("done", result="it is written")).facts["accepted"] is True
        assert running.here.get("task/guide").status["result"]["text"] == "it is written"
        assert running.here.get("agent/guide").status["used"]["calls"] == 2
        types = await running.here.types("agent/guide")
        assert [one for one in types if one in ("seat.taken", "call.proposed", "turn.started", "turn.ended")] == [
            "seat.taken",
            *("call.proposed", "turn.started", "turn.ended") * 3,
        ]


async def test_two_clients_never_have_one_task(tmp_path: Path) -> None:
    async with run_plan(tmp_path, PLAN) as running:
        await begun(running)
        ann, bob = running.caller(), running.caller(label="bob 2")
        async with anyio.create_task_group() as group:
            answers = []

            async def take(who: object) -> None:
                answers.append(await who.call("take_task"))  # type: ignore[attr-defined]

            group.start_soon(take, ann)
            group.start_soon(take, bob)
        assert sorted(answer.is_error for answer in answers) == [False, True]
        (refused,) = [answer for answer in answers if answer.is_error]
        assert "has task/guide" in refused.texts[0]
        loser, winner = (bob, ann) if ann.client.lease is not None else (ann, bob)
        said((await loser.call("write", path="x", content="x")).texts[0])
        await winner.call("leave_task")
        assert not (await loser.call("take_task")).is_error


async def test_client_that_asks_for_two_tasks_concurrently_has_one(tmp_path: Path) -> None:
    async with run_plan(tmp_path, PLAN + "  other: {goal: the rest, agent: helper}\n") as running:
        await begun(running)
        await begun(running, "agent/other")
        ann, answers = running.caller(), []

        async def take(task: str) -> None:
            answers.append(await ann.call("take_task", task=task))

        async with anyio.create_task_group() as group:
            group.start_soon(take, "guide")
            group.start_soon(take, "other")
        assert sorted(answer.is_error for answer in answers) == [False, True]
        assert [await running.seat("agent/guide"), await running.seat("agent/other")].count(None) == 1


async def test_claim_keeps_its_task_while_its_checks_run(tmp_path: Path) -> None:
    text = PLAN.replace("lease: 60", "lease: 1")
    check = '{sh: "until test -e go; do sleep 0.02; done; false"}'
    async with run_plan(tmp_path, text.replace("{contains: {path: guide.md, text: planloop}}", check)) as running:
        await begun(running)
        ann, answers = running.caller(), []
        await ann.call("take_task")
        async with anyio.create_task_group() as group:

            async def claim() -> None:
                answers.append(await ann.call("done", result="it is written"))

            group.start_soon(claim)
            await running.here.until_state("agent/guide", "claimed")
            since = running.here.get("agent/guide").status["seat"]["heard_at"]

            def is_lease_over() -> bool:
                seat = running.here.get("agent/guide").status.get("seat")
                return seat is None or seat["heard_at"] > since + 1

            await running.here.until(is_lease_over)
            (tmp_path / "go").touch()
        assert answers[0].texts[0].startswith("Not accepted"), answers
        assert "seat.left" not in await running.here.types("agent/guide")


async def test_silent_client_loses_its_task_and_is_refused_when_it_returns_late(tmp_path: Path) -> None:
    async with run_plan(tmp_path, PLAN.replace("lease: 60", "lease: 1")) as running:
        await begun(running)
        ann = running.caller()
        await ann.call("take_task")
        lease = ann.client.lease
        assert lease is not None
        await ann.call("write", path="guide.md", content="first\n")
        await running.here.until(lambda: running.here.get("agent/guide").status.get("seat") is None)
        (left,) = [draft for draft in await running.here.log() if draft.type == "seat.left"]
        said(left.data["why"])
        bob = running.caller(label="bob 2")
        await bob.call("take_task")
        with pytest.raises(CommandError) as caught:
            await running.running.act("say", lease.body(id="late", tool="write", arguments={}))
        said(str(caught.value))
        said((await ann.call("write", path="guide.md", content="late\n")).texts[0])
        (late,) = [draft for draft in await running.here.log() if draft.type == "seat.refused"]
        assert (late.actor, late.data["tool"], late.changes) == ("guest:guide", "write", ())
        assert (tmp_path / "guide.md").read_text() == "first\n"
        # The next client has not read what another one has.
        unread = await bob.call("write", path="guide.md", content="second\n")
        assert (unread.is_error, unread.facts["error"]) == (True, "NotRead")


async def test_repeated_call_is_made_once(tmp_path: Path) -> None:
    async with run_plan(tmp_path, PLAN) as running:
        await begun(running)
        ann = running.caller()
        await ann.call("take_task")
        running.posts.broken = 1
        await ann.call("shell", command="echo x >> guide.md")
        assert (tmp_path / "guide.md").read_text() == "x\n"


async def test_call_that_waits_for_a_lock_reports_it_and_can_be_withdrawn(tmp_path: Path) -> None:
    text = PLAN + "  other: {goal: the rest, agent: helper}\n"
    async with run_plan(tmp_path, text) as running:
        await begun(running)
        await begun(running, "agent/other")
        ann, bob = running.caller(), running.caller(label="bob 2")
        await ann.call("take_task", task="guide")
        await bob.call("take_task", task="other")
        assert not (await ann.call("lock", paths=["guide.md"], reason="mine")).is_error
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:

                async def wait() -> None:
                    await bob.call("lock", paths=["guide.md"], wait_s=600)

                group.start_soon(wait)
                await running.here.until_state("agent/other", "blocked")
                await running.here.until(lambda: any("agent/guide" in words for words in bob.progress))
                scope.cancel()
        await running.here.until(lambda: running.here.get("agent/other").status.get("open") is None)
        assert running.here.get("lock/guide.md").status.get("waiters", {}) == {}
        (cancelled,) = [one for one in await running.here.results("") if one["state"] == "Cancelled"]
        said(cancelled["text"])
        assert not (await bob.call("list")).is_error


async def test_locks_of_a_client_are_released_when_it_leaves(tmp_path: Path) -> None:
    async with run_plan(tmp_path, PLAN) as running:
        await begun(running)
        ann = running.caller()
        await ann.call("take_task")
        await ann.call("lock", paths=["guide.md"])
        assert running.here.get("lock/guide.md").status["holders"]
        await ann.call("leave_task", reason="lunch " * 10_000)
        await running.here.until(lambda: running.here.get("agent/guide").status.get("seat") is None)
        (left,) = [draft for draft in await running.here.log() if draft.type == "seat.left"]
        assert left.data["why"] == ("lunch " * 10_000)[: limits.REASON_CHARS_MAX]
        lock = running.here.find("lock/guide.md")
        assert lock is None or not lock.status.get("holders")
        assert running.here.get("agent/guide").state == "blocked"


async def test_an_edit_reaches_the_client_with_its_next_answer_and_ends_a_wait(tmp_path: Path) -> None:
    text = PLAN + "  other: {goal: the rest, agent: helper}\n"
    async with run_plan(tmp_path, text) as running:
        await begun(running)
        await begun(running, "agent/other")
        ann, bob = running.caller(), running.caller(label="bob 2")
        await ann.call("take_task", task="guide")
        await bob.call("take_task", task="other")
        await running.here.patch({"op": "replace", "path": "/tasks/guide/goal", "value": "write it in Latin"})
        told = await ann.call("list")
        said_in("\n".join(told.texts))
        await bob.call("lock", paths=["guide.md"])
        answers = []
        async with anyio.create_task_group() as group:

            async def wait() -> None:
                answers.append(await ann.call("lock", paths=["guide.md"], wait_s=600))

            group.start_soon(wait)
            await running.here.until(lambda: any("agent/other" in words for words in ann.progress))
            await running.here.patch({"op": "replace", "path": "/tasks/guide/goal", "value": "write it in Greek"})
        assert answers[0].facts["error"] == "Interrupted"
        said_in("\n".join(answers[0].texts))


async def test_messages_arrive_and_are_sent(tmp_path: Path) -> None:
    async with run_plan(tmp_path, PLAN) as running:
        await begun(running)
        ann = running.caller()
        await ann.call("take_task")
        assert (await ann.call("wait_for_news", for_s=0)).texts == ("No news.",)
        answers = []
        async with anyio.create_task_group() as group:

            async def wait() -> None:
                answers.append(await ann.call("wait_for_news", for_s=600))

            group.start_soon(wait)
            await running.here.tell("agent/guide", "mind the commas", "m1")
        assert "mind the commas" in "\n".join(answers[0].texts)
        assert answers[0].facts["news"][0]["from"] == "human:cli"


async def test_spent_budget_is_reported_and_nothing_is_kept_for_later(tmp_path: Path) -> None:
    async with run_plan(
        tmp_path, PLAN.replace("    agent: helper", "    agent: helper\n    budget: {turns: 2}")
    ) as running:
        await begun(running)
        ann = running.caller()
        await ann.call("take_task")
        assert not (await ann.call("list")).is_error
        spent = await ann.call("write", path="guide.md", content="x")
        assert (spent.is_error, spent.facts["error"]) == (True, "Parked")
        assert "turns is used up" in spent.texts[0] and "plan patch" in spent.texts[0]
        await running.here.patch({"op": "replace", "path": "/tasks/guide/budget/turns", "value": 9})
        await running.here.until(lambda: running.here.state("agent/guide") == "asleep")
        assert not (tmp_path / "guide.md").exists()
        assert not (await ann.call("list")).is_error


async def test_a_patch_is_shown_before_it_is_made_and_refused_where_it_may_not_be(tmp_path: Path) -> None:
    async with run_plan(tmp_path, PLAN) as running:
        await begun(running)
        ann = running.caller()
        await ann.call("take_task")
        child = {"op": "add", "path": "tasks", "value": {"proof": {"goal": "read it again", "run": "true"}}}
        shown = await ann.call("plan_diff", ops=[child])
        assert "task/guide/proof" in shown.texts[0] and running.here.find("task/guide/proof") is None
        above = {"op": "replace", "path": "/goal", "value": "my own"}
        denied = await ann.call("plan_diff", ops=[above])
        assert denied.is_error
        said(denied.texts[0])
        refused = await ann.call("plan_patch", ops=[above])
        assert refused.is_error and refused.facts["state"] != "Succeeded"
        assert not (await ann.call("plan_patch", ops=[child])).is_error
        assert running.here.find("task/guide/proof") is not None
        assert "proof" in (await ann.call("plan_view")).texts[0]


async def test_restarted_task_has_no_client(tmp_path: Path) -> None:
    async with run_plan(
        tmp_path, PLAN.replace("    agent: helper", "    agent: helper\n    on-change: restart")
    ) as running:
        await begun(running)
        ann = running.caller()
        await ann.call("take_task")
        await running.here.patch({"op": "replace", "path": "/tasks/guide/goal", "value": "another"})
        await running.here.until(lambda: running.here.get("agent/guide").status.get("incarnation") == 2)
        lost = await ann.call("write", path="x", content="x")
        said(lost.texts[0])
        said_in("\n".join((await ann.call("take_task")).texts))


async def test_task_reassigned_by_the_plan_leaves_its_client(tmp_path: Path) -> None:
    text = PLAN.replace("    acceptance: [{contains: {path: guide.md, text: planloop}}]\n", "")
    async with run_plan(tmp_path, text) as running:
        await begun(running)
        ann = running.caller()
        await ann.call("take_task")
        await running.here.apply(text.replace("outside: {lease: 60}", "script: [{done: ok}]"))
        await running.here.until_state("task/guide", "done")
        assert running.here.get("agent/guide").status.get("seat") is None
        assert "is done" in (await ann.call("list")).texts[0]


async def test_call_that_needs_approval_waits_for_it_and_reports_it(tmp_path: Path) -> None:
    async with run_plan(tmp_path, PLAN + 'approve: ["shell(*)"]\n') as running:
        await begun(running)
        ann = running.caller()
        await ann.call("take_task")
        answers = []
        async with anyio.create_task_group() as group:

            async def call() -> None:
                answers.append(await ann.call("shell", command="echo yes"))

            group.start_soon(call)
            await running.here.until(lambda: any("needs approval" in words for words in ann.progress))
            (approval,) = running.here.store.view.list("approval")
            await running.here.gate.approve(approval.address, HUMAN_CLI)
        assert "yes" in answers[0].texts[0]


async def test_verdicts_of_hooks_are_received_and_obeyed(tmp_path: Path) -> None:
    hooks = """
hooks:
  careful:
    on: [on-wake, before-call]
    rule:
      - when: {on: on-wake}
        comment: Mind the gap.
      - when: {call: "shell(rm*)"}
        deny: Nothing is removed here.
"""
    async with run_plan(tmp_path, PLAN + hooks) as running:
        await begun(running)
        ann = running.caller()
        await ann.call("take_task")
        denied = await ann.call("shell", command="rm -r x")
        assert "Nothing is removed here." in denied.texts[0]
        assert "Mind the gap." in "\n".join(denied.texts)


async def test_lease_holder_continues_after_its_server_restarted(tmp_path: Path) -> None:
    async with run_plan(tmp_path, PLAN) as running:
        await begun(running)
        ann = running.caller()
        lease = (await ToolHandlers(ann.client, shows_lease=True).do("take_task", {}, ann.report)).facts["lease"]
        again, other = running.caller(), running.caller()
        again.client.resume(lease)
        other.client.resume("x" * len(lease))
        assert not (await again.call("write", path="guide.md", content="planloop\n")).is_error
        assert lease not in str(await running.here.log())
        said((await other.call("list")).texts[0])


async def test_cancelled_task_ends_the_call_and_its_lease(tmp_path: Path) -> None:
    async with run_plan(tmp_path, PLAN) as running:
        await begun(running)
        ann = running.caller()
        await ann.call("take_task")
        answers = []
        async with anyio.create_task_group() as group:

            async def call() -> None:
                answers.append(await ann.call("shell", command="touch begun; sleep 600"))

            group.start_soon(call)
            await running.here.until((tmp_path / "begun").exists)
            await running.here.patch({"op": "add", "path": "/tasks/guide/cancel", "value": True})
        assert answers[0].facts["state"] == "Cancelled"
        await running.here.until(lambda: running.here.get("agent/guide").status.get("seat") is None)
        said((await ann.call("list")).texts[0], "task/guide")
        said((await ann.call("take_task")).texts[0])


async def test_failed_claim_reports_what_became_of_the_task(tmp_path: Path) -> None:
    async with run_plan(tmp_path, PLAN) as running:
        await begun(running)
        ann = running.caller()
        await ann.call("take_task")
        failed = await ann.call("fail", reason="no ink")
        assert (failed.facts["accepted"], failed.facts["task_state"]) == (False, "failed")
        assert "no ink" in failed.texts[0]


async def test_the_tools_of_a_client_are_its_agents_own(tmp_path: Path) -> None:
    async with run_plan(tmp_path, PLAN.replace("lib:work", "read, shell(make *)")) as running:
        await begun(running)
        ann = running.caller()
        names = {offer.name for offer in ToolHandlers(ann.client).offers()}
        assert {"read", "shell", "done", "send"} <= names
        assert not names & {"write", "lock", "plan_patch"}
        (schema,) = [offer.schema for offer in ToolHandlers(ann.client).offers() if offer.name == "shell"]
        assert schema["required"] == ["command"]
        await ann.call("take_task")
        said((await ann.call("write", path="x", content="x")).texts[0], "write")
        said((await ann.call("shell", command="ls")).texts[0])
        assert "BadArguments" in (await ann.call("read", nothing=1)).texts[0]
        assert "not valid JSON" in (await ann.call("read", path=float("inf"))).texts[0]


async def test_message_to_the_agent_is_answered_by_its_client(tmp_path: Path) -> None:
    steps = [{"call": {"discuss": {"prompt": "which verse?", "speakers": ["guide"]}}}, {"expect": "the third"}]
    text = PLAN + f"agent: {{script: {json.dumps([*steps, {'done': 'heard'}])}}}\n"
    async with run_plan(tmp_path, text) as running:
        await begun(running)
        ann = running.caller()
        told = await ann.call("take_task")
        said_in("\n".join(told.texts), "agent/")
        answered = await ann.call("answer", to="parent", answer="the third")
        assert not answered.is_error, answered
        await running.here.until(lambda: int(running.here.get("agent/.").status["turn"]) > 1)
        assert [one["text"] for one in await running.here.results("discuss")] == ["[guide] the third"]
