"""kill -9 of the owner at random moments of one plan that mixes commands, scripts, a model, forks and locks."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests import sets
from tests.controllers.fork.repository import Home
from tests.e2e import team
from tests.e2e.folder import Folder
from tests.e2e.test_model_kills import acknowledged, assert_balance, draws, lives
from tests.fakes.model_server.running import StartedServer, started

KILLS = range(40)
KEPT = 5  # Kills of each seed in the set change.
SEEDS = range(20)
COMMANDS, COUNTS, PARTS = range(10), range(4), range(4)
GOAL = "write the summary"


def steps() -> list[team.Step]:
    """The replies of the model. Which one fits follows from what was said: an agent that was killed asks again."""
    wrong, right = (team.call("write", path="summary", content=text) for text in ("short\n", "short and complete\n"))
    said = [
        ("I begin.", [_marked("model-1"), _marked("model-2")], {}),
        ("It is written.", [wrong], {"any": "I begin."}),
        ("It is complete.", [right], {"last": "complete", "any": "It is written."}),
        ("I check it.", [_marked("model-3")], {"any": "It is complete."}),
    ]
    return [
        *(
            {"when": {"system": GOAL, "not": text, **when}, "reply": {"text": text, "calls": calls, "split": 20}}
            | {"times": "always", "delay": 0.1}
            for text, calls, when in said
        ),
        {"reply": {"text": "That is all."}, "times": "always", "delay": 0.1},
    ]


def _marked(effect: str) -> team.Step:
    return team.call("shell", command=f"sleep 0.2; echo {effect} >> $EFFECTS")


def plan_text(server: StartedServer, effects: Path) -> str:
    """Every command appends its name to the file `effects`; each must be there exactly once."""
    rows = [
        *(f"c{n}: {{run: 'sleep 0.{n % 4 + 2}; echo c{n} >> $EFFECTS'{_after(n)}}}" for n in COMMANDS),
        # Each reads a number and writes the next one: a lock that two hold at once loses one.
        *(
            f"n{n}: {{locks: [number], run: 'n=$(cat number); sleep 0.3; echo $((n + 1)) > number; "
            f"echo n{n} >> $EFFECTS'}}"
            for n in COUNTS
        ),
        *(
            f'f{n}: {{fork: true, run: \'sed -i "s/^part {n}$/part {n} done/" all; echo {n} > new{n}; sleep 0.3; '
            f"echo f{n} >> $EFFECTS'}}"
            for n in PARTS
        ),
    ]
    return f"""\
plan: mixed
limits: {{parallel: 6}}
env: {{EFFECTS: {effects}}}
models: {{ollama: {{url: {server.url}}}}}
tasks:
  thinks:
    goal: {GOAL}
    agent: {{model: ollama/small, tools: [write, shell]}}
    acceptance: [{{sh: "grep complete summary || {{ echo not complete; exit 1; }}"}}]
  book:
    goal: write the book
    agent:
      tools: [lock, write, shell, task]
      script:
        - call: {{lock: {{paths: [book], reason: two parts}}}}
        - call: {{write: {{path: book, content: "one\\n"}}}}
        - call: {{shell: {{command: "sleep 0.3; echo two >> book; echo book >> $EFFECTS"}}}}
        - task: {{id: child, goal: below, run: "sleep 0.3; echo child >> $EFFECTS"}}
        - when: {{child: child, state: done}}
          done: written
  title:
    goal: give the book a third part
    agent:
      tools: [lock, shell]
      script:
        - sleep: 0.5s
        - call: {{lock: {{paths: [book], reason: another part}}}}
        - call: {{shell: {{command: "sleep 0.2; echo three >> book; echo title >> $EFFECTS"}}}}
        - done: added
    needs: [c0]
  apart:
    fork: true
    goal: change a part in a fork
    agent:
      tools: [write, shell]
      script:
        - call: {{write: {{path: apart, content: "apart\\n"}}}}
        - call: {{shell: {{command: "sleep 0.3; echo apart >> $EFFECTS"}}}}
        - done: written
""" + "".join(f"  {row}\n" for row in rows)


def _after(n: int) -> str:
    return f", needs: [c{n - 2}]" if n >= 2 else ""


EFFECTS = Counter(
    [
        *("book title child apart model-1 model-2 model-3".split()),
        *(f"{kind}{n}" for kind, many in (("c", COMMANDS), ("n", COUNTS), ("f", PARTS)) for n in many),
    ]
)


@pytest.mark.sweep
@pytest.mark.needs("git")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_law_5_a_mixed_plan_killed_at_random_moments_loses_and_repeats_nothing(tmp_path: Path, seed: int) -> None:
    home = Home(tmp_path / "home").begin(all="".join(f"part {n}\n" + "same\n" * 10 for n in PARTS), number="0\n")
    folder, own, patches = Folder(home.path), home.own(), list[str]()
    words: list[str] = []
    with started(steps(), tmp_path) as server:
        folder.write("mixed.plan.yaml", plan_text(server, tmp_path / "effects"))
        for kill in sets.points(KILLS, KEPT, "mixed kills"):
            with folder.killed("--yes", "mixed.plan.yaml") as owner:
                if lives(folder, owner, *draws(seed, kill)):
                    patches += acknowledged(folder, f"note-{kill}", "patch", "task/c9", f"notes=note-{kill}.")
                    words += acknowledged(folder, f"word-{kill}", "send", "agent/book", f"word-{kill}.")

        said = folder.run("apply", "--yes", "mixed.plan.yaml", timeout_s=120)

    assert said.code == 0, said.text
    assert set(folder.states().values()) == {"done"}
    assert Counter((tmp_path / "effects").read_text().split()) == EFFECTS
    assert home.read("number") == f"{len(COUNTS)}\n"
    assert home.read("book").split() == ["one", "two", "three"]
    assert_forks_are_merged(home, own)
    assert folder.processes() == []
    assert folder.json("get", "task/c9")["spec"]["notes"] == (f"{patches[-1]}." if patches else "")
    told = json.dumps([one["changes"] for one in folder.records()])
    assert all(f"{word}." in told for word in words)
    assert_balance(folder)
    assert [record["rev"] for record in folder.records()] == list(range(1, len(folder.records()) + 1))
    for how in ((), ("--tree",)):
        replayed = folder.run("replay", *how)
        assert replayed.code == 0, replayed.text


def assert_forks_are_merged(home: Home, own: tuple[str, str, str]) -> None:
    """Each change of a fork is in the person's folder once; index, HEAD and stash are untouched; no branch is left."""
    changed = [line for line in home.read("all").splitlines() if line != "same"]
    assert changed == [f"part {n} done" for n in PARTS]
    assert [home.read(f"new{n}") for n in PARTS] == [f"{n}\n" for n in PARTS]
    assert home.read("apart") == "apart\n"
    assert (home.branches(), home.trees(), home.own()) == ([], 0, own)
