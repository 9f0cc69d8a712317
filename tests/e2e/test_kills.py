"""kill -9 of the owner at random moments: nothing acknowledged is lost or repeated, nothing is left running."""

from __future__ import annotations

import hashlib
import subprocess
from collections import Counter

import pytest

from tests import sets
from tests.e2e.folder import Folder

KILLS = range(10)
KEPT = 3  # Kills of each seed in the set change.
SEEDS = range(6)

# Every effect leaves one line in `effects`; commands are `once`, so a line that stands twice is a broken law.
COMMANDS = 8
PLAN_TEXT = """\
plan: p
limits: {parallel: 3}
tasks:
  script:
    goal: write and run
    agent:
      tools: [write, shell, task]
      script:
        - call: {write: {path: a.txt, content: a}}
        - call: {shell: {command: "sleep 0.2; echo script-1 >> effects"}}
        - task: {id: child, goal: below, run: "sleep 0.3; echo child >> effects"}
        - when: {child: child, state: done}
          call: {shell: {command: "sleep 0.2; echo script-2 >> effects"}}
        - done: all written
    acceptance: [{require-file: a.txt}]
""" + "".join(
    f'  t{n}:\n    run: "sleep 0.{n % 4 + 1}; echo t{n} >> effects"\n'
    + (f"    needs: [t{n - 3}]\n" if n >= 3 else "")
    + ("    acceptance: [{sh: test -s effects}]\n" if n % 2 else "")
    for n in range(COMMANDS)
)

EFFECTS = {"script-1", "script-2", "child", *(f"t{n}" for n in range(COMMANDS))}


def moment_s(seed: int, kill: int) -> float:
    """Seconds from start to kill: 0 to 1.3, the same in every run of the test."""
    return hashlib.sha256(f"{seed}/{kill}".encode()).digest()[0] / 256 * 1.3


@pytest.mark.sweep
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", SEEDS)
def test_law_5_an_owner_killed_at_random_moments_loses_and_repeats_nothing(folder: Folder, seed: int) -> None:
    folder.write("p.yaml", PLAN_TEXT)
    acknowledged: list[str] = []
    for kill in sets.points(KILLS, KEPT, "kills"):
        with folder.killed("--yes", "p.yaml") as owner:
            try:
                owner.process.wait(timeout=moment_s(seed, kill))
            except subprocess.TimeoutExpired:
                acknowledged += patched(folder, kill)

    said = folder.run("apply", "--yes", "p.yaml", timeout_s=120)

    assert said.code == 0, said.text
    assert set(folder.states().values()) == {"done"}
    assert Counter((folder.path / "effects").read_text().split()) == Counter(EFFECTS)
    assert folder.processes() == []
    notes = folder.json("get", "task/t0")["spec"]["notes"]
    assert notes == (acknowledged[-1] if acknowledged else "")
    assert [record["rev"] for record in folder.records()] == list(range(1, len(folder.records()) + 1))
    assert folder.run("replay").code == 0


def patched(folder: Folder, kill: int) -> list[str]:
    """The note that `plan patch` acknowledged just before the kill, if it did."""
    said = folder.run("patch", "task/t0", f"notes=note {kill}")
    return [f"note {kill}"] if said.code == 0 else []


@pytest.mark.sweep
@pytest.mark.timeout(120)
def test_one_of_two_concurrent_applies_owns_and_the_other_joins(folder: Folder) -> None:
    folder.write("p.yaml", PLAN_TEXT)
    with folder.started("--yes", "p.yaml") as first, folder.started("--yes", "p.yaml") as second:
        assert (first.ended(), second.ended()) == (0, 0)

    assert Counter((folder.path / "effects").read_text().split()) == Counter(EFFECTS)
    epochs = [record for record in folder.records() if record["type"] == "epoch.taken"]
    assert len(epochs) == 1
