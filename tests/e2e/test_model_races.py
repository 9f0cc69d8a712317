"""People who change their minds while models stream: nothing is left behind, and the last word counts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from tests import sets
from tests.e2e.folder import Folder
from tests.fakes.model_server.running import StartedServer, started

PATIENCE_S = 60.0
LAST = 49 if sets.is_nightly() else 9
STREAMING = {"hang": 3, "times": "always", "reply": {"text": "a b c d", "split": 1}}
STUBBORN = {"name": "shell", "arguments": {"command": '(trap "" TERM; sleep 300) & sleep 300'}}

pytestmark = [pytest.mark.sweep, pytest.mark.timeout(120)]


def plan(server: StartedServer, goal: str, *more: str) -> str:
    head = f"plan: p\nmodels: {{test: {{url: '{server.url}'}}}}\ntasks:\n"
    return head + f"  a: {{goal: {goal}, agent: {{model: test/m, tools: [shell]}}}}\n" + "".join(more)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come true"


def has_goal(folder: Folder, goal: str) -> bool:
    return bool(folder.json("get", "task/a")["spec"]["goal"] == goal)


def endings(server: StartedServer) -> Counter[str]:
    return Counter(entry["how"] for entry in server.log if entry["event"] == "ended")


def test_goal_edits_during_a_stream_leave_no_stream_and_the_last_goal_counts(
    folder: Folder,
) -> None:
    other = "  b: {goal: another, agent: {model: test/m}}\n"
    with started([{"when": {"system": f"goal {LAST}\n"}, "reply": {"text": "done"}}, STREAMING], folder.path) as server:
        folder.write("p.plan.yaml", plan(server, "goal 0", other))
        with folder.started("--yes", "p.plan.yaml") as owner:
            until(lambda: len(server.asked) >= 2)
            for number in range(LAST + 1):
                folder.write("p.plan.yaml", plan(server, f"goal {number}", other))
                until(partial(has_goal, folder, f"goal {number}"))
            owner.until(r"done +task/a")
            folder.write("p.plan.yaml", plan(server, f"goal {LAST}"))
            assert owner.ended() == 0
        server.stop()

    assert folder.states() == {"task/.": "done", "task/a": "done"}
    assert sum(endings(server).values()) == len(server.asked), "no stream is left open"
    assert endings(server)["answered"] == 1


def test_a_removed_agent_takes_its_stubborn_command_along(folder: Folder) -> None:
    steps = [{"reply": {"text": "now", "calls": [STUBBORN]}}, STREAMING]
    with started(steps, folder.path) as server:
        folder.write("p.plan.yaml", plan(server, "go", "  keep: {run: 'true'}\n"))
        with folder.started("--yes", "p.plan.yaml") as owner:
            until(lambda: len(folder.processes()) >= 3)
            folder.write("p.plan.yaml", plan(server, "go", "  keep: {run: 'true'}\n").replace("  a:", "#"))
            assert owner.ended() == 0
        assert folder.processes() == []
        assert folder.states() == {"task/.": "done", "task/keep": "done"}
