"""Time from saving a changed goal to the agent's inbox: watch, compile, merge, admit.

The time is measured from the rename to the durable revision with the edit, according to the owner's log. Floor, in the
same run: the raw file event, from the rename to the kernel's notification.
"""

from __future__ import annotations

import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from planloop.client.folder_events import Inotify
from planloop.client.plan_client import PlanClient
from planloop.client.plan_follower import PlanFollower
from planloop.client.plan_paths import find_plan

SAVES = 30
GOAL_MS = 50.0
ROOT = Path(__file__).parents[4]


def plan(goal: str, tasks: int) -> str:
    others = "".join(f"  t{n}: {{goal: task {n}, needs: [talk], run: 'true'}}\n" for n in range(tasks))
    agent = "agent: {script: [{say: hi}, {sleep: 3600}]}"
    return f"plan: p\ntasks:\n  talk:\n    goal: {goal}\n    {agent}\n{others}"


def save(path: Path, text: str) -> float:
    """Replace the file like an editor does; return the time in seconds since 1970."""
    beside = path.with_suffix(".tmp")
    beside.write_text(text)
    now = time.time()
    beside.replace(path)
    return now


def floor_ms(folder: Path) -> float:
    path = folder / "floor.yaml"
    path.write_text("x")
    found = []
    with Inotify([folder]) as watch:
        for n in range(SAVES):
            saved = save(path, str(n))
            while str(path) not in watch.read():
                select.select([watch.descriptor], [], [])
            found.append((time.time() - saved) * 1e3)
    return statistics.median(found)


def ours(folder: Path, tasks: int) -> list[float]:
    path = folder / "p.plan.yaml"
    path.write_text(plan("words 0", tasks))
    command = [sys.executable, "-m", "planloop"]
    subprocess.run([*command, "apply", str(path), "--detach"], check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    try:
        following = PlanFollower(PlanClient(find_plan("p", folder)))
        steps = following.steps()
        found = []
        for n in range(1, SAVES + 1):
            saved = save(path, plan(f"words {n}", tasks))
            # The agent has the goal when a turn starts that the new goal triggered.
            for step in steps:
                patched = step.record.draft.type == "plan.patched"
                at = step.record.at if patched else 0.0
                if patched:
                    found.append((at - saved) * 1e3)
                if step.record.draft.type == "turn.started" and len(found) == n:
                    found[-1] = (step.record.at - saved) * 1e3
                    break
        return found
    finally:
        subprocess.run([*command, "down", "--force"], check=True, stdout=subprocess.DEVNULL, cwd=folder)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="save-") as name:
        floor = floor_ms(Path(name))
    print(f"{'':24}{'median ms':>10}{'p90 ms':>9}{'× floor':>9}")
    print(f"{'file event only':24}{floor:>10.1f}{'':>9}{1.0:>9.1f}")
    for tasks in (2, 100, 1000):
        with tempfile.TemporaryDirectory(prefix="save-") as name:
            found = ours(Path(name), tasks)
        median, late = statistics.median(found), statistics.quantiles(found, n=10)[8]
        print(f"{f'plan of {tasks} tasks':24}{median:>10.1f}{late:>9.1f}{median / floor:>9.1f}")
    print(f"goal: at most {GOAL_MS:.0f} ms, median, in a plan of normal size")


if __name__ == "__main__":
    main()
