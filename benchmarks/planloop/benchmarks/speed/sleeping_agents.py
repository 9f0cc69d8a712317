"""10,000 sleeping agents: memory per agent, and processor time of all while nothing happens.

Floors, in the same process: a sleeping coroutine, for memory; an owner with one sleeping agent, for processor time. The
agents are rows of a real store with the real controllers.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

AGENTS = 10_000
IDLE_S = 10.0
GOAL = "one row in the store per agent, idle CPU 0"
ROOT = Path(__file__).parents[4]
TICKS = os.sysconf("SC_CLK_TCK")


def plan(agents: int) -> str:
    rows = "".join(f"  a{n}: {{agent: {{script: [{{sleep: 86400}}]}}}}\n" for n in range(agents))
    return f"plan: p\nlimits: {{parallel: 64}}\ntasks:\n{rows}"


def resident_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    raise AssertionError("/proc reports the memory of a process on Linux")


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def coroutine_kb() -> float:
    async def run() -> float:
        gc.collect()
        before = resident_kb(os.getpid())
        tasks = [asyncio.create_task(asyncio.sleep(3600)) for _ in range(AGENTS)]
        await asyncio.sleep(0)
        used = resident_kb(os.getpid()) - before
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return used / AGENTS

    return asyncio.run(run())


def owner(agents: int) -> tuple[int, float]:
    """Memory in KB once all agents sleep, and processor seconds during the idle time."""
    command = [sys.executable, "-m", "planloop"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory(prefix="sleeping-") as name:
        folder = Path(name)
        (folder / "p.plan.yaml").write_text(plan(agents))
        apply = [*command, "apply", "p.plan.yaml", "--detach", "--max-size", str(64 << 20)]
        subprocess.run(apply, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=environment)
        try:
            from planloop.client.plan_client import PlanClient
            from planloop.client.plan_paths import find_plan

            access = PlanClient(find_plan("p", folder))
            pid = int(access.get("status")["pid"])
            while sum(one.state == "asleep" for one in access.objects("agent")) < agents:
                time.sleep(0.5)
            before = cpu_s(pid)
            time.sleep(IDLE_S)
            return resident_kb(pid), cpu_s(pid) - before
        finally:
            down = [*command, "down", "--force"]
            subprocess.run(down, cwd=folder, check=False, stdout=subprocess.DEVNULL, env=environment)


def main() -> None:
    floor = coroutine_kb()
    one_kb, one_cpu = owner(1)
    many_kb, many_cpu = owner(AGENTS)
    each = (many_kb - one_kb) / (AGENTS - 1)
    print(f"a sleeping coroutine             {floor:8.1f} KB")
    print(f"a sleeping agent with its task   {each:8.1f} KB   {each / floor:.1f} × a coroutine")
    print(f"idle, one agent                  {one_cpu / IDLE_S * 100:8.2f} % of a processor")
    print(f"idle, {AGENTS:,} agents            {many_cpu / IDLE_S * 100:8.2f} % of a processor")
    print(f"owner with {AGENTS:,} agents       {many_kb / 1024:8.0f} MB;  goal: {GOAL}")


if __name__ == "__main__":
    main()
