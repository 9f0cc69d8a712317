"""Locks that are broken or expire, and files that shell commands change although others hold them."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.controllers.shared.leases import grants
from tests.controllers.agent.arena import Arena, arena
from tests.controllers.agent.test_locks import agent
from tests.fakes.scripted_models import ScriptedModels
from tests.golden_text import said_in
from tests.product import JsonObject, RecordDraft

pytestmark = pytest.mark.anyio


async def broken(here: Arena, path: str) -> None:
    """An operator breaks the lock, as `plan unlock` does."""
    made = grants.break_lock(here.store.view, path, "human:cli", "I need it", here.world.clock.now())
    await here.store.append(RecordDraft("lock.fenced", "human:cli", f"lock/{path}", made.changes))


async def ended(here: Arena, task: str = "task/one") -> str:
    await here.until_state(task, "done", "failed")
    return here.state(task)


async def failures(here: Arena, tool: str) -> list[JsonObject]:
    return [each for each in await here.results(tool) if each["state"] == "Failed"]


async def test_agent_that_lost_its_lock_is_refused_at_its_next_write_with_the_holder(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        holder = """
call: {lock: {paths: [a.txt]}}
{when: go, call: {write: {path: a.txt, content: mine}}}
expect: {error: LockLost}
{when: again, call: {write: {path: a.txt, content: mine}}}
expect: ok
done: x
"""
        other = """
{when: go, call: {lock: {paths: [a.txt], reason: quicker}}}
{when: let go, call: {release: {}}}
done: x
"""
        await here.apply(f"tasks:\n  one:\n{agent(holder)}  two:\n{agent(other)}")
        await here.until(lambda: bool(here.store.view.list("lock")))
        await here.tell("agent/two", "go", "m1")
        await here.until_state("agent/two", "blocked")
        await broken(here, "a.txt")
        await here.until(lambda: list(here.get("lock/a.txt").status["holders"]) == ["agent/two"])
        await here.tell("agent/one", "go", "m2")
        await here.until(lambda: here.get("agent/one").status.get("turn", 0) >= 3)
        await here.tell("agent/two", "let go", "m3")
        await here.tell("agent/one", "again", "m4")
        assert await ended(here) == "done"
        await here.settled()
        (refusal,) = await failures(here, "write")
        for words in ("broken by human:cli", "I need it", "agent/two holds a.txt", "Nothing was written"):
            assert words in refusal["text"]
        assert here.read("a.txt") == "mine"
        assert here.store.view.list("lock") == []


async def test_agent_that_lost_a_now_free_lock_is_told_to_write_again(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        holder = """
call: {lock: {paths: [a.txt]}}
{when: go, call: {write: {path: a.txt, content: mine}}}
expect: {error: LockLost, contains: "Nothing was written. Look at the current content first. Repeat the call"}
call: {write: {path: a.txt, content: mine}}
done: x
"""
        await here.apply(f"tasks:\n  one:\n{agent(holder)}")
        await here.until(lambda: bool(here.store.view.list("lock")))
        await here.until_state("agent/one", "asleep")
        await broken(here, "a.txt")
        await here.tell("agent/one", "go", "m1")
        assert await ended(here) == "done"
        assert here.read("a.txt") == "mine"


async def test_broken_declared_lock_is_reported_once_to_the_agent(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        script = """
{when: go, call: {write: {path: a.txt, content: mine}}}
expect: {error: LockLost, contains: broken by human:cli}
call: {write: {path: a.txt, content: mine}}
expect: ok
done: x
"""
        await here.apply(f"tasks:\n  one:\n    locks: [a.txt]\n{agent(script)}")
        await here.until_state("agent/one", "asleep")
        await broken(here, "a.txt")
        await here.tell("agent/one", "go", "m1")
        assert await ended(here) == "done"
        assert here.read("a.txt") == "mine"


async def test_lock_broken_during_a_write_is_detected_by_the_write(
    tmp_path: Path,
) -> None:
    (tmp_path / "guard.py").write_text(
        "import os, time\ndef look(told):\n    open('begun', 'w').close()\n"
        "    while not os.path.exists('open'):\n        time.sleep(0.01)\n    return {}\n"
    )
    async with arena(tmp_path) as here:
        script = "call: {write: {path: a.txt, content: mine}}\nexpect: {error: LockLost}\ndone: x"
        slow = "mixins: {slow: {before: [{python: 'guard.py:look'}]}}\n"
        await here.apply(f"{slow}tasks:\n  one:\n{agent(script, more='      mixins: [slow]' + chr(10))}")
        await here.until((tmp_path / "begun").exists)
        assert list(here.get("lock/a.txt").status["holders"]) == ["agent/one"]
        await broken(here, "a.txt")
        (tmp_path / "open").touch()
        assert await ended(here) == "done"
        await here.settled()
        assert not (tmp_path / "a.txt").exists()
        assert here.store.view.list("lock") == []


async def test_hook_before_a_write_may_redirect_it_to_an_unlocked_file(tmp_path: Path) -> None:
    (tmp_path / "guard.py").write_text("def look(told):\n    return {'arguments': {'path': 'b.txt', 'content': 'x'}}\n")
    async with arena(tmp_path) as here:
        script = "call: {write: {path: a.txt, content: mine}}\ndone: x"
        moved = "mixins: {moved: {before: [{python: 'guard.py:look'}]}}\n"
        await here.apply(f"{moved}tasks:\n  one:\n{agent(script, more='      mixins: [moved]' + chr(10))}")
        assert await ended(here) == "done"
        await here.settled()
        assert here.read("b.txt") == "x"


HOLDER = """
call: {read: {path: src/a.txt}}
call: {lock: {paths: ["src/**"], reason: mine}}
{when: go, call: {write: {path: src/a.txt, content: mine}}}
{when: let go, done: x}
"""


def intruded(command: str) -> str:
    """One agent holds `src/**`; another runs a command when it gets a message."""
    other = f"{{when: go, call: {{shell: {{command: {command}}}}}}}\ndone: x"
    return f"tasks:\n  one:\n{agent(HOLDER)}  two:\n{agent(other)}"


async def held(here: Arena, plan: str) -> None:
    (here.folder / "src").mkdir()
    (here.folder / "src/a.txt").write_text("theirs")
    await here.apply(plan)
    await here.until(lambda: bool(here.store.view.list("lock")))


async def test_command_that_changes_a_locked_file_is_reported_recorded_and_a_condition(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await held(here, intruded("'echo over > src/a.txt; echo new > src/new.txt; echo free > free.txt'"))
        await here.tell("agent/two", "go", "m1")
        await here.until_state("task/two", "done", "failed")
        (result,) = await here.results("shell")
        said_in(result["text"], "src/a.txt", "agent/one")
        assert "free.txt" not in result["text"]
        (record,) = [draft for draft in await here.log() if draft.data.get("violated")]
        assert record.data["violated"] == {"src/a.txt": "agent/one", "src/new.txt": "agent/one"}
        assert "src/a.txt" in here.get("agent/two").status["conditions"]["LockViolated"]["message"]
        told = [str(each["body"]) for each in await heard(here)]
        assert any("src/a.txt" in body and "agent/two" in body and "echo over" in body for body in told)
        await here.tell("agent/one", "let go", "m3")


async def test_lock_violation_condition_ends_with_a_command_that_changes_no_locked_file(
    tmp_path: Path,
) -> None:
    async with arena(tmp_path) as here:
        other = (
            "{when: go, call: {shell: {command: echo over > src/a.txt}}}\n{when: go on, call: {shell: {command: ls}}}"
        )
        await held(here, f"tasks:\n  one:\n{agent(HOLDER)}  two:\n{agent(other)}")
        await here.tell("agent/two", "go", "m1")
        await here.until(lambda: "LockViolated" in here.get("agent/two").status.get("conditions", {}))
        await here.tell("agent/two", "go on", "m2")
        await here.until_state("task/two", "done", "failed")
        assert "LockViolated" not in here.get("agent/two").status["conditions"]
        await here.tell("agent/one", "let go", "m3")


async def heard(here: Arena) -> list[JsonObject]:
    """All messages to the holder, in any turn."""
    changes = [change for draft in await here.log() for change in draft.changes if change.address == "agent/one"]
    merges = [getattr(change, "merge", {}) for change in changes]
    return [each for merge in merges for each in (merge.get("inbox") or {}).values() if each]


async def test_changes_by_the_holder_itself_are_not_violations(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await held(here, intruded("'touch begun; until test -e open; do sleep 0.02; done'"))
        await here.tell("agent/two", "go", "m1")
        await here.until((tmp_path / "begun").exists)
        await here.tell("agent/one", "go", "m2")
        await here.until(lambda: here.read("src/a.txt") == "mine")
        (tmp_path / "open").touch()
        await here.until_state("task/two", "done", "failed")
        assert not [draft for draft in await here.log() if draft.data.get("violated")]
        await here.tell("agent/one", "let go", "m3")


async def test_commands_cost_nothing_more_without_held_locks(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(f"tasks:\n  one:\n{agent('call: {shell: {command: echo x > a.txt}}' + chr(10) + 'done: x')}")
        assert await ended(here) == "done"
        assert not [draft for draft in await here.log() if draft.type == "call.progressed"]


async def test_prompt_ends_with_the_locks_that_the_agent_holds_now(
    tmp_path: Path,
) -> None:
    calls = [
        ("lock", {"paths": ["a.txt", "docs/**"]}),
        ("write", {"path": "a.txt", "content": "x"}),
        ("release", {"paths": ["docs/**"]}),
        ("release", {}),
    ]
    replies = [{"reply": {"text": "", "calls": [{"name": name, "arguments": given}]}} for name, given in calls]
    models = ScriptedModels([*replies, {"reply": {"text": "done"}}])
    async with arena(tmp_path, models=models) as here:
        await here.apply("tasks:\n  one:\n    agent: {model: test/m, tools: [write, lock, release]}\n")
        assert await ended(here) == "done"
    held = [b"locked for you" in each.messages[-1] for each in models.asked]
    assert held == [False, True, True, True, False]
    assert b"`docs/**` (until you `release` it)" in models.asked[1].messages[-1]
    assert b"docs/**` (" not in models.asked[3].messages[-1]
    for before, after in zip(models.asked, models.asked[1:], strict=False):
        stays = [each for each in before.messages if b"locked for you" not in each]
        assert list(after.messages[: len(stays)]) == stays, "what was sent before is a prefix of what is sent next"
