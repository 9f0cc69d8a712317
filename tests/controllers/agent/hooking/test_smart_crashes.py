"""The owner dies after each append while agents are asked as hooks; each question gets one answer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.controllers.agent.arena import Arena
from tests.controllers.agent.mortal import live_and_die, to_the_end

pytestmark = pytest.mark.anyio

# The hook remembers: it allows the first, denies the second with a reason, rewrites the third, and quits.
PLAN = """
goal: four files
agent:
  tools: [write]
  script:
    - call: {write: {path: a.txt, content: a}}
    - call: {write: {path: b.txt, content: b}}
    - when: {result: {contains: not b}}
      call: {write: {path: c.txt, content: c}}
    - call: {write: {path: d.txt, content: d}}
    - done: written
hooks:
  careful:
    on: [before-call]
    match: write(*)
    agent:
      script:
        - {when: {message: a.txt}, say: ALLOW}
        - {when: {message: b.txt}, say: "DENY: not b"}
        - when: {message: c.txt}
          say: '{"decision": "allow", "updated_input": {"path": "other.txt", "content": "c"}}'
        - {when: {message: other.txt}, say: ALLOW}
        - when: {message: d.txt}
          call: {quit: {reason: seen enough}}
"""


async def play(here: Arena) -> None:
    await to_the_end(here, PLAN)
    await check(here)


async def check(here: Arena) -> None:
    assert here.state("task/.") == "done", here.get("agent/.").status
    names = {path.name for path in here.folder.glob("*.txt")}
    assert names == {"a.txt", "other.txt", "d.txt"}
    assert here.state("hook/careful") == "over"
    assert not here.store.view.list("thread") and not here.store.view.list("call")
    status = here.get("agent/~careful").status
    assert not status.get("asked") and not status.get("inbox")
    log = await here.log()
    answered = Counter(
        question for draft in log for question in draft.data.get("answered", ()) if draft.subject == "agent/~careful"
    )
    assert len(answered) == 5 and set(answered.values()) == {1}, "one answer to each question"
    verdicts = [one["verdict"] for draft in log if draft.type == "hook.fired" for one in draft.data["fired"]]
    assert [one.get("decision", "allow") for one in verdicts] == ["allow", "deny", "allow", "allow", "allow"]
    assert not any(one.get("fault") for one in verdicts)


LIVES = [(after, after * 5 % 7 + 2) for after in range(1, 46)]


async def test_an_untouched_run_asks_five_times(tmp_path: Path) -> None:
    await live_and_die(play, tmp_path, ())


@pytest.mark.parametrize("lives", LIVES[::7])
async def test_owners_that_die_while_a_hook_is_asked_lose_no_answer_and_ask_nothing_twice(
    tmp_path: Path, lives: tuple[int, ...]
) -> None:
    await live_and_die(play, tmp_path, lives)


@pytest.mark.sweep(keep=6)
@pytest.mark.parametrize("lives", LIVES)
async def test_an_owner_may_die_at_any_append_while_a_hook_is_asked(tmp_path: Path, lives: tuple[int, ...]) -> None:
    await live_and_die(play, tmp_path, lives)
