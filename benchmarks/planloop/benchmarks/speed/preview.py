"""Preview of a plan with one changed goal: the whole process of `plan diff`, for 100, 1,000 and 5,000 tasks.

The plan was applied before (paused, so that nothing runs) and its owner has stopped. The process starts Python, reads
the log, compiles the file, compares and prints. Floors, alternating in the same run: Python that starts and ends, and
Python that composes the same YAML with PyYAML's C parser. Figures are medians; memory is the peak of the process.
`--rounds` and `--tasks` change the run. `python -m planloop.benchmarks.speed.preview`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 7
TASKS = (100, 1_000, 5_000)
GOAL_S = {100: 0.15, 1_000: 0.3, 5_000: 1.0}
GOAL_MB = 250
PLAN = (sys.executable, "-m", "planloop")
COMPOSE = "import gc, sys, yaml; gc.disable(); yaml.compose(open(sys.argv[1]).read(), Loader=yaml.CSafeLoader)"
EXIT_DIFFERENT = 1


def plan_text(tasks: int, goal: str) -> str:
    """A tree of `tasks` tasks in groups of 50, each with a command, a check, and a `needs` on the previous one."""
    lines = ["plan: large", "goal: many small things", "pause: true", "tasks:"]
    for group in range(0, tasks, 50):
        lines += [f"  g{group}:", f"    goal: group {group}", "    tasks:"]
        for number in range(group, min(group + 50, tasks)):
            text = goal if number == tasks // 2 else f"the {number}th of many small things"
            lines += [f"      t{number}:", f"        goal: {text}", "        run: 'true'"]
            lines += [f"        acceptance: [test -d {number % 7}]"]
            lines += [f"        needs: [t{number - 1}]"] if number > group else []
    return "\n".join(lines) + "\n"


def environment(folder: Path) -> dict[str, str]:
    """The environment of this process, with bytecode files allowed, like for an installed package."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PYTHONPATH": str(Path.cwd())}


def timed(argv: tuple[str, ...], folder: Path, expected: int) -> tuple[float, float]:
    """Seconds from start to end of a process, and its peak memory in MB."""
    start = time.perf_counter()
    env = environment(folder)
    with subprocess.Popen(argv, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        told = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == expected, told.decode()
    return elapsed, usage.ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20)


def apply_paused(folder: Path, file: Path) -> None:
    """Apply the plan to a new log, and stop its owner."""
    subprocess.run([*PLAN, "apply", file.name, "--detach", "--yes"], cwd=folder, check=True, capture_output=True)
    subprocess.run([*PLAN, "down"], cwd=folder, check=True, capture_output=True)


def measure(tasks: int, rounds: int) -> None:
    """Measure one size and print the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "large.plan.yaml"
        file.write_text(plan_text(tasks, "as it was"))
        apply_paused(folder, file)
        file.write_text(plan_text(tasks, "as it is now"))
        works = {
            "python": ((sys.executable, "-c", "pass"), 0),
            "python composing the YAML": ((sys.executable, "-c", COMPOSE, file.name), 0),
            "plan diff": ((*PLAN, "diff", file.name), EXIT_DIFFERENT),
        }
        figures: dict[str, list[tuple[float, float]]] = {work: [] for work in works}
        timed(works["plan diff"][0], folder, EXIT_DIFFERENT)  # Writes the bytecode files.
        for _ in range(rounds):
            for work, (argv, expected) in works.items():
                figures[work].append(timed(argv, folder, expected))
        size_kib = file.stat().st_size / 1024
    goal = GOAL_S.get(tasks, tasks * 0.0002)
    print(f"{tasks:,} tasks, {size_kib:,.0f} KiB; goal {goal:g} s, {GOAL_MB} MB")
    floor = statistics.median(elapsed for elapsed, _ in figures["python composing the YAML"])
    print(f"  {'':28} {'s':>8} {'/ composing':>12} {'MB':>6}")
    for work, taken in figures.items():
        elapsed = statistics.median(seconds for seconds, _ in taken)
        print(f"  {work:28} {elapsed:>8.3f} {elapsed / floor:>12.2f} {max(mb for _, mb in taken):>6.0f}")


def main() -> None:
    """Measure every size given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--tasks", type=int, nargs="*", default=list(TASKS))
    options = parser.parse_args()
    for tasks in options.tasks:
        measure(tasks, options.rounds)


if __name__ == "__main__":
    main()
