"""Locks that agents take for their writes or with `lock`, and writes that others' locks refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.controllers.agent.mail import message_policy
from planloop.controllers.agent.turn import call_locks
from planloop.controllers.shared.leases import grants
from planloop.schemas import limits
from planloop.schemas.objects.lock import LockGrant
from planloop.schemas.objects.message import Message
from tests import golden_text
from tests.controllers.agent.arena import Arena, arena
from tests.product import Change, JsonObject, RecordDraft, SetStatus

pytestmark = pytest.mark.anyio

TOOLS = "[read, write, edit, lock, release, shell, send]"


def agent(script: str, *, more: str = "") -> str:
    """An agent's task with a script, for `tasks:`."""
    steps = "".join(f"        - {line}\n" for line in script.strip().splitlines())
    return f"    agent:\n      tools: {TOOLS}\n{more}      script:\n{steps}"


async def run(here: Arena, script: str, *, more: str = "") -> None:
    """Run the plan of one agent to its end."""
    await here.apply(f"tasks:\n  one:\n{agent(script, more=more)}")
    await here.until_state("task/one", "done", "failed")
    await here.settled()


async def records_with(here: Arena, kind: str) -> list[JsonObject]:
    return [draft.data for draft in await here.log() if draft.type == kind]


async def test_write_lock_is_granted_with_the_start_and_released_with_the_end_of_the_turn(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await run(here, "call: {write: {path: a.txt, content: one}}\ndone: x")
        await here.store.flush(here.store.view.rev)
        told = [[one.type for one in record.draft.entries] for record in await here.store.log(0, 1000)]
        (start,) = [types for types in told if "lock.granted" in types]
        (end,) = [types for types in told if "lock.released" in types]
        assert "call.started" in start
        assert "turn.ended" in end
        assert here.store.view.list("lock") == []


async def test_agent_that_writes_nothing_takes_no_locks(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    async with arena(tmp_path) as here:
        await run(here, "call: {read: {path: a.txt}}\ndone: x")
        assert not [draft for draft in await here.log() if draft.type.startswith("lock.")]


async def test_a_lock_that_was_asked_for_is_kept_over_turns_until_it_is_released(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        script = """
call: {lock: {paths: [a.txt, "src/**"], reason: mine now}}
call: {write: {path: a.txt, content: one}}
call: {write: {path: src/b.txt, content: one}}
call: {release: {paths: [a.txt]}}
call: {release: {paths: [a.txt]}}
expect: {error: NotHeld}
call: {release: {}}
call: {release: {}}
expect: no locks
done: x
"""
        await run(here, script)
        assert here.state("task/one") == "done"
        granted = [data for data in await records_with(here, "call.settled") if data["tool"] == "lock"]
        assert list(granted[0]["fences"]) == ["a.txt", "src/**"]
        assert not await records_with(here, "lock.granted"), "writes under a lock that is held take none of their own"
        assert here.store.view.list("lock") == []


async def test_all_locks_are_released_when_the_task_ends(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        script = 'call: {lock: {paths: ["src/**"]}}\ncall: {write: {path: b.txt, content: one}}\ndone: x'
        await run(here, script, more="      lock: task\n")
        assert here.state("task/one") == "done"
        assert here.store.view.list("lock") == []


async def test_two_names_of_one_file_are_one_lock(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    async with arena(tmp_path) as here:
        script = """
call: {lock: {paths: [link/new.txt, "link/*.md", ./real/../real/x.txt]}}
call: {write: {path: link/new.txt, content: one}}
done: x
"""
        await run(here, script)
        (granted,) = [data["fences"] for data in await records_with(here, "call.settled") if data["tool"] == "lock"]
        assert sorted(granted) == ["real/*.md", "real/new.txt", "real/x.txt"]
        assert not await records_with(here, "lock.granted")


async def test_globs_are_locked_by_one_name_however_they_are_written(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        script = """
call: {lock: {paths: ["src/**/", "a/*//./b", "*/"]}}
call: {release: {paths: ["src/**"]}}
call: {lock: {paths: ["src/*/../../b"]}}
expect: {error: BadPath}
call: {lock: {paths: [".plan/forks/t/b"]}}
expect: {error: Denied}
call: {lock: {paths: [".plan/**"], mode: read}}
expect: {error: Denied}
done: x
"""
        await run(here, script)
        assert here.state("task/one") == "done", here.get("task/one").status
        (granted,) = [data["fences"] for data in await records_with(here, "call.settled") if "fences" in data]
        assert sorted(granted) == ["*", "a/*/b", "src/**"]


def test_a_prompt_names_some_of_many_locks() -> None:
    grant = LockGrant("agent/one", "u", 1, "write", 0.0, 1, "asked")
    said = call_locks.list_held([(f"f{number:02}", grant) for number in range(limits.LOCKS_TOLD_MAX + 5)])
    golden_text.said(said, "f00", "f31", "release")
    assert "f32" not in said


async def test_path_that_may_not_be_written_cannot_be_locked(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        script = """
call: {lock: {paths: [other.txt]}}
expect: {error: Denied}
call: {lock: {paths: ["**"]}}
expect: {error: Denied}
call: {lock: {paths: ["../x"]}}
expect: {error: Denied}
call: {lock: {paths: [other.txt], mode: read}}
expect: ok
call: {lock: {paths: ["src/a/*.py"]}}
expect: ok
done: x
"""
        await run(here, script, more='      rights: {write: ["src/**"]}\n')
        assert here.state("task/one") == "done", here.get("task/one").status


@pytest.mark.parametrize("kept", ["turn", "task", '"off"'])
async def test_write_by_one_of_two_readers_makes_the_others_write_refused_with_a_diff(
    tmp_path: Path, kept: str
) -> None:
    """The race of the source documents: the second writer gets the difference, and no change is lost."""
    (tmp_path / "a.txt").write_text("base\n")
    async with arena(tmp_path) as here:
        plan = f"""
tasks:
  first:
{agent(FIRST, more=f"      lock: {kept}" + chr(10))}
  second:
{agent(SECOND, more=f"      lock: {kept}" + chr(10))}
"""
        await here.apply(plan)
        await here.until(lambda: (tmp_path / "read1").exists() and (tmp_path / "read2").exists())
        await here.tell("agent/first", "go", "m1")
        await here.until_state("task/first", "done", "failed")
        await here.tell("agent/second", "go", "m2")
        await here.until_state("task/second", "done", "failed")
        await here.settled()
        assert (here.state("task/first"), here.state("task/second")) == ("done", "done")
        refused = [each for each in await here.results("write") if each["state"] == "Failed"]
        (one,) = refused
        assert one["error"] == "Changed"
        assert "+first" in one["text"]
        assert here.read("a.txt") == "base\nfirst\nsecond\n"


FIRST = """
call: {read: {path: a.txt}}
call: {shell: {command: touch read1}}
{when: go, call: {write: {path: a.txt, content: "base\\nfirst\\n"}}}
done: x
"""
SECOND = """
call: {read: {path: a.txt}}
call: {shell: {command: touch read2}}
{when: go, call: {write: {path: a.txt, content: "base\\nsecond\\n"}}}
expect: {error: Changed}
call: {write: {path: a.txt, content: "base\\nfirst\\nsecond\\n"}}
done: x
"""


HOLDS = """
call: {lock: {paths: [a.txt], reason: the great rewrite}}
{when: let go, call: {release: {}}}
done: x
"""


GATE = "  gate: {run: 'until test -e open; do sleep 0.02; done'}\n"


def two(first: str, second: str, *, more: str = "") -> str:
    """The second agent starts when the file `open` exists."""
    return f"tasks:\n  first:\n{agent(first)}  second:\n    needs: [gate]\n{agent(second, more=more)}{GATE}"


async def begun(here: Arena, first: str, second: str, *, more: str = "") -> None:
    """The second agent starts when the first holds the lock that it wants."""
    await here.apply(two(first, second, more=more))
    await here.until(lambda: bool(here.store.view.list("lock")))
    (here.folder / "open").touch()


async def test_write_to_a_locked_file_waits_as_state_and_continues_after_the_release(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await begun(here, HOLDS, "call: {write: {path: a.txt, content: mine}}\ndone: x")
        await here.until_state("agent/second", "blocked")
        status = here.get("agent/second").status
        assert list(status["conditions"]) == ["AwaitingLock"]
        assert "the great rewrite" in status["why"]
        golden_text.said_in(status["conditions"]["AwaitingLock"]["unblocks"], "lock/a.txt")
        (call,) = here.store.view.owned_by("agent/second")
        assert (call.state, call.status["wants"]) == ("AwaitingLock", {"a.txt": "write"})
        assert not (tmp_path / "a.txt").exists()
        await here.tell("agent/first", "let go", "m1")
        await here.until_state("task/second", "done", "failed")
        await here.settled()
        assert here.read("a.txt") == "mine"
        assert here.store.view.list("lock") == []
        assert here.get("agent/second").status["used"]["time_s"] < 60, "waiting is not active time"


async def test_call_that_does_not_wait_gets_the_holder_the_reason_and_every_way_out(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await begun(here, HOLDS, "call: {lock: {paths: [a.txt], wait_s: 0}}\nexpect: {error: Locked}\ndone: x")
        await here.until_state("task/second", "done", "failed")
        (result,) = [each for each in await here.results("lock") if each["state"] == "Failed"]
        for words in ("agent/first", "the great rewrite", "since", "wait_s", "`request`"):
            assert words in result["text"]
        assert "`contest`" not in result["text"], "it has no such tool"
        await here.tell("agent/first", "let go", "m1")
        await here.settled()


async def test_a_wait_that_is_over_is_refused_and_leaves_the_queue(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await begun(here, HOLDS, "call: {lock: {paths: [a.txt], wait_s: 0.1}}\nexpect: {error: Locked}\ndone: x")
        await here.until_state("task/second", "done", "failed")
        assert here.state("task/second") == "done"
        assert here.get("lock/a.txt").status.get("waiters", {}) == {}
        await here.tell("agent/first", "let go", "m1")
        await here.settled()


@pytest.mark.parametrize("kept", ["turn", "'off'"])
async def test_agent_that_takes_no_locks_is_bound_by_those_of_others(tmp_path: Path, kept: str) -> None:
    async with arena(tmp_path) as here:
        second = "call: {write: {path: a.txt, content: mine}}\nexpect: {error: Locked}\ndone: x"
        waits = kept == "turn"
        await begun(here, HOLDS, second, more=f"      lock: {kept}\n")
        if waits:
            await here.until_state("agent/second", "blocked")
            await here.tell("agent/second", "stop it", "m2", "interrupt")
        await here.until_state("task/second", "done", "failed")
        assert not (tmp_path / "a.txt").exists()
        assert here.get("lock/a.txt").status.get("waiters", {}) == {}, "a wait that is given up leaves the queue"
        await here.tell("agent/first", "let go", "m1")
        await here.settled()


@pytest.mark.parametrize("ending", ["removed", "cancelled", "begins anew"])
async def test_removed_agent_leaves_no_lock(tmp_path: Path, ending: str) -> None:
    async with arena(tmp_path) as here:
        script = 'call: {lock: {paths: ["src/**"]}}\n{when: never, done: x}'
        await here.apply(f"tasks:\n  one:\n{agent(script)}  rest: {{run: sleep 30}}\n")
        await here.until(lambda: bool(here.store.view.list("lock")))
        old = here.get("lock/src/**").status["holders"]["agent/one"]
        match ending:
            case "removed":
                await here.patch({"op": "remove", "path": "/tasks/one"})
                await here.until(lambda: here.find("agent/one") is None)
            case "cancelled":
                await here.patch({"op": "add", "path": "/tasks/one/cancel", "value": True})
                await here.until_state("task/one", "cancelled")
            case _:
                await here.patch({"op": "add", "path": "/tasks/one/agent/lock", "value": "task"})
                await here.patch({"op": "add", "path": "/tasks/one/cwd", "value": "elsewhere"})
                await here.until(lambda: here.get("agent/one").status["incarnation"] == 2)
        await here.until(
            lambda: all(each.status.get("holders") != {"agent/one": old} for each in here.store.view.list("lock"))
        )


async def test_several_waits_cancelled_together_all_leave_the_queue(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        second = """
{parallel: [{call: {lock: {paths: [a.txt]}}}, {call: {lock: {paths: [a.txt], mode: read}}}]}
expect: {error: Interrupted}
{when: go, done: x}
"""
        await begun(here, HOLDS, second)
        await here.until_state("agent/second", "blocked")
        waits = here.store.view.owned_by("agent/second")
        owner = grants.lock_owner(here.get("agent/second"))
        assert len(waits) == 2
        await here.tell("agent/second", "stop it", "m1", "interrupt")
        await here.until(lambda: not here.store.view.owned_by("agent/second"))
        assert grants.held_locks(here.store.view, owner) == ()
        assert here.get("lock/a.txt").status.get("waiters", {}) == {}
        await here.tell("agent/second", "go", "m2")
        await here.tell("agent/first", "let go", "m3")
        await here.settled()
        assert here.store.view.list("lock") == []


async def test_lock_granted_to_a_cancelled_call_is_released_with_it(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        holds = "call: {lock: {paths: [docs/b.txt]}}\n{when: let go, done: x}"
        asks = "call: {lock: {paths: [docs/a.txt]}}\ncall: {lock: {paths: [docs/**]}}"
        await begun(here, holds, f"{asks}\nexpect: {{error: Interrupted}}\n{{when: go, done: x}}")
        await here.until_state("agent/second", "blocked")
        store, second = here.store, grants.lock_owner(here.get("agent/second"))
        (call,) = store.view.owned_by("agent/second")
        # Nothing is awaited here: the agent finds the grant and the message at one look.
        store.propose(RecordDraft("lock.released", "controller:agent", "lock/docs/b.txt", first_lets_go(here)), {})
        found = grants.grant_locks(store.view, second, {"docs/**": "write"}, "asked", "", here.world.clock.now())
        assert isinstance(found, grants.LocksGranted)
        message = Message("m1", "chat", "human:cli", "agent/second", "stop", 0.0, delivery="interrupt")
        delivered = message_policy.delivery_changes(store.view, message)
        assert not isinstance(delivered, message_policy.DeliveryRefused)
        told = SetStatus(call.address, call.uid, {"granted": found.fences})
        store.propose(
            RecordDraft("lock.granted", "controller:lock", "lock/docs", (*found.changes, told, *delivered)), {}
        )
        await here.until(lambda: not store.view.owned_by("agent/second"))
        held = grants.held_locks(store.view, second)
        assert [path for path, _ in held] == ["docs/a.txt"], "what it had before stays"
        await here.tell("agent/second", "go", "m2")
        await here.tell("agent/first", "let go", "m3")
        await here.settled()


def first_lets_go(here: Arena) -> tuple[Change, ...]:
    return grants.release_changes(here.store.view, grants.lock_owner(here.get("agent/first")))


async def test_lock_is_granted_to_one_call_by_the_state_after_its_programs_ran(
    tmp_path: Path,
) -> None:
    (tmp_path / "guard.py").write_text(
        "import os, time\ndef look(told):\n    open('begun', 'w').close()\n"
        "    while not os.path.exists('open'):\n        time.sleep(0.01)\n    return {'comment': 'looked at'}\n"
    )
    async with arena(tmp_path) as here:
        slow = "call: {lock: {paths: [a.txt], wait_s: 0}}\nexpect: {error: Locked}\ndone: x"
        quick = "{when: go, call: {lock: {paths: [a.txt], reason: quicker}}}\n{when: let go, done: x}"
        mixins = "mixins: {slow: {after: [{python: 'guard.py:look'}]}}\n"
        slowly = agent(slow, more="      mixins: [slow]\n")
        await here.apply(f"{mixins}tasks:\n  slow:\n{slowly}  quick:\n{agent(quick)}")
        await here.until((tmp_path / "begun").exists)
        await here.tell("agent/quick", "go", "m1")
        await here.until(lambda: here.find("lock/a.txt") is not None)
        (tmp_path / "open").touch()
        await here.until_state("task/slow", "done", "failed")
        assert here.state("task/slow") == "done"
        assert list(here.get("lock/a.txt").status["holders"]) == ["agent/quick"]
        await here.tell("agent/quick", "let go", "m2")
        await here.settled()
        assert here.store.view.list("lock") == []
