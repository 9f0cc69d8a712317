"""Changes by a shell command to files that another agent holds are detected, of any kind and number."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planloop.schemas import limits
from tests import golden_text
from tests.controllers.agent.arena import Arena, arena

pytestmark = pytest.mark.anyio

HOLDER = """
        tasks:
          holder:
            agent: {tools: [lock], script: [{call: {lock: {paths: [PATHS]}}}, {when: {message: end}, done: x}]}
"""
OTHER = """
          other:
            needs: [ready]
            agent: {tools: [shell, list], script: [{call: {CALL}}, {done: x}]}
          ready: {run: "until [ -e held ]; do sleep 0.02; done"}
"""


async def called(folder: Path, paths: str, call: str) -> str:
    """The result that the `other` agent gets for its `call` while the `holder` has the lock on `paths`."""
    plan = HOLDER.replace("PATHS", paths) + OTHER.replace("CALL", call)
    async with arena(folder) as owner:
        await owner.apply(plan)
        await owner.until(lambda: any(one.status.get("holders") for one in owner.store.view.list("lock")))
        (folder / "held").touch()
        await owner.until_state("task/other", "done", "failed")
        assert owner.bugs == []
        return await told(owner)


async def told(owner: Arena) -> str:
    settled = [draft.data for draft in await owner.log() if draft.type == "call.settled"]
    return next(str(data["result"]["text"]) for data in settled if data.get("tool") in ("shell", "list"))


CHANGES = [
    "rm small",
    "mv small other",
    "ln -sf /etc/hostname small",
    "truncate -s 5000000 small",
    "echo x >> large",
    "rm large",
    "echo x > fresh",
    "mkfifo fresh",
    "rm -r folder; echo x > folder",
    "rm folder/one",
    "printf '\\\\0' >> small",
]


@pytest.mark.parametrize("change", CHANGES)
async def test_every_change_to_a_file_locked_by_another_is_reported(tmp_path: Path, change: str) -> None:
    (tmp_path / "small").write_text("small")
    (tmp_path / "large").write_bytes(b"x" * (limits.LOCK_FILE_BYTES_MAX + 1))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one").write_text("1")

    said = await called(tmp_path, "small, large, folder, fresh", f'shell: {{command: "{change}"}}')

    golden_text.said_in(said)


@pytest.mark.parametrize("look", ["cat small large > /dev/null", "touch new", "mkdir -p fresh folder"])
async def test_reading_or_working_elsewhere_reports_nothing(tmp_path: Path, look: str) -> None:
    for name in ("small", "large"):
        (tmp_path / name).write_bytes(b"x" * (limits.LOCK_FILE_BYTES_MAX * (name == "large") + 1))
    (tmp_path / "folder").mkdir()

    assert await called(tmp_path, "small, large, folder, fresh", f'shell: {{command: "{look}"}}') == ""


@pytest.mark.parametrize("call", ["list: {}", 'shell: {command: "for f in *x; do echo >> $f; done"}'])
async def test_undecodable_file_name_stops_no_agent(tmp_path: Path, call: str) -> None:
    (tmp_path / os.fsdecode(b"\xffx")).touch()

    said = await called(tmp_path, '"**"', call)

    assert "list" not in call or "\\xffx  0" in said
