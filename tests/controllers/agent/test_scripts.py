"""Scripted agents on the whole machine: store, gate, compiler, engine and processes are real."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.agent.arena import arena

pytestmark = pytest.mark.anyio


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
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done"
        assert here.state("agent/.") == "ended"
        assert here.get("task/.").status["result"] == {"ok": True, "text": "greeted"}
        assert here.read("hello.txt") == "hello"
        assert here.store.view.list("call") == []
