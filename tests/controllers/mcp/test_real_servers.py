"""Servers from the registries, started by a plan and used by its agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.agent.arena import arena
from tests.servers import FILES

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_an_agent_writes_and_reads_a_file_through_a_server_of_the_plan(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(f"""
            mcp:
              files: {{command: [{FILES[0]}, .], tools: [write_file, read_text_file]}}
            agent:
              tools: [files]
              script:
                - call: {{files.write_file: {{path: note.txt, content: hello}}}}
                - expect: {{ok: true}}
                - call: {{files.read_text_file: {{path: note.txt}}}}
                - expect: {{ok: true}}
                - done: over
            """)
        await here.until_state("task/.", "done", "failed")
        assert (await here.results("files.read_text_file"))[0]["text"] == "hello"
        assert here.read("note.txt") == "hello"
        await here.settled()
        assert here.state("mcp/files") == "idle"
