"""The web chat by agents that think, over HTTP, with the scripted server as the models."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import team
from tests.e2e.folder import Folder
from tests.fakes.model_server.running import StartedServer, started

EXAMPLE = Path(__file__).parents[2] / "plans/examples/team/team.plan.yaml"
DONE = dict.fromkeys(("task/.", "task/frontend", "task/backend"), "done")

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]


@pytest.fixture
def plan(folder: Folder) -> Path:
    return Path(shutil.copy(EXAMPLE, folder.path))


def served(plan: Path, server: StartedServer) -> None:
    """Says where the models of the plan are."""
    with plan.open("a") as file:
        file.write(f"models: {{ollama: {{url: {server.url}}}}}\n")


def of(records: list[dict[str, Any]], kind: str, subject: str = "") -> list[dict[str, Any]]:
    return [each for each in records if each["type"] == kind and subject in each["subject"]]


def merges_of(records: list[dict[str, Any]], agent: str) -> list[tuple[int, dict[str, Any]]]:
    """What became of the agent's status, with the revisions: several steps may be one record."""
    changes = [(record["rev"], change) for record in records for change in record["changes"]]
    return [(rev, change["merge"]) for rev, change in changes if change.get("status") == agent]


def turns_of(records: list[dict[str, Any]], agent: str) -> list[tuple[int, list[str]]]:
    """The revision in which each turn of the agent began, and why."""
    opened = [(rev, merge.get("open") or {}) for rev, merge in merges_of(records, agent)]
    return [(rev, turn["reasons"]) for rev, turn in opened if turn.get("reasons")]


def test_llm_agents_decompose_talk_sleep_and_repair_until_the_checks_pass(folder: Folder, plan: Path) -> None:
    with started(team.steps(), folder.path) as server:
        served(plan, server)
        said = folder.run("apply", "--yes", plan.name)
        exit_code = server.stop()

    assert said.code == 0, said.text
    assert folder.states() == DONE
    assert exit_code == 0, server.left
    assert_tiers(server.asked)
    records = folder.records()
    states = [merge.get("state") for _, merge in merges_of(records, "agent/.")]
    assert "asleep" in states[: states.index("ended")], "it slept while its children worked"
    woken = {reason for _, reasons in turns_of(records, "agent/.") for reason in reasons}
    assert {"message", "child done"} <= woken
    (mended,) = [rev for rev, reasons in turns_of(records, "agent/frontend") if "verdict" in reasons]
    failed = [each for each in of(records, "check.ran", "task/frontend") if each["data"]["result"] == "fail"]
    assert failed and failed[-1]["rev"] < mended, "the worker got the failed check"


def assert_tiers(asked: list[dict[str, Any]]) -> None:
    """The top is on the larger model and may delegate; the workers are on the smaller one and may not."""
    tools = {body["model"]: {tool["function"]["name"] for tool in body["tools"]} for body in asked}
    assert tools.keys() == {team.TOP, team.WORKER}
    assert "task" in tools[team.TOP]
    assert tools[team.WORKER] < tools[team.TOP]
    assert not {"task", "plan_patch", "terminate"} & tools[team.WORKER]


def test_the_same_plan_runs_on_any_url_with_nothing_but_an_option(folder: Folder, plan: Path) -> None:
    before = plan.read_bytes()
    with started(team.steps("any-model", "any-model"), folder.path) as server:
        said = folder.run("apply", "--yes", plan.name, "--model", f"any-model@{server.url}")
        server.stop()

    assert said.code == 0, said.text
    assert folder.states() == DONE
    assert {"any-model"} == {body["model"] for body in server.asked}
    assert plan.read_bytes() == before
