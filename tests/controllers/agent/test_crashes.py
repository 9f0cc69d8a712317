"""The owner dies after each append of a run; the next one continues, and no effect happens twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from planloop.reconciler.effects import journal
from tests.controllers.agent.arena import Arena
from tests.controllers.agent.mortal import live_and_die
from tests.product import CallState, RecordDraft, Resource

pytestmark = pytest.mark.anyio

# Once effects append to a log, so that a second run would show; the parent decomposes, patches, talks and is rejected.
PLAN = """
goal: everything
agent:
  tools: [task, edit_plan, write, edit, shell]
  script:
    - call: {write: {path: a.txt, content: one}}
    - call: {shell: {command: echo parent >> effects}}
    - task:
        - id: child
          goal: a part
          agent:
            tools: [shell]
            script:
              - {say: {to: parent, text: begun}}
              - call: {shell: {command: echo child >> effects}}
              - done: part
    - {when: {message: begun}, call: {edit_plan: {path: notes, value: heard}}}
    - call: {edit: {path: a.txt, old: one, new: two}}
    - when: {children: done}
      done: too soon
    - when: {rejected: true}
      call: {shell: {command: touch b.txt}}
    - done: now
acceptance: [{require-file: b.txt, empty: true}]
"""


async def play(here: Arena) -> None:
    """Run until the plan is done, with an operator who settles calls with an unknown outcome."""
    if here.find("plan/arena") is None:
        await here.apply(PLAN)
    await answered(here)
    await check(here)


async def answered(here: Arena) -> None:
    """Return when the plan is done or has failed; an operator settles each call with an unknown outcome."""
    while here.state("task/.") not in ("done", "failed"):
        await here.until(lambda: here.state("task/.") in ("done", "failed") or bool(doubts(here)))
        await give_word(here)
    await here.settled()


def doubts(here: Arena) -> list[Resource]:
    return [call for call in here.store.view.list("call") if call.state == CallState.UNKNOWN]


async def give_word(here: Arena) -> None:
    """An operator checks whether the command had its effect, and settles the call."""
    for call in doubts(here):
        word = str(call.spec["arguments"]["command"]).split()[1]
        effects = here.read("effects") if (here.folder / "effects").exists() else ""
        happened = word in effects.split() or word == "b.txt"
        changes = journal.settle_unknown(call, happened=happened)
        await here.store.append(RecordDraft("call.reconciled", "human:cli", call.address, changes))


async def check(here: Arena) -> None:
    assert here.state("task/.") == "done", here.get("agent/.").status
    effects = Counter(here.read("effects").split())
    assert effects == {"parent": 1, "child": 1}
    assert here.read("a.txt") == "two"
    assert here.gate.present.document["notes"] == "heard"
    assert here.store.view.list("call") == []
    log = await here.log()
    read = [message for draft in log if draft.type == "turn.started" for message in draft.data["read"]]
    assert len(read) == len(set(read)) == 1, "each message is in exactly one turn"
    settled = Counter(draft.subject for draft in log if draft.type == "call.settled" and "late" not in draft.data)
    proposed = [call["call"] for draft in log if draft.type == "model.replied" for call in draft.data["calls"]]
    assert proposed and all(settled[call] == 1 for call in proposed), "one result for each call"


LIVES = [(after, after * 7 % 11 + 2) for after in range(1, 61)]


@pytest.mark.parametrize("lives", LIVES[::9])
async def test_law_5_owners_that_die_lose_nothing_and_repeat_nothing(tmp_path: Path, lives: tuple[int, ...]) -> None:
    await live_and_die(play, tmp_path, lives)


@pytest.mark.sweep(keep=8)
@pytest.mark.parametrize("lives", LIVES)
async def test_law_5_an_owner_may_die_at_any_append(tmp_path: Path, lives: tuple[int, ...]) -> None:
    await live_and_die(play, tmp_path, lives)


async def test_an_untouched_run_is_as_the_crashed_ones(tmp_path: Path) -> None:
    await live_and_die(play, tmp_path, ())
