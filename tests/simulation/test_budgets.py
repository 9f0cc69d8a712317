"""Budgets through crashes: at every revision of every story the ledgers balance, and in the end all grants are back."""

from __future__ import annotations

import random  # noqa: TID251 - seeded

import pytest

from planloop.schemas.objects.budget import accounts_of
from tests.controllers.ledger.balancing import check_balanced
from tests.product import JsonObject, MemoryView
from tests.simulation.harness import Crash, Edit, Point, Story, simulate

TEXT = """
goal: work under budgets, some of them tight
budget: {turns: 60, calls: 60, time: 1h, retries: 3, usd: 10}
tasks:
  lead:
    budget: {turns: 30, calls: 20, usd: 4}
    goal: an agent that delegates what it was granted
    agent:
      tools: [all]
      script:
        - task:
            - id: left
              goal: the left half
              budget: {turns: 8, usd: 2}
              agent:
                tools: [shell]
                script: [{call: {shell: {command: "sleep 1; echo left >> effects"}}}, {done: it}]
            - id: right
              goal: the right half
              budget: {turns: 9}
              agent:
                tools: [shell]
                script: [{call: {shell: {command: "sleep 2; echo right >> effects"}}}, {done: it}]
        - {when: {children: done}, done: both}
  waits: {budget: {usd: 5}, run: "echo waits >> effects"}
  broken: {budget: {retries: 2, time: 10m}, run: "sleep 1; echo broken >> effects; exit 1", retries: 5}
  gone: {budget: {time: 5m, usd: 1}, run: "sleep 600"}
"""

EDITED = TEXT.replace("budget: {turns: 60,", "budget: {turns: 80,").replace(
    "{turns: 30, calls: 20, usd: 4}", "{turns: 40}"
)
EDITED = EDITED[: EDITED.index("  gone:")]
EDITS = (Edit(1.5, EDITED),)


def played(*crashes: Crash, seed: int = 0) -> Story:
    return simulate(TEXT, seed=seed, crashes=crashes, edits=EDITS)


def check(story: Story) -> dict[str, JsonObject]:
    """Looks at the ledgers of every revision; returns those of the end."""
    view = MemoryView()
    for record in story.log:
        view.fold(record)
        check_balanced(view)
    for task in view.list("task"):
        for unit, account in accounts_of(task.status).items():
            assert not account.granted and not account.reserved, f"{task.address} {unit} is not back"
    return {task.address: task.status.get("ledger", {}) for task in view.list("task")}


def test_a_story_without_crashes_balances_and_gives_everything_back() -> None:
    story = played()
    ledgers = check(story)
    assert story.lines("effects") == ["broken", "broken", "broken", "left", "right", "waits"]
    assert ledgers["task/."]["turns"]["bound"] == 80
    assert ledgers["task/broken"]["retries"] == ledgers["task/broken"]["retries"] | {"spent": 2, "closed": True}
    assert ledgers["task/."]["retries"]["left"] == 1
    assert ledgers["task/."]["usd"]["left"] == "10", "no agent spent money, and the whole budget was returned"


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
def test_a_crash_at_any_write_loses_nothing_and_counts_nothing_twice(point: Point, part: int) -> None:
    clean = played()
    ended = check(clean)
    for commit in range(1 + part, clean.commits + 1, 4):
        story = played(Crash(commit, point))
        ledgers = check(story)
        assert story.states("task") == clean.states("task"), f"{commit} {point}"
        for address, unit in (("task/.", "turns"), ("task/.", "calls"), ("task/broken", "retries")):
            # A crash may cost a turn or a call again, but nothing is lost from the books.
            assert ledgers[address][unit]["spent"] >= ended[address][unit]["spent"], (
                f"{commit} {point} {address} {unit}"
            )


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(4))
def test_many_crashes_in_one_life_leave_the_books_in_order(seed: int) -> None:
    chance = random.Random(seed)
    commits = sorted(chance.sample(range(1, 50), 7))
    check(played(*[Crash(commit, chance.choice(("before-commit", "after-commit"))) for commit in commits], seed=seed))
