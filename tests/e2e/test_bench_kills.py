"""kill -9 of a run of a suite at random moments, resumed each time.

Nothing that had ended is tried again, no event is lost or told twice, and the summary is that of an undisturbed run.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from planloop.server.bench import run_folder as files
from tests import sets
from tests.e2e import bench_suite, command
from tests.e2e.folder import Folder, Said

KILLS = range(10)
KEPT = 3  # Kills of each seed in the set change.
SEEDS = range(5)
SPAN_S = 1.6
"""From the beginning of a run to somewhere after its end."""

MODELS = ("--model", "oracle:plain", "--model", "oracle:shell", "--model", "nop", "--parallel", "2")


def moment_s(seed: int, kill: int) -> float:
    """Seconds from start to kill, the same in every run of the test."""
    return hashlib.sha256(f"bench {seed}/{kill}".encode()).digest()[0] / 256 * SPAN_S


@pytest.mark.sweep
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", SEEDS)
def test_law_5_run_killed_at_random_moments_ends_like_an_undisturbed_one(folder: Folder, seed: int) -> None:
    bench_suite.lay(folder)
    assert folder.run("bench", "run", "suite.yaml", *MODELS, "--trials", "2", "--name", "calm").code == 0
    run = folder.path / "reports" / "mixed" / "wild"
    for kill in sets.points(KILLS, KEPT, "bench kills"):
        before = bench_suite.events(run)
        kill_after(folder, run, moment_s(seed, kill))
        after = bench_suite.events(run)
        assert after[: len(before)] == before

    said = going_on(folder, run)

    assert said.code == 0, said.text
    whole = bench_suite.events(run)
    assert [event["seq"] for event in whole] == list(range(1, len(whole) + 1))
    decided = Counter(entry_of(event) for event in whole if event["type"] == "case/end")
    assert set(decided.values()) == {1} and len(decided) == ENTRIES
    assert summary(run) == summary(run.with_name("calm"))
    assert folder.processes() == []

    told = (run / "events.jsonl").read_bytes()
    (run / "events.jsonl").rename(run / "put-away.jsonl")
    assert going_on(folder, run).code == 0
    assert (run / "events.jsonl").read_bytes() == told, "they are a projection of the log, and of nothing else"


ENTRIES = bench_suite.CASES * 3 * 2


def kill_after(folder: Folder, run: Path, seconds: float) -> None:
    """Start or resume the run, and kill its process after that time."""
    words = ("resume", str(run)) if (run / files.PLAN_JSON).exists() else ("run", "suite.yaml", *MODELS, *WILD)
    with (folder.path / "out").open("a") as out:
        process = command.start("bench", *words, cwd=folder.path, stdout=out, stderr=out)
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


WILD = ("--trials", "2", "--name", "wild")


def going_on(folder: Folder, run: Path) -> Said:
    if not (run / files.PLAN_JSON).exists():
        return folder.run("bench", "run", "suite.yaml", *MODELS, *WILD, timeout_s=120)
    return folder.run("bench", "resume", str(run), timeout_s=120)


def entry_of(event: dict[str, Any]) -> tuple[str, str, int]:
    return event["case"], event["model"], event["trial"]


def summary(run: Path) -> dict[str, Any]:
    """The summary without what may differ between equal runs, and without the run's own name."""
    whole: dict[str, Any] = json.loads((run / "summary.json").read_text())
    return {name: value for name, value in whole.items() if name not in ("timing", "run")}
