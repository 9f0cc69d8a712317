"""Hooks that fail: each error with its policy; an exit code is never a verdict."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from planloop.client.render import hooks
from planloop.controllers.agent.hooks import programs
from planloop.controllers.shared.workspace import WorkspaceFault, resolve_workspace
from planloop.reconciler.store.store import View
from tests import golden_text
from tests.controllers.agent.arena import arena
from tests.controllers.agent.hooking.test_verdicts import run, verdicts

pytestmark = pytest.mark.anyio

FAULTS = {
    "crash": ("exit 3", "exit 3"),
    "crash after a verdict": ('echo \'{"decision": "allow"}\'; exit 1', "exit 1"),
    "no JSON": ("echo yes please", "its answer is not a JSON map: yes please"),
    "another version": ("echo '{\"version\": 2}'", "its answer has version 2; the supported version is 1"),
    "a decision that is none": (
        'echo \'{"decision": "maybe"}\'',
        "`decision` must be one of allow, ask, defer, deny, not maybe",
    ),
    "members that are none": ("echo '{\"deny\": true}'", "its answer has unknown fields: deny"),
    "arguments that are no map": ("echo '{\"arguments\": 3}'", "`arguments` must be a map"),
    "killed": ("kill -9 $$", "killed by SIGKILL"),
    "too late": ("sleep 30", "it gave no verdict within 0.3 s"),
    "missing": ("/no/such/program", "not found"),
}


def plan(folder: Path, script: str, policy: str = "", expect: str = "{error: Denied}") -> str:
    timeout = "0.3" if script == FAULTS["too late"][0] else "60"  # The other hooks have time on a busy machine.
    path = folder / "hook.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"""
goal: g
hooks:
  guard: {{on: [before-call], match: shell, run: ["./hook.sh"], timeout: {timeout}{policy}}}
agent:
  script:
    - call: {{shell: {{command: "touch ran"}}}}
    - expect: {expect}
    - done: ok
"""


@pytest.mark.parametrize("how", FAULTS)
async def test_broken_hook_denies_the_guarded_call_and_names_the_error(tmp_path: Path, how: str) -> None:
    script, words = FAULTS[how]
    async with arena(tmp_path) as here:
        assert await run(here, plan(tmp_path, script)) == "done"
        (one,) = verdicts(await here.log())
    assert words in one["verdict"]["fault"]
    assert one["verdict"]["decision"] == "deny" and "the hook failed" in one["verdict"]["reason"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("how", ["crash", "no JSON", "too late"])
async def test_broken_hook_with_the_note_policy_is_noted_and_the_call_runs(tmp_path: Path, how: str) -> None:
    script, words = FAULTS[how]
    async with arena(tmp_path) as here:
        assert await run(here, plan(tmp_path, script, ", on-fault: note", "ok")) == "done"
        (one,) = verdicts(await here.log())
    assert words in one["verdict"]["fault"]
    assert (tmp_path / "ran").exists()


async def test_hook_counts_its_errors_at_each_point_in_this_run_of_its_agent(tmp_path: Path) -> None:
    text = plan(tmp_path, "echo no >&2; exit 3").replace("[before-call]", "[before-call, before-reply]")
    async with arena(tmp_path) as here:
        assert await run(here, text) == "done"
        hook = here.get("hook/guard")
    said = hooks.hook_facts(hook, 0.0)
    assert (
        "on error",
        "deny at before-call; note at before-reply, timeout 1m00s",
    ) in said
    golden_text.said([words for label, words in said if label == "failed"])
    golden_text.said(hooks.hook_row(hook, 0.0)[-1])


async def test_agent_names_the_hook_program_it_waits_for_while_it_runs(tmp_path: Path) -> None:
    text = plan(tmp_path, "touch asked; until [ -e go ]; do sleep 0.02; done", expect="ok")
    text = text.replace("touch ran", "touch ran; until [ -e end ]; do sleep 0.02; done")
    async with arena(tmp_path) as here:
        await here.apply(text)
        await here.until((tmp_path / "asked").exists)
        assert here.get("agent/.").status["why"] == "waits for hook/guard"
        (tmp_path / "go").touch()
        await here.until((tmp_path / "ran").exists)
        assert not here.get("agent/.").status.get("why")
        (tmp_path / "end").touch()
        await here.until_state("task/.", "done")


async def test_missing_program_is_an_error(tmp_path: Path) -> None:
    text = plan(tmp_path, "exit 0").replace("./hook.sh", "./gone.sh")
    async with arena(tmp_path) as here:
        assert await run(here, text) == "done"
        (one,) = verdicts(await here.log())
    assert one["verdict"]["decision"] == "deny"


async def test_hook_without_output_allows(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        assert await run(here, plan(tmp_path, "exit 0", expect="ok")) == "done"


async def test_after_a_crash_of_the_owner_a_program_is_asked_again_with_the_same_id(tmp_path: Path) -> None:
    text = plan(tmp_path, "cat >> asked; [ -e go ] || { echo $$ > pid; exec sleep 60; }", expect="ok")
    async with arena(tmp_path, is_inline=True) as here:
        await here.apply(text)
        await here.until((tmp_path / "pid").exists)
    pid = int((tmp_path / "pid").read_text())
    (tmp_path / "go").touch()
    async with arena(tmp_path, epoch=2) as here:
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
    import json

    ids = [json.loads(line)["id"] for line in (tmp_path / "asked").read_text().splitlines()]
    assert len(ids) == 2 and len(set(ids)) == 1


async def test_hook_program_outside_the_workspace_of_an_ancestor_is_not_run(
    tmp_path: Path,
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/out").symlink_to("..")
    plan(tmp_path, "touch hooked; echo '{}'")
    async with arena(tmp_path) as here:
        await here.apply("""
            tasks:
              t:
                cwd: work
                agent: {script: [{done: x}]}
                tasks:
                  c:
                    cwd: work/out
                    hooks: {guard: {on: [before-call], match: shell, run: ["./hook.sh"]}}
                    tasks:
                      d:
                        cwd: work
                        agent: {script: [{call: {shell: {command: touch ran}}}, {expect: {error: Denied}}, {done: x}]}
        """)
        await here.until_state("task/.", "done", "failed")
        (found,) = verdicts(await here.log())
    golden_text.said(found["verdict"]["fault"], "work/out")
    assert not (tmp_path / "hooked").exists() and not list(tmp_path.rglob("ran"))


async def test_no_program_folder_is_created_behind_a_link_made_concurrently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found_and_swapped(view: View, cwd: str, folder: Path) -> Path | WorkspaceFault:
        found = resolve_workspace(view, cwd, folder)
        if cwd == "work/new/deep" and not (tmp_path / "work/new").is_symlink():
            (tmp_path / "work/new").symlink_to("../other")
        return found

    for name in ("work", "other"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(programs, "resolve_workspace", found_and_swapped)
    plan(tmp_path, "touch hooked; echo '{}'")
    async with arena(tmp_path) as here:
        await here.apply("""
            tasks:
              c:
                cwd: work/new/deep
                hooks: {guard: {on: [before-call], match: shell, run: ["./hook.sh"]}}
                tasks:
                  d:
                    cwd: work
                    agent: {script: [{call: {shell: {command: touch ran}}}, {expect: {error: Denied}}, {done: x}]}
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.bugs == []
    assert (tmp_path / "work/new").is_symlink() and not list((tmp_path / "other").iterdir())
    assert not list(tmp_path.rglob("hooked")) and not list(tmp_path.rglob("ran"))
