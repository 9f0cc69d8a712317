"""Trees on recorded models: two runs of one recording say the same to every model and come to the same end."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from planloop.client import plan_paths
from planloop.owner import build
from planloop.owner.replay import play
from planloop.owner.replay.play import ReplayOutcome
from planloop.reconciler.store.sqlite import database
from tests import golden_text
from tests.e2e.folder import Folder
from tests.e2e.test_replay_tree import log_of, rewrite
from tests.fakes.model_server.running import started
from tests.product import sha256_hex

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

PLAN = """\
plan: tale
goal: a tale in a file
rights: {tiers: [{models: all, tools: [all]}]}
agent:
  model: ollama/big
  tools: [task, send, shell, read, write]
  prompt: You tell tales.
acceptance: [{contains: {path: tale.txt, text: the end}}]
"""
CHILD = {
    "id": "writer",
    "goal": "write the tale",
    "agent": {"model": "ollama/big", "tools": ["read", "write", "shell"], "prompt": "You write."},
    "acceptance": [{"require-file": "tale.txt"}],
}


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


WRITER = {"system": "You write."}
TELLER = {"system": "You tell tales."}
STEPS = [
    {"when": TELLER, "reply": {"text": "I have it written.", "calls": [_call("task", **CHILD)], "split": 5}},
    {"when": WRITER, "reply": {"calls": [_call("write", path="tale.txt", content="once\n"), _call("read", path="x")]}},
    {"when": WRITER, "status": 503},
    {"when": WRITER, "reply": {"calls": [_call("shell", command="echo the end >> tale.txt")]}},
    {"when": WRITER, "reply": {"text": "The tale is written."}},
    {"when": TELLER | {"any": "task/writer is done"}, "reply": {"calls": [_call("read", path="tale.txt")]}},
    {"when": TELLER | {"any": "the end"}, "reply": {"text": "It is told."}},
    {"when": TELLER, "reply": {"text": "I wait."}, "times": "always"},
]


def _recorded(folder: Folder) -> Path:
    """A run against the scripted server, whose replies are on a tape afterwards."""
    with started({"steps": STEPS}, folder.path) as server:
        folder.write("tale.plan.yaml", f"{PLAN}models: {{ollama: {{url: {server.url}}}}}\n")
        said = folder.run("apply", "--yes", "tale.plan.yaml", "--model", "record/tape.jsonl")
        assert server.stop() == 0, (server.left, said.text)
    assert said.code == 0, said.text
    return folder.path / "tape.jsonl"


def _prompts(folder: Folder) -> dict[tuple[str, int], list[str]]:
    """The digests of what each agent was asked, in order."""
    out: dict[tuple[str, int], list[str]] = {}
    for record in folder.records():
        said = [record, *record.get("also", ())]
        for one in said:
            if one["type"] == "model.requested":
                out.setdefault((one["subject"], 1), []).append(one["data"]["prompt"])
    return out


def _end(folder: Folder) -> ReplayOutcome:
    return play.replay_plan(build.replay_setup(plan_paths.find_plan(None, folder.path)))


def _state(folder: Folder) -> dict[str, Any]:
    """The end, without what differs from run to run."""
    return {
        one["address"]: [
            one["status"].get(name) for name in ("state", "turn", "incarnation", "why", "transcript", "result")
        ]
        for one in folder.json("get", "tasks", "agents")
    }


def test_recorded_tree_gives_the_same_output_in_two_fresh_copies(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tape = _recorded(folder)
    prompts, state = _prompts(folder), _state(folder)
    assert {agent for agent, _ in prompts} == {"agent/.", "agent/writer"}
    for _ in range(2):
        copy = Folder(tmp_path_factory.mktemp("copy"))
        shutil.copy(tape, copy.path)
        copy.write("tale.plan.yaml", PLAN)
        said = copy.run("apply", "--yes", "tale.plan.yaml", "--model", "replay/tape.jsonl")
        assert said.code == 0, said.text
        assert (_prompts(copy), _state(copy)) == (prompts, state)


def test_the_log_of_a_tree_with_models_replays_with_every_prompt_the_same(folder: Folder) -> None:
    _recorded(folder)
    (folder.path / "tape.jsonl").unlink()
    (folder.path / "tale.txt").unlink()

    found = _end(folder)

    assert (found.verdict, found.notes) == ("same", ()), found
    assert found.prompts == sum(map(len, _prompts(folder).values()))
    assert not (folder.path / "tale.txt").exists(), "nothing was written"


def test_changed_instructions_are_reported_as_differences_in_the_prompt(folder: Folder) -> None:
    folder.write("style.md", "You tell tales.")
    text = PLAN.replace("You tell tales.", "file:style.md")
    with started({"steps": STEPS}, folder.path) as server:
        folder.write("tale.plan.yaml", f"{text}models: {{ollama: {{url: {server.url}}}}}\n")
        said = folder.run("apply", "--yes", "tale.plan.yaml")
        server.stop()
    assert said.code == 0, said.text
    folder.write("style.md", "You tell tall tales.")

    said = folder.run("replay", "--tree", "-o", "json")

    found = json.loads(said.out)
    assert (said.code, found["verdict"]) == (1, "diverged")
    assert "agent/." in json.dumps(found["details"]) or "plan" in found["at"]["subject"], found


def test_prompt_of_another_version_is_reported_by_the_lines_that_differ(folder: Folder) -> None:
    _recorded(folder)
    first = next(each for each in _requests(folder) if each["subject"] == "agent/.")
    with closing(sqlite3.connect(log_of(folder))) as connection, connection:
        row = connection.execute("SELECT content FROM blobs WHERE digest = ?", (first["data"]["system"],)).fetchone()
        before = row[0].replace(b"You tell tales.", b"You told tales.")
        database.write_blob_row(connection, sha256_hex(before), before)
    rewrite(folder, lambda record: _asks(record, "agent/."), lambda record: _as_if(record, sha256_hex(before)))

    found = _end(folder)

    assert found.verdict == "diverged", found
    golden_text.said(found.why)
    golden_text.said(found.details[0], "agent/")
    golden_text.said_in(found.details, "instructions")
    assert "  -You told tales." in found.details and "  +You tell tales." in found.details


def test_the_log_names_a_system_message_only_where_it_became_another(folder: Folder) -> None:
    _recorded(folder)
    told = [(each["subject"], "system" in each["data"]) for each in _requests(folder)]
    assert [agent for agent, is_named in told if is_named] == ["agent/.", "agent/writer"]
    assert len(told) > 4


def _requests(folder: Folder) -> list[dict[str, Any]]:
    steps = [one for record in folder.records() for one in (record, *record.get("also", ()))]
    return [one for one in steps if one["type"] == "model.requested"]


def _asks(record: dict[str, Any], agent: str) -> bool:
    steps = (record, *record.get("also", ()))
    return any((one["type"], one["subject"]) == ("model.requested", agent) for one in steps)


def _as_if(record: dict[str, Any], system: str) -> None:
    """Another version wrote the record: its system message was another."""
    for one in (record, *record.get("also", ())):
        if one["type"] == "model.requested":
            one["data"] |= {"system": system, "prompt": "0" * 64}
    record["blobs"] = [system]
