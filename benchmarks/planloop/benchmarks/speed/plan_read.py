"""Time to read a plan of 1,000 and 10,000 tasks with positions, and ratios against floors of the same run.

Floors, alternating in every round: PyYAML's C compose (a node tree with marks, no values) with the garbage collector on
and off. planloop returns checked values and can locate any of them; the first location, which composes again, is
measured separately. Figures are medians. `--rounds` and `--tasks` change the run. `python -m
planloop.benchmarks.speed.plan_read`.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable

import edn_format
import yaml

from planloop.compiler.read import read_source
from planloop.compiler.source import SizeLimits

ROUNDS = 7
TASKS = (1_000, 10_000)
GOAL_MS = {1_000: 60.0, 10_000: 600.0}
EDN_FORMAT_TASKS_MAX = 1_000  # A thousand tasks take seconds.
WIDE = SizeLimits(size_bytes=1 << 26, nodes=1 << 22)  # Large enough that no run is refused.


def yaml_text(tasks: int) -> str:
    lines = ["plan: large", "goal: many small things", "tasks:"]
    for number in range(tasks):
        lines += [f"  t{number}:", f"    goal: the {number}th of many small things", "    run: 'true'"]
        lines += [f"    needs: [t{(number - 1) // 2}]"] if number else []
    return "\n".join(lines) + "\n"


def edn_text(tasks: int) -> str:
    lines = ['{:plan "large"', ' :goal "many small things"', " :tasks {"]
    for number in range(tasks):
        needs = f" :needs [:t{(number - 1) // 2}]" if number else ""
        lines.append(f'  :t{number} {{:goal "the {number}th of many small things" :run "true"{needs}}}')
    return "\n".join(lines) + "}}\n"


def timed_ms(work: Callable[[], object], *, is_collecting: bool = True) -> float:
    gc.collect()
    if not is_collecting:
        gc.disable()
    try:
        start = time.perf_counter()
        kept = work()
        elapsed = time.perf_counter() - start
    finally:
        gc.enable()
    del kept
    return elapsed * 1e3


def read(content: bytes, file: str) -> object:
    tree = read_source(content, file=file, limits=WIDE)
    assert tree.value is not None, tree.diagnostics
    return tree


def read_and_place(content: bytes, file: str, last: str) -> object:
    tree = read_source(content, file=file, limits=WIDE)
    assert tree.place(("tasks", last, "goal")) is not None
    return tree


def measure(tasks: int, rounds: int) -> dict[str, float]:
    text, edn = yaml_text(tasks), edn_text(tasks)
    content, edn_content, last = text.encode(), edn.encode(), f"t{tasks - 1}"
    works: dict[str, Callable[[], float]] = {
        "compose, collector on": lambda: timed_ms(lambda: yaml.compose(text, Loader=yaml.CSafeLoader)),
        "compose, collector off": lambda: timed_ms(
            lambda: yaml.compose(text, Loader=yaml.CSafeLoader), is_collecting=False
        ),
        "PyYAML C load": lambda: timed_ms(lambda: yaml.load(text, Loader=yaml.CSafeLoader)),
        "planloop, YAML": lambda: timed_ms(lambda: read(content, "plan.yaml")),
        "planloop, YAML, and one location": lambda: timed_ms(lambda: read_and_place(content, "plan.yaml", last)),
        "planloop, EDN": lambda: timed_ms(lambda: read(edn_content, "plan.edn")),
        "planloop, EDN, and one location": lambda: timed_ms(lambda: read_and_place(edn_content, "plan.edn", last)),
    }
    figures: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            figures[name].append(work())
    out = {name: statistics.median(values) for name, values in figures.items()}
    if tasks <= EDN_FORMAT_TASKS_MAX:
        out["edn-format"] = timed_ms(lambda: edn_format.loads(edn, write_ply_tables=False))
    return out


def show(tasks: int, figures: dict[str, float]) -> None:
    off, on = figures["compose, collector off"], figures["compose, collector on"]
    size_kib = len(yaml_text(tasks)) / 1024
    print(f"{tasks:,} tasks, {size_kib:,.0f} KiB of YAML; goal {GOAL_MS.get(tasks, tasks * 0.06):g} ms with positions")
    print(f"  {'':28} {'ms':>9} {'/ compose off':>14} {'/ compose on':>13}")
    for name, figure in figures.items():
        print(f"  {name:28} {figure:>9.1f} {figure / off:>14.2f} {figure / on:>13.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--tasks", type=int, nargs="*", default=list(TASKS))
    options = parser.parse_args()
    for tasks in options.tasks:
        show(tasks, measure(tasks, options.rounds))


if __name__ == "__main__":
    main()
