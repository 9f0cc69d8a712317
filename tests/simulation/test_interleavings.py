"""Random trees of LLM and scripted agents under random messages, timers, edits, failures and crashes.

In any order: no message is lost or read twice, and no agent sleeps with a reason to wake. That the last
holds is asked by the harness, which reconciles everything once more at the end and allows no write.
"""

from __future__ import annotations

import json
import random  # noqa: TID251 - seeded
from collections import Counter
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from tests.fakes.pure_models import Answer, PureModels, failing
from tests.simulation.harness import Edit, Story, drawn, simulate
from tests.simulation.product import product
from tests.simulation.test_thinking import delivered

ROOT_TURNS = 60  # More than it can be woken.


def tree(chance: random.Random) -> tuple[str, dict[str, list[Answer]]]:
    """A plan whose root delegates to a handful of children, and what the models in it answer."""
    answers: dict[str, list[Answer]] = {}
    tasks = []
    for number in range(chance.randint(2, 4)):
        name = f"t{number}"
        task: dict[str, Any] = {"id": name, "goal": f"part {number}"}
        if number and chance.random() < 0.4:
            task["needs"] = [f"t{chance.randrange(number)}"]
        if chance.random() < 0.5:
            task |= {"model": "test/small", "tools": ["shell"]}
            answers[f"agent/{name}"] = _thoughts(chance, name)
        else:
            task["script"] = _steps(chance, name)
        tasks.append(task)
    answers["agent/."] = [[("task", {"tasks": tasks})], *["I see."] * ROOT_TURNS]
    goal = "goal: keep an eye on all of it\nagent: {model: test/big, tools: [all], wake: {every: 7s}}\n"
    return goal, answers


def _thoughts(chance: random.Random, name: str) -> list[Answer]:
    found: list[Answer] = []
    for count in range(chance.randint(1, 4)):
        nap = {"command": f"sleep {chance.randint(0, 3)}; echo {name}.{count} >> effects"}
        word = {"to": "parent", "text": f"{name} is at {count}"}
        found.append(chance.choice(([("shell", nap)], [("send", word)], [("send", word), ("shell", nap)])))
    return [*found, f"{name} is done"]


def _steps(chance: random.Random, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for count in range(chance.randint(1, 4)):
        found.append(
            chance.choice(
                (
                    {"sleep": chance.randint(1, 5)},
                    {"say": {"to": "parent", "text": f"{name} says {count}"}},
                    {"call": {"shell": {"command": f"sleep 1; echo {name}.{count} >> effects"}}},
                )
            )
        )
    return [*found, {"done": name}]


def played(seed: int) -> tuple[Story, set[str]]:
    """One story, and the effects that its agents were to have."""
    chance = random.Random(seed)
    text, answers = tree(chance)
    edits = [Edit(at, text.replace("eye", f"eye {at}")) for at in sorted(chance.sample((1.3, 3.1, 5.7, 9.2), 2))]
    crashes = drawn(chance, chance.randint(0, 5), 59)
    models = PureModels(answers, failing(*chance.sample(range(1, 20), 3)), takes_s=chance.choice((0.0, 0.3, 1.1)))
    build = partial(product, models=models)
    story = simulate(text, seed=seed, crashes=crashes, edits=edits, build=build)
    words = json.dumps(answers).replace(";", " ").split()
    return story, {word for before, word in pairwise(words) if before == "echo"}


def check(seed: int) -> None:
    story, effects = played(seed)
    why = f"seed {seed}"
    assert set(story.states("task").values()) == {"done"}, (why, story.states("task"))
    assert Counter(story.lines("effects")) == Counter(effects), why
    said = [one for record in story.log for one in record.draft.entries]
    read = Counter(each for one in said if one.type in ("turn.started", "message.read") for each in one.data["read"])
    assert set(read.values()) <= {1}, why
    assert {key for record in story.log for key in delivered(record.draft.changes)} == set(read), why
    told = [one.data["reasons"] for one in said if one.type == "turn.started" and one.subject == "agent/."]
    ends = Counter(reason for reasons in told for reason in reasons if reason.startswith("child "))
    assert ends["child done"] >= 1, why


@pytest.mark.parametrize("seed", range(12))
def test_in_any_order_nothing_is_lost_doubled_or_forgotten(seed: int) -> None:
    check(seed)


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(6))
def test_in_many_more_orders_nothing_is_lost_doubled_or_forgotten(part: int) -> None:
    for seed in range(100 + part * 25, 125 + part * 25):
        check(seed)
