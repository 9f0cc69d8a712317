"""Passing a lock from agent to agent: from the release to the next holder's step, with 1, 100 and 1,000 waiters.

Also the processor time of 1,000 agents that wait for a lock while nothing happens. Floor, in the same run: coroutines
that pass on an `asyncio.Lock`, each writing one durable row. Times are from the owner's log.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WAITING = (1, 100, 1_000)
HANDED_ON = 20  # Minimal number of samples: few agents take the lock several times.
IDLE_S = 10.0
QUIET_S = 30.0  # Waiters are examined after 5 s, to report a conflict, and then at growing intervals.
GOAL_MS = 50.0
ROOT = Path(__file__).parents[4]
TICKS = os.sysconf("SC_CLK_TCK")


def plan(waiting: int) -> str:
    times = max(1, HANDED_ON // waiting)
    lock = "{call: {lock: {paths: [x], reason: a turn, wait_s: 3600}}}"
    turns = ", ".join([lock, "{call: {release: {}}}"] * times)
    rows = "".join(f"  a{n}: {{agent: {{script: [{turns}, {{done: x}}]}}}}\n" for n in range(waiting))
    begin = f"{lock}, {{when: {{message: go}}, call: {{release: {{}}}}}}"
    first = f"  first: {{agent: {{script: [{begin}, {turns}, {{done: x}}]}}}}\n"
    needs = rows.replace("{agent:", "{needs: [held], agent:")
    held = "  held: {run: 'until grep -q go go; do sleep 0.1; done'}\n"
    return f"plan: p\nlimits: {{parallel: 64}}\ntasks:\n{first}{held}{needs}"


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def floor_ms(waiting: int) -> list[float]:
    """Milliseconds of each hand-over."""
    found: list[float] = []

    async def run(connection: sqlite3.Connection) -> None:
        lock = asyncio.Lock()
        released = 0.0

        async def take(number: int) -> None:
            nonlocal released
            async with lock:
                connection.execute("INSERT INTO log VALUES (NULL, ?)", ("x" * 400,))
                if released:
                    found.append((time.perf_counter() - released) * 1e3)
                released = time.perf_counter()
                del number

        async with asyncio.TaskGroup() as group:
            for number in range(max(waiting, HANDED_ON)):
                group.create_task(take(number))

    with tempfile.TemporaryDirectory(prefix="locks-") as name:
        connection = sqlite3.connect(Path(name) / "floor.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE log (rev INTEGER PRIMARY KEY, body TEXT)")
        asyncio.run(run(connection))
        connection.close()
    return found


@contextmanager
def applied(folder: Path, waiting: int) -> Iterator[Any]:
    command = [sys.executable, "-m", "planloop"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    (folder / "go").write_text("")
    (folder / "p.plan.yaml").write_text(plan(waiting))
    apply = [*command, "apply", "p.plan.yaml", "--detach", "--max-size", str(64 << 20)]
    subprocess.run(apply, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=environment)
    try:
        from planloop.client.plan_client import PlanClient
        from planloop.client.plan_paths import find_plan

        yield PlanClient(find_plan("p", folder))
    finally:
        down = [*command, "down", "--force"]
        subprocess.run(down, cwd=folder, check=False, stdout=subprocess.DEVNULL, env=environment)


def ours(waiting: int, *, is_idle: bool) -> tuple[list[float], float]:
    """Milliseconds of each hand-over, and the processor use while all wait, in percent."""
    with tempfile.TemporaryDirectory(prefix="locks-") as name, applied(Path(name), waiting) as access:
        folder, idle = Path(name), 0.0
        until(lambda: any(one.status.get("holders") for one in access.objects("lock")))
        (folder / "go").write_text("go")
        until(lambda: sum(one.state == "AwaitingLock" for one in access.objects("call")) == waiting)
        if is_idle:
            time.sleep(QUIET_S)
            pid = int(access.get("status")["pid"])
            before = cpu_s(pid)
            time.sleep(IDLE_S)
            idle = (cpu_s(pid) - before) / IDLE_S * 100
        access.post("send", {"to": "agent/first", "text": "go"})
        until(lambda: access.objects("task")[0].state == "done")
        return handed_on(access), idle


def handed_on(access: Any) -> list[float]:
    """Milliseconds from each record that releases the lock to the end of the call that gets it."""
    from planloop.client.plan_follower import read_records
    from planloop.schemas.log.record import SetStatus

    found, released, granted = [], 0.0, ""
    for record in read_records(access):
        if released and granted and any(one.subject == granted for one in record.draft.entries):
            found.append((record.at - released) * 1e3)
            released, granted = 0.0, ""
        for change in record.draft.changes:
            if not isinstance(change, SetStatus):
                continue
            if change.address == "lock/x" and None in change.merge.get("holders", {}).values():
                released = record.at
            if change.merge.get("granted"):
                granted = change.address
    return found


def until(is_so: Any) -> None:
    while not is_so():
        time.sleep(0.2)


def figures(found: list[float]) -> tuple[float, float]:
    """Median and 95th percentile."""
    return statistics.median(found), sorted(found)[int(len(found) * 0.95)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, nargs="*", default=list(WAITING), help="numbers of waiting agents")
    idle = {}
    for waiting in parser.parse_args().waiting:
        floor, floor_late = figures(floor_ms(waiting))
        found, idle[waiting] = ours(waiting, is_idle=waiting == WAITING[-1])
        median, late = figures(found)
        print(
            f"{waiting:5,} waiting: {median:7.2f} ms, 95 % {late:7.2f} ms   floor {floor:5.2f} ms, 95 % "
            f"{floor_late:5.2f} ms   {median / floor:5.1f} × floor   {len(found):,} times"
        )
    for waiting, share in idle.items():
        if waiting == WAITING[-1]:
            print(f"idle, {waiting:,} agents waiting for a lock  {share:6.2f} % of a processor")
    print(f"goal: {GOAL_MS:.0f} ms median, idle 0")


if __name__ == "__main__":
    main()
