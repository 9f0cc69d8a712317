"""Startup time of `plan --help` and `plan get`, with and without an owner, as whole processes.

Floors, alternating in every round: an empty Python, and Python with click imported. Figures are medians over the
rounds. Processor time is printed next to wall time, because other load on the machine hardly changes it.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 25
GOAL_MS = 90.0
ROOT = Path(__file__).parents[4]
PLAN = "plan: p\ntasks:\n  a: {goal: x, run: 'true'}\n  b: {goal: z, needs: [a], run: 'true'}\n"


def once(command: list[str], folder: Path) -> tuple[float, float]:
    """Wall and processor milliseconds of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True, env=environment)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall * 1e3, cpu * 1e3


def rounds(commands: dict[str, list[str]], folder: Path) -> dict[str, tuple[float, float]]:
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            found[name].append(once(command, folder))
    return {
        name: (statistics.median(wall for wall, _ in runs), statistics.median(cpu for _, cpu in runs))
        for name, runs in found.items()
    }


def main() -> None:
    plan = [sys.executable, "-m", "planloop"]
    with tempfile.TemporaryDirectory(prefix="startup-") as name:
        folder = Path(name)
        (folder / "p.plan.yaml").write_text(PLAN)
        once([*plan, "apply", "p.plan.yaml"], folder)
        found = rounds(
            {
                "python": [sys.executable, "-c", "pass"],
                "python, click": [sys.executable, "-c", "import click"],
                "plan --help": [*plan, "--help"],
                "plan get, without an owner": [*plan, "get"],
            },
            folder,
        )
        once([*plan, "apply", "p.plan.yaml", "--detach"], folder)
        try:
            found |= rounds({"plan get, from its owner": [*plan, "get"]}, folder)
        finally:
            once([*plan, "down"], folder)
    floor = found["python, click"]
    print(f"{'':28}{'ms':>8}{'× click':>9}{'CPU ms':>9}{'× click':>9}")
    for name, (wall, cpu) in found.items():
        print(f"{name:28}{wall:>8.1f}{wall / floor[0]:>9.2f}{cpu:>9.1f}{cpu / floor[1]:>9.2f}")
    print(f"goal: at most {GOAL_MS:.0f} ms each")


if __name__ == "__main__":
    main()
