"""Conflicts between running agents: messages to each side, who may rule, repeated and concurrent rulings."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.controllers.agent.conflicts import resolution
from planloop.controllers.agent.conflicts.resolution import InvalidResolution, ResolutionRequest
from tests.controllers.agent.arena import Arena, arena
from tests.controllers.agent.conflicts.teams import LOCK, PATH, begin, brought, holder, over, team
from tests.golden_text import said, said_in
from tests.product import HUMAN_CLI, Author, Patch, PatchAccepted, PatchRefused, PatchVerdict, SetStatus

pytestmark = pytest.mark.anyio

ASKS = f"""
    - call: {{contest: {{paths: [{PATH}], intent: a new field, proposal: "you first, then I"}}}}
    - expect: {{contains: conflict/1 is open between you and `front`}}
    - when: {{message: goon}}
      done: x
"""
NOBODY = "how: release"
WAITS = '- call: {shell: {command: "until test -e on; do sleep 0.02; done"}}'
STAYS = "- {when: {message: goon}, done: x}"


def silent(text: str) -> str:
    """The same plan with a root that never rules."""
    return text.replace('when: {message: "resolve("}', "when: {message: never}")


async def rule(here: Arena, by: Author, how: str, for_agent: str = "", plan: str = "") -> PatchVerdict:
    """What `resolve` and `plan approve` do."""
    view, document = here.store.view, here.get("plan/arena").spec
    made = resolution.plan_resolution(
        view, document, ResolutionRequest("conflict/1", how, for_agent, plan), by, here.world.clock.now()
    )
    if made.is_again:
        return PatchAccepted(view.rev)
    patch = Patch(by, made.ops, view.rev, "ruled", is_approved=by.is_human)
    return await here.gate.rule(patch, made.changes, made.also)


async def test_both_sides_get_intents_and_changes_and_may_message_each_other(
    tmp_path: Path,
) -> None:
    front = f"""
        - call: {{write: {{path: {PATH}, content: "old\\nline\\n"}}}}
        - call: {{write: {{path: {PATH}, content: "new\\nline\\n"}}}}
        - call: {{lock: {{paths: [{PATH}], reason: it moves}}}}
        - when: {{message: "you first, then I"}}
          send: {{to: back, text: fine with me, goon: 1}}
    """
    front = (
        front.replace(", goon: 1", "")
        + """
        - expect: ok
        - call: {release: {}}
        - done: x
    """
    )
    back = ASKS.replace("goon", "fine with me")
    async with arena(tmp_path) as here:
        await here.apply(silent(team(NOBODY, front=front, back=back)))
        await here.settled_but_timers()
        await here.tell("agent/back", "go", "go")
        await over(here)
        text = str(here.get("conflict/1").status["text"])
        said_in(text, "conflict/1", "back", "src/api.py", "front")
        assert "`front` (holds): it moves" in text
        assert "`back` (wants): a new field" in text
        assert "proposes: you first, then I" in text
        assert "+new" in text
        await here.until_state("task/back", "done", "failed")
        assert here.state("task/back") == "done"


async def test_ruling_of_the_ancestor_reaches_the_asking_call_as_a_message(tmp_path: Path) -> None:
    front = """
        - when: {message: "you also do the part of `back`"}
          done: x
    """
    back = ASKS.replace("goon", "does your part")
    async with arena(tmp_path) as here:
        await begin(here, team("how: merge, plan: keep the names", front=front, back=back))
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        said(here.get("task/front").spec["rulings"])
        text = "conflict-1: `front` also does your part on `src/api.py`: do not change it. keep the names"
        assert here.get("task/back").spec["rulings"] == [text]


async def test_contesting_again_joins_the_open_conflict_and_another_file_opens_another(
    tmp_path: Path,
) -> None:
    front = """
        - call: {lock: {paths: [docs/**]}}
        - when: {message: goon}
          done: x
    """
    back = """
        - call: {contest: {paths: [src/**], intent: a new field}}
        - expect: {contains: conflict/1}
        - call: {contest: {paths: [src/api.py], intent: another}}
        - expect: {contains: conflict/1}
        - call: {contest: {paths: [docs/x.md], intent: to write}}
        - expect: {contains: conflict/2}
        - call: {contest: {paths: [lib.py], intent: to write}}
        - expect: {error: NoConflict}
        - when: {message: goon}
          done: x
    """
    async with arena(tmp_path) as here:
        await begin(here, silent(team(NOBODY, front=front, back=back)))
        await here.until_state("agent/back", "asleep")
        await here.until(lambda: here.find("conflict/2") is not None)
        await here.settled_but_timers()
        assert [one.address for one in here.store.view.list("conflict")] == ["conflict/1", "conflict/2"]
        first = here.get("conflict/1").status
        assert first["paths"] == ["src/**", "src/api.py"]
        assert first["parties"]["agent/back"][0]["intent"] == "another"


async def test_operator_rules_and_a_repeated_ruling_is_made_once(tmp_path: Path) -> None:
    front = """
        - when: {message: "`back` gets `src/api.py` next"}
          call: {release: {}}
        - when: {message: goon}
          done: x
    """
    async with arena(tmp_path) as here:
        await begin(here, silent(team(NOBODY, front=front, back=ASKS)))
        await here.until(lambda: here.state("conflict/1") == "open" and bool(here.get("conflict/1").status["before"]))
        first = await rule(here, HUMAN_CLI, "release")
        again = await rule(here, HUMAN_CLI, "release")
        assert isinstance(first, PatchAccepted)
        assert isinstance(again, PatchAccepted)
        await over(here)
        assert len([one for one in await here.log() if one.type == "conflict.ruled"]) == 1
        with pytest.raises(InvalidResolution) as late:
            await rule(here, HUMAN_CLI, "cancel")
        assert late.value.reason == "Resolved"


async def test_second_of_two_concurrent_rulings_overrules_what_was_not_yet_followed(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await begin(here, silent(team(NOBODY, front=STAYS, back=ASKS)))
        await brought(here)
        assert isinstance(await rule(here, Author("agent", "."), "sequence", "back"), PatchAccepted)
        assert isinstance(await rule(here, HUMAN_CLI, "cancel", "back"), PatchAccepted)
        await over(here)
        await here.until_state("task/back", "cancelled")
        assert here.get("conflict/1").status["ruling"][0]["by"] == "human:cli"


async def test_party_that_ignores_a_ruling_keeps_the_files_to_the_end_of_its_turn_only(
    tmp_path: Path,
) -> None:
    front = f"""
        {WAITS}
        - call: {{lock: {{paths: [{PATH}], reason: I want it back}}}}
        - expect: {{contains: you hold}}
        - when: {{message: goon}}
          done: x
    """
    async with arena(tmp_path) as here:
        await begin(here, silent(team(NOBODY, front=front, back=ASKS)))
        await brought(here)
        assert isinstance(await rule(here, HUMAN_CLI, "release"), PatchAccepted)
        assert (holder(here), here.state("conflict/1")) == ("agent/front", "ruled")
        assert here.get(LOCK).status["holders"]["agent/front"]["kept"] == "turn"
        (tmp_path / "on").touch()
        await over(here)
        assert (holder(here), here.state("task/front")) == ("", "running")
        said(here.get("conflict/1").status["why"], "front")


async def test_call_refused_by_a_ruling_gives_the_reason_first_and_no_workaround(
    tmp_path: Path,
) -> None:
    back = f"""
        - call: {{contest: {{paths: [{PATH}], intent: a new field}}}}
        - expect: ok
        - call: {{write: {{path: {PATH}, content: by back}}}}
    """
    async with arena(tmp_path) as here:
        await begin(here, silent(team(NOBODY, front=STAYS, back=back)))
        await here.until_state("agent/back", "blocked")
        await here.until(lambda: bool(here.get("conflict/1").status["parties"]["agent/back"][0]["call"]))
        assert isinstance(await rule(here, HUMAN_CLI, "merge", plan="keep the old names"), PatchAccepted)
        await here.until_state("task/back", "failed")
        (wrote,) = await here.results("write")
        first, rest = wrote["text"].splitlines()
        said(first, "conflict/1", "front", "src/api.py")
        said(rest)


@pytest.mark.parametrize("how", ["release", "merge", "sequence"])
async def test_party_without_an_open_turn_releases_in_the_record_of_the_ruling(tmp_path: Path, how: str) -> None:
    async with arena(tmp_path) as here:
        await begin(here, silent(team(NOBODY, front=STAYS, back=ASKS)))
        await brought(here)
        await here.until_state("agent/front", "asleep")
        assert isinstance(await rule(here, HUMAN_CLI, how, "back"), PatchAccepted)
        assert holder(here) == ""
        (released,) = [one for one in await here.log() if one.type == "lock.released"]
        assert released.data == {"owner": "agent/front", "locks": [LOCK], "why": "decided in conflict/1"}


async def test_agent_cannot_overrule_an_operator(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await begin(here, silent(team(NOBODY, front=STAYS, back=ASKS)))
        await brought(here)
        assert isinstance(await rule(here, HUMAN_CLI, "sequence", "back"), PatchAccepted)
        with pytest.raises(InvalidResolution) as late:
            await rule(here, Author("agent", "."), "cancel")
        assert (late.value.reason, here.state("conflict/1")) == ("Resolved", "ruled")


async def test_judge_that_restarts_before_its_answer_is_asked_again(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await begin(here, silent(team(NOBODY, front=STAYS, back=ASKS)))
        await here.until(lambda: bool((one := here.find("conflict/1")) and one.status.get("told") == 1))
        await here.patch({"op": "add", "path": "/again", "value": 1})
        await here.until(lambda: here.get("conflict/1").status["told"] == 2)
        conflict = here.get("conflict/1").status
        assert (conflict["before"], conflict["raised"]) == ("agent/.", 0)


async def test_agent_not_above_both_may_not_rule_and_a_refused_patch_changes_nothing(tmp_path: Path) -> None:
    text = silent(team(NOBODY, front=STAYS, back=ASKS))
    text = text.replace("    goal: the server", "    goal: the server\n    needs: []")
    async with arena(tmp_path) as here:
        await begin(here, text)
        await brought(here)
        for party in ("front", "back"):
            with pytest.raises(InvalidResolution) as denied:
                await rule(here, Author("agent", party), "release")
            assert denied.value.reason == "NotAllowed"
        refused = await rule(here, Author("agent", "."), "sequence")
        assert isinstance(refused, PatchRefused), "the file says what it needs, so only a person says otherwise"
        assert here.state("conflict/1") == "open"
        assert isinstance(await rule(here, HUMAN_CLI, "sequence"), PatchAccepted)
        assert here.get("task/back").spec["needs"] == ["task/front"]


@pytest.mark.parametrize("end", ["ended", "removed", "restarted"])
async def test_conflict_ends_when_a_party_ends_is_removed_or_restarts(tmp_path: Path, end: str) -> None:
    async with arena(tmp_path) as here:
        await begin(here, silent(team(NOBODY, front=STAYS, back=ASKS)))
        await brought(here)
        match end:
            case "ended":
                await here.tell("agent/front", "goon", "m1")
            case "removed":
                await here.patch({"op": "remove", "path": "/tasks/front"})
            case _:
                await here.patch({"op": "add", "path": "/tasks/front/again", "value": 1})
        await over(here)
        why = str(here.get("conflict/1").status["why"])
        assert (
            why
            in {
                "ended": ("the task of `front` is done", "`front` released its locks"),
                "removed": ("`front` was removed", "`front` released its locks"),
                "restarted": ("`front` was restarted", "`front` released its locks"),
            }[end]
        )
        assert holder(here) in ("", "agent/front")
        assert here.store.view.list("approval") == []


@pytest.mark.parametrize("party", ["front", "back"])
async def test_renamed_party_stays_a_party_and_the_order_ends_with_the_conflict(tmp_path: Path, party: str) -> None:
    text = silent(team(NOBODY, front=STAYS, back=ASKS))
    new = f"moved: {{{party}: new}}\n" + text.replace(f"\n  {party}:\n", "\n  new:\n")
    first, second = ("new", "back") if party == "front" else ("front", "new")
    async with arena(tmp_path) as here:
        await begin(here, text)
        await brought(here)
        assert isinstance(await rule(here, HUMAN_CLI, "sequence"), PatchAccepted)
        assert here.get("task/back").spec["needs"] == ["task/front"]
        verdict = await here.apply(new)
        assert isinstance(verdict, PatchAccepted), verdict
        await here.settled_but_timers()
        conflict = here.get("conflict/1")
        assert (conflict.state, conflict.spec["wants"], conflict.spec["holds"]) == (
            "ruled",
            f"agent/{second}",
            f"agent/{first}",
        )
        assert conflict.status["parties"].keys() == {f"agent/{first}", f"agent/{second}"}
        assert here.get(f"task/{second}").spec["needs"] == [f"task/{first}"]
        await here.tell(f"agent/{first}", "goon", "m1")
        await over(here)
        said(here.get("conflict/1").status["why"], f"{first}")
        assert here.get(f"task/{second}").spec["needs"] == []


async def test_conflict_without_an_ancestor_waits_for_an_operator_as_an_approval(tmp_path: Path) -> None:
    text = team(NOBODY, front=STAYS, back=ASKS)
    text = text[text.index("tasks:") :]
    async with arena(tmp_path) as here:
        await begin(here, text)
        await here.until(lambda: here.find("approval/conflict-1") is not None)
        spec = here.get("approval/conflict-1").spec
        assert spec["kind"] == "conflict"
        assert "a new field" in spec["what"]["text"]
        assert isinstance(await rule(here, HUMAN_CLI, "merge", "front", "all of it"), PatchAccepted)
        assert here.find("approval/conflict-1") is None
        await over(here)


async def test_conflict_escalates_immediately_when_its_judge_takes_no_more_turns(tmp_path: Path) -> None:
    text = silent(team(NOBODY, front=STAYS, back=ASKS))
    async with arena(tmp_path) as here:
        await begin(here, text)
        await here.until(lambda: bool((one := here.find("conflict/1")) and one.status.get("before") == "agent/."))
        await here.patch({"op": "add", "path": "/pause", "value": True})
        await here.until(lambda: here.get("conflict/1").status["before"] == "person")
        assert here.get("conflict/1").status["raised"] == 0
        assert here.find("approval/conflict-1") is not None


async def test_a_command_that_holds_a_declared_lock_is_a_party_that_reads_no_messages(tmp_path: Path) -> None:
    back = ASKS.replace("`front`", "`front`").strip("\n")
    plan = f"""
agent:
  script:
    - when: {{message: "resolve("}}
      call: {{resolve: {{conflict: conflict/1, how: release}}}}
    - expect: {{error: Declared, contains: under `locks` in the plan}}
    - call: {{resolve: {{conflict: conflict/1, how: merge}}}}
    - expect: {{error: NoAgent, contains: could do both}}
    - call: {{resolve: {{conflict: conflict/1, how: fork, for_agent: front}}}}
    - expect: {{error: NoAgent, contains: cannot move to a branch}}
    - call: {{resolve: {{conflict: conflict/1, how: cancel, for_agent: front}}}}
    - expect: ok
    - when: {{children: ended}}
      done: x
tasks:
  front:
    run: sleep 30
    locks: [{PATH}]
  back:
    goal: the server
    agent:
      script:
        - when: {{message: go}}
          say: begins
{"".join(f"    {line}{chr(10)}" for line in back.splitlines())}
"""
    async with arena(tmp_path) as here:
        await here.apply(plan)
        await here.until(lambda: holder(here) == "task/front")
        await here.tell("agent/back", "go", "go")
        await over(here)
        await here.until_state("task/front", "cancelled")
        assert "inbox" not in here.get("task/front").status


async def test_ruling_is_applied_whole_or_not_at_all_when_its_patch_needs_approval(tmp_path: Path) -> None:
    front = "- {when: {message: go on}, call: {release: {}}}\n- done: x"
    text = silent(team(NOBODY, front=front, back=ASKS))
    async with arena(tmp_path) as here:
        await begin(here, f"approve: [/tasks/*/needs]{text}")
        await here.until(lambda: here.state("conflict/1") == "open")
        held = await rule(here, Author("agent", "."), "sequence")
        assert isinstance(held, PatchRefused)
        said(held.faults[0].message)
        assert here.state("conflict/1") == "open" and not here.store.view.list("approval")
        assert isinstance(await rule(here, HUMAN_CLI, "sequence"), PatchAccepted)
        assert here.get("task/back").spec["needs"] == ["task/front"]
        await here.tell("agent/front", "go on", "on")
        await over(here)
        await here.until(lambda: here.get("task/back").spec["needs"] == [])


async def test_party_is_not_asked_to_release_what_its_task_declares(tmp_path: Path) -> None:
    text = silent(team(NOBODY, front="- {when: never, done: x}", back=ASKS))
    text = text.replace("  front:\n", f"  front:\n    locks: [{PATH}]\n")
    text = text.replace(f"{{lock: {{paths: [{PATH}], ", '{lock: {paths: ["**"], ')
    async with arena(tmp_path) as here:
        await here.apply(text)
        await here.until(lambda: here.state("lock/**") == "held" and holder(here) == "task/front")
        await here.tell("agent/back", "go", "go")
        await here.until(lambda: here.state("conflict/1") == "open")
        with pytest.raises(InvalidResolution) as refused:
            await rule(here, HUMAN_CLI, "release")
        assert refused.value.reason == "Declared"


async def test_overruled_order_leaves_nothing_in_the_plan_and_blocks_no_agent(tmp_path: Path) -> None:
    front = """
        - when: {message: "`back` gets `src/api.py` next"}
          call: {release: {}}
        - expect: ok
        - when: {message: goon}
          done: x
    """
    back = f"""
        - call: {{contest: {{paths: [{PATH}], intent: a new field}}}}
        - when: {{message: "`front` goes first"}}
          call: {{write: {{path: {PATH}, content: by back}}}}
        - expect: ok
        - done: x
    """
    async with arena(tmp_path) as here:
        await begin(here, silent(team(NOBODY, front=front, back=back)))
        await brought(here)
        assert isinstance(await rule(here, HUMAN_CLI, "sequence"), PatchAccepted)
        await here.until_state("agent/back", "asleep")
        await here.until(lambda: any(call.status.get("after") == "task/front" for call in here.store.view.list("call")))
        assert here.get("task/back").spec["needs"] == ["task/front"]
        assert isinstance(await rule(here, HUMAN_CLI, "release"), PatchAccepted)
        await here.until_state("task/back", "done", "failed")
        assert here.read(PATH) == "by back"
        await over(here)
        await here.settled_but_timers()
        assert here.get("task/back").spec["needs"] == []
        assert here.state("task/front") == "running"


async def test_ended_conflict_leaves_one_record_of_its_parties_and_revokes_messaging(
    tmp_path: Path,
) -> None:
    front = """
        - when: {message: "`back` gets `src/api.py` next"}
          call: {release: {}}
        - expect: ok
        - when: {message: goon}
          done: x
    """
    back = f"""
        - call: {{contest: {{paths: [{PATH}], intent: a new field}}}}
        - send: {{to: front, text: while it stands}}
        - expect: ok
        - when: {{message: and then}}
          send: {{to: front, text: afterwards}}
        - expect: {{error: NotAllowed}}
        - done: x
    """
    async with arena(tmp_path) as here:
        await begin(here, team("how: release", front=front, back=back))
        await over(here)
        await here.settled_but_timers()
        woken = [draft.data["reasons"] for draft in await here.log() if draft.type == "turn.started"]
        assert any("conflict" in reasons for reasons in woken)
        (closed,) = [draft for draft in await here.log() if draft.type == "conflict.closed"]
        told = {
            change.address: message["body"]
            for change in closed.changes
            if isinstance(change, SetStatus)
            for message in change.merge.get("inbox", {}).values()
        }
        assert set(told) == {"agent/front", "agent/back", "agent/."}
        assert {(one["key"], one["conflict"], one["how"], one["by"]) for one in told.values()} == {
            ("conflict/1", "over", "release", "agent:.")
        }
        await here.tell("agent/back", "and then", "m1")
        await here.until_state("task/back", "done", "failed")
        assert here.state("task/back") == "done"


@pytest.mark.parametrize("by", [HUMAN_CLI, Author("agent", ".")], ids=["a person", "an agent above"])
async def test_order_is_replaced_by_the_opposite_order_without_leftovers(tmp_path: Path, by: Author) -> None:
    text = silent(team(NOBODY, front=STAYS, back=ASKS))
    async with arena(tmp_path) as here:
        await begin(here, text)
        await brought(here)
        assert isinstance(await rule(here, Author("agent", "."), "sequence", "front"), PatchAccepted)
        assert here.get("task/back").spec["needs"] == ["task/front"]
        assert isinstance(await rule(here, by, "sequence", "back"), PatchAccepted)
        assert (here.get("task/back").spec["needs"], here.get("task/front").spec["needs"]) == ([], ["task/back"])
        assert isinstance(await rule(here, HUMAN_CLI, "sequence", "back", "as I said"), PatchAccepted)
        assert here.get("task/front").spec["needs"] == ["task/back"]
        await here.tell("agent/back", "goon", "m1")
        await over(here)
        await here.until(lambda: here.get("task/front").spec["needs"] == [])


async def test_ruling_in_a_tasks_prompt_is_removed_when_another_replaces_it(tmp_path: Path) -> None:
    front = f"{WAITS}\n{STAYS}"
    async with arena(tmp_path) as here:
        await begin(here, silent(team(NOBODY, front=front, back=ASKS)))
        await brought(here)
        assert isinstance(await rule(here, Author("agent", "."), "merge", "back"), PatchAccepted)
        said(here.get("task/back").spec["rulings"][0], "front")
        assert isinstance(await rule(here, HUMAN_CLI, "release"), PatchAccepted)
        told = [here.get(f"task/{name}").spec.get("rulings", []) for name in ("front", "back")]
        assert [len(one) for one in told] == [1, 0]
        assert "`back` gets `src/api.py` next" in told[0][0]
        (tmp_path / "on").touch()
        await over(here)


async def test_awarded_lock_is_kept_for_a_turn_even_by_an_agent_that_locks_for_its_task(
    tmp_path: Path,
) -> None:
    front = f"""
        {WAITS}
        - call: {{write: {{path: src/new.py, content: x}}}}
        {STAYS}
    """
    text = silent(team(NOBODY, front=front, back=ASKS.replace(PATH, "src/**")))
    text = text.replace("    goal: the page\n    agent:\n", "    goal: the page\n    agent:\n      lock: task\n")
    async with arena(tmp_path) as here:
        await begin(here, text)
        await brought(here)
        assert isinstance(await rule(here, HUMAN_CLI, "release"), PatchAccepted)
        (tmp_path / "on").touch()
        await over(here)
        assert (here.store.view.list("lock"), here.read("src/new.py")) == ([], "x")
        assert here.state("task/front") == "running"
