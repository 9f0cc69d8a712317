"""A case of a suite: one model call, one tool call, one check, all durable; processor time of `plan bench run`.

The model is the oracle of the case, a script, or a model over local HTTP. The cost of a case is the difference between
a run with many cases and a run with one, divided by the difference in cases; the run with one is the cost of starting.
All are whole processes. Floors, in the same run: a Python loop that calls a scripted function, reads the file and
checks the call; and aiohttp that sends a prompt of an agent's size, decodes the reply and then does the same.

A run of 1,000 cases allocates 100 MB of objects. On a virtual machine the same code takes 50 % longer while other
machines use the memory bus, but the floors do not change. So the time of a memory access is printed with the figures.
Wait some minutes after many files were deleted: ext4 without a journal examines recently freed inodes before it uses
one, and a run creates 2,000.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from planloop.benchmarks.speed._agents import model_server
from planloop.benchmarks.speed.agent_turn import PROMPT, at_once

CASES = 1_000
OVER_HTTP = 200
PARALLEL = 8
ROUNDS = 3
FLOOR_CASES = 2_000
OBJECTS = 3_000_000  # About 100 MB.
LOOKS = 300_000
START_GOAL_S = 0.5
THOUSAND_GOAL_S = 4.0
ROOT = Path(__file__).parents[4]
CASE = (
    "{prompts: [do it], files: {a.txt: x}, tools: [read], checks: {c: {calls: {need: [{tool: read}]}}}, "
    "proof: {oracles: {p: {script: [{parallel: [{call: {read: {path: a.txt}}}, {done: ok}]}]}}}}"
)


@dataclass(frozen=True)
class CaseCost:
    """Cost of a whole process in seconds: wall time, and processor time with its child processes."""

    wall_s: float
    cpu_s: float


def run(cases: int, model: str, below: Path) -> CaseCost:
    """Run `plan bench run` with a suite of `cases` cases in a new folder below `below`. All cases must pass."""
    folder = Path(tempfile.mkdtemp(dir=below))
    rows = "".join(f"  c{number:04}: {CASE}\n" for number in range(cases))
    (folder / "suite.yaml").write_text(f"suite: cases\ncases:\n{rows}")
    command = [sys.executable, "-m", "planloop", "bench", "run", "suite.yaml"]
    command += ["--model", model, "--parallel", str(PARALLEL), "--name", "run"]
    start = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    events = (folder / "reports/cases/run/events.jsonl").read_text().splitlines()
    ends = [event["data"] for event in map(json.loads, events) if event["type"] == "case/end"]
    assert process.returncode == 0, "every case has a verdict"
    assert [end["verdict"] for end in ends] == ["pass"] * cases, "every case passes"
    return CaseCost(wall, used.ru_utime + used.ru_stime)


def each(many: CaseCost, one: CaseCost, cases: int) -> CaseCost:
    """The cost of one more case."""
    return CaseCost((many.wall_s - one.wall_s) / (cases - 1), (many.cpu_s - one.cpu_s) / (cases - 1))


def read(path: Path) -> str:
    return path.read_text()


def holds(calls: list[tuple[str, str]]) -> bool:
    return any(tool == "read" for tool, _ in calls)


def mock_floor(file: Path) -> float:
    """Milliseconds of processor time for one case in a plain loop, with a function as the model."""

    def scripted(prompt: str) -> list[tuple[str, str]]:
        del prompt
        return [("read", str(file))]

    before = time.process_time()
    for _ in range(FLOOR_CASES):
        calls = scripted("do it")
        for _, path in calls:
            read(Path(path))
        assert holds(calls)
    return (time.process_time() - before) / FLOOR_CASES * 1e3


async def http_floor(url: str, file: Path) -> float:
    """The same with a model over HTTP, `PARALLEL` requests at a time."""
    import aiohttp

    async with aiohttp.ClientSession() as session:

        async def once() -> None:
            async with session.post(f"{url}/chat/completions", data=PROMPT) as response:
                body = await response.read()
            lines = [line[6:] for line in body.splitlines() if line.startswith(b"data: {")]
            deltas = [choice["delta"] for line in lines for choice in json.loads(line)["choices"]]
            functions = [call["function"] for delta in deltas for call in delta.get("tool_calls", ())]
            calls = [(function["name"], function["arguments"]) for function in functions]
            read(file)
            assert holds(calls)

        return await at_once(once, PARALLEL, FLOOR_CASES // PARALLEL)


def floors(url: str) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="cases-") as name:
        file = Path(name) / "a.txt"
        file.write_text("x")
        return mock_floor(file), asyncio.run(http_floor(url, file))


def look_ns() -> float:
    """Nanoseconds for one access to an object that is in no processor cache, including the loop."""
    objects = list(range(OBJECTS))
    places = random.sample(range(OBJECTS), LOOKS)
    began = time.perf_counter()
    for place in places:
        objects[place]
    return (time.perf_counter() - began) / LOOKS * 1e9


def median(costs: list[CaseCost], of: Callable[[CaseCost], float]) -> float:
    return statistics.median(map(of, costs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--cases", type=int, default=CASES)
    arguments = parser.parse_args()
    least: list[tuple[float, float]] = []
    starts, wholes, mocks, https, looks = [], [], [], [], []
    with model_server(0) as server, tempfile.TemporaryDirectory(prefix="cases-") as name:
        below = Path(name)
        url = server.url("case/v1")
        for _ in range(arguments.rounds):
            looks.append(look_ns())
            least.append(floors(url))
            starts.append(run(1, "oracle", below))
            wholes.append(run(arguments.cases, "oracle", below))
            mocks.append(each(wholes[-1], starts[-1], arguments.cases))
            model = f"openai/m@{url}"
            https.append(each(run(OVER_HTTP, model, below), run(1, model, below), OVER_HTTP))
    mock, http = (statistics.median(side) for side in zip(*least, strict=True))
    load, rounds = os.getloadavg()[0], arguments.rounds
    memory = statistics.median(looks)
    print(f"load {load:.1f}; memory {memory:.0f} ns per access; {PARALLEL} at a time; medians of {rounds} rounds")
    print(f"{'a case, ms':24}{'CPU':>8}{'× floor':>9}{'wall':>8}{'floor':>8}")
    for title, costs, floor in (("script", mocks, mock), ("model over HTTP", https, http)):
        cpu, wall = median(costs, lambda cost: cost.cpu_s) * 1e3, median(costs, lambda cost: cost.wall_s) * 1e3
        print(f"{title:24}{cpu:>8.2f}{cpu / floor:>9.0f}{wall:>8.2f}{floor:>8.3f}")
    print(f"{'whole process, s':24}{'CPU':>8}{'wall':>8}{'goal':>8}")
    for title, costs, goal in (
        ("1 case", starts, START_GOAL_S),
        (f"{arguments.cases:,} cases", wholes, THOUSAND_GOAL_S),
    ):
        cpu, wall = median(costs, lambda cost: cost.cpu_s), median(costs, lambda cost: cost.wall_s)
        print(f"{title:24}{cpu:>8.2f}{wall:>8.2f}{goal:>8.1f}")


if __name__ == "__main__":
    main()
