"""The ruling `fork`, to its end: one works on its own branch, and what it did is merged back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.agent.arena import arena
from tests.controllers.agent.conflicts.teams import PATH, begin, team
from tests.controllers.fork.repository import Home

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git")]

LINES = [f"line {number}" for number in range(20)]
FRONT = f"""
    - call: {{read: {{path: {PATH}}}}}
    - call: {{edit: {{path: {PATH}, old: "line 2\\n", new: "by front\\n"}}}}
    - when: {{message: "works on its own branch"}}
      done: x
"""


@pytest.mark.process
@pytest.mark.parametrize("has_repository", [True, False])
async def test_fork_the_one_that_waits_works_in_a_branch_and_both_parts_are_in_the_file(
    tmp_path: Path, has_repository: bool
) -> None:
    home = Home(tmp_path)
    if has_repository:
        home.begin()
    home.write(PATH, "\n".join(LINES) + "\n")
    back = f"""
        - call: {{read: {{path: {PATH}}}}}
        - call: {{edit: {{path: {PATH}, old: line 17, new: by back}}}}
        - expect: {{error: Ruled, contains: "Call it again: it then works on your branch"}}
        - call: {{read: {{path: {PATH}}}}}
        - call: {{edit: {{path: {PATH}, old: line 17, new: by back}}}}
        - expect: ok
        - done: x
    """
    async with arena(tmp_path) as here:
        await begin(here, team("how: fork, plan: mend the end of it", front=FRONT, back=back))
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done", await here.results()
        assert here.get("task/back").spec["fork"] == "fork/back"
        await here.until(lambda: not here.get("fork/back").status.get("folder"))
    lines = home.read(PATH).splitlines()
    assert (lines[2], lines[17]) == ("by front", "by back")
    assert len(lines) == len(LINES)
    assert not has_repository or home.branches() == []


@pytest.mark.process
async def test_branch_can_be_ruled_without_a_repository(tmp_path: Path) -> None:
    back = f"""
        - call: {{write: {{path: {PATH}, content: by back}}}}
        - expect: {{error: Ruled}}
        - call: {{write: {{path: {PATH}, content: by back}}}}
        - expect: ok
        - done: x
    """
    front = "- {when: {message: works on its own branch}, done: x}"
    async with arena(tmp_path) as here:
        await begin(here, team("how: fork", front=front, back=back))
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done", await here.results()
        await here.until(lambda: not here.get("fork/back").status.get("folder"))
        assert here.read(PATH) == "by back"
    assert not (tmp_path / ".git").exists()
