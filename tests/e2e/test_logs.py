"""`plan logs` for programs: the system prompt of any turn, and transcripts as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from planloop.server.api.presenter_models import Item
from tests.e2e.folder import Folder
from tests.e2e.test_chat import chat, staying
from tests.fakes.model_server.running import StartedServer, started
from tests.product import CommandExit as Exit
from tests.product import JsonObject

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

PLAN = """\
plan: demo
goal: listen
notes: {notes}
agent: {{model: ollama/small, tools: [read], prompt: You are a good listener.}}
models: {{ollama: {{url: {url}}}}}
tasks:
  built: {{run: "seq 1 5000", acceptance: [{{sh: "true"}}]}}
  script: {{goal: wait, agent: {{script: [{{when: {{message: never}}, done: x}}]}}}}
"""
LONG = "word " * 5_000
STEPS = [
    {"when": {"user": "tell me"}, "reply": {"text": LONG}},
    {"reply": {"text": "I listen"}, "times": "always"},
]


@pytest.fixture
def models(folder: Folder) -> Iterator[StartedServer]:
    with started(STEPS, folder.path) as server:
        yield server


def items(text: str) -> list[JsonObject]:
    """The items of `plan logs -o json`, each held to the description of the API."""
    found: list[JsonObject] = [json.loads(line) for line in text.splitlines()]
    for one in found:
        Item.model_validate(one, strict=True)
        assert not set(one) - set(Item.model_fields), one
    return found


def test_the_system_prompt_of_any_turn_is_what_the_model_was_sent(folder: Folder, models: StartedServer) -> None:
    with staying(folder, PLAN.format(url=models.url, notes="be kind")):
        chat(folder, "hello\n", ".")
        folder.run("patch", ".", "notes=be brief")
        chat(folder, "hello again\n", ".")
        last = folder.run("logs", "agent/.", "--prompt")
        first = folder.run("logs", "agent/.", "--prompt", "--turn", "1")
        whole = json.loads(folder.run("logs", "agent/.", "--prompt", "-o", "json").out)
        unknown = folder.run("logs", "agent/.", "--prompt", "--turn", "99")
        script = folder.run("logs", "agent/script", "--prompt")
        alone = folder.run("logs", "agent/.", "--turn", "1")
    sent = [body["messages"][0]["content"] for body in models.asked]
    assert (first.out, last.out) == (f"{sent[0]}\n", f"{sent[-1]}\n")
    assert "be kind" in first.out and "be brief" in last.out
    assert "You are a good listener." in whole["text"] and whole["turn"] == max(whole["turns"])
    assert (unknown.code, script.code, alone.code) == (Exit.NOT_FOUND, Exit.NOT_FOUND, Exit.USAGE)
    assert "99" in unknown.err and "1-" in unknown.err
    assert folder.run("logs", "agent/.", "--prompt").out == last.out, "the log alone has it, too"


def test_a_transcript_is_json_a_line_with_whole_texts(folder: Folder, models: StartedServer) -> None:
    with staying(folder, PLAN.format(url=models.url, notes="be kind")):
        chat(folder, "tell me\n", ".")
        found = items(folder.run("logs", "agent/.", "-o", "json").out)
        newest = items(folder.run("logs", "agent/.", "-o", "json", "--tail", "2").out)
        task = items(folder.run("logs", "task/built", "-o", "json").out)
        check = folder.run("logs", "task/built", "-o", "json", "--check", "0")
    said = [one["text"] for one in found if one["kind"] == "said"]
    assert LONG.strip() in said and any("tell me" in str(one["told"]) for one in found if one["kind"] == "turn")
    assert newest == found[-2:]
    assert [one["rev"] for one in found] == sorted(one["rev"] for one in found)
    result, check_result = [one for one in task if one["kind"] == "result"]
    assert result["text"].splitlines()[-1] == "5000" and result["exit_code"] == 0
    assert (check_result["check"], check_result["state"]) == ("0", "pass")
    assert check.code == Exit.USAGE
