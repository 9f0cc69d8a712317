"""The owner dies at each write, and what hooks count, say, rewrite and end is the same as without crashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.agent.arena import Arena
from tests.controllers.agent.mortal import lived, to_the_end

pytestmark = [pytest.mark.anyio, pytest.mark.sweep]

# The third command is told of, once; the fourth becomes another one; the hook that greets is over after its greeting.
PLAN = r"""
goal: everything
hooks:
  count:
    on: [before-call, after-call]
    match: shell
    rule:
      - {when: {on: after-call}, count: commands, mark: ran}
      - {when: {on: after-call, count: {commands: 3}}, comment: "that was {count.commands}"}
      - when: {on: before-call, arguments: {command: {contains: four}}}
        rewrite: {command: "echo 4 >> effects"}
  greet: {on: on-wake, rule: [{comment: "hello in turn {turn}", quit: true}]}
agent:
  tools: [shell]
  script:
    - call: {shell: {command: echo one >> effects}}
    - call: {shell: {command: echo two >> effects}}
    - call: {shell: {command: echo three >> effects}}
    - call: {shell: {command: echo four >> effects}}
    - done: now
"""


async def play(here: Arena) -> None:
    await to_the_end(here, PLAN)
    await check(here)


async def check(here: Arena) -> None:
    assert here.state("task/.") == "done"
    assert here.read("effects").split() == ["one", "two", "three", "4"]
    (memory,) = here.get("hook/count").status["memory"]
    assert memory["counts"] == {"commands": 4}
    assert here.state("hook/greet") == "over"
    fired = [one for draft in await here.log() if draft.type == "hook.fired" for one in draft.data["fired"]]
    said = [one["verdict"]["comment"] for one in fired if "comment" in one["verdict"]]
    assert sorted(said) == ["hello in turn 1", "that was 3"]


@pytest.mark.timeout(240)
async def test_memory_and_effects_of_hooks_survive_a_crash_at_any_write(tmp_path: Path) -> None:
    crashes = 0
    for after in range(1, 200):
        folder = tmp_path / str(after)
        folder.mkdir()
        if await lived(play, folder, 1, after):
            break
        crashes += 1
        assert await lived(play, folder, 2), f"killed after write {after}"
    assert crashes > 5
