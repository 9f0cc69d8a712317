"""A model that works with tool servers of the registries: one result for each call, whatever happens on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.folder import Folder
from tests.e2e.team import Step, call
from tests.e2e.test_tool_servers import SERVERS, TRICKY, Notes
from tests.fakes.model_server.running import StartedServer, started
from tests.product import JsonObject

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

HURRY = "leave that and ask for the name"
LATER = "look again, for the folder has changed"
FEATURES = "demo://resource/static/document/features.md"
STEPS: list[Step] = [
    {
        "when": {"tool": "files__read_file", "not": "I look."},
        "reply": {
            "text": "I look.",
            "calls": [
                call("files__read_file", path="note.txt"),
                call("git__git_status", repo_path="."),
                call("time__get_current_time", timezone="UTC"),
                call("resource", server="everything", uri=FEATURES),
            ],
            "split": 5,
        },
    },
    {"when": {"after": "resource"}, "reply": {"calls": [call("tricky__hang")]}},
    {"when": {"any": HURRY, "not": "I ask."}, "reply": {"text": "I ask.", "calls": [call("tricky__greet")]}},
    {
        "when": {"system": LATER, "not": "I look again."},
        "reply": {
            "text": "I look again.",
            "calls": [call("git__git_status", repo_path="."), call("mortal__die"), call("files__read_file", path="no")],
        },
    },
    {"when": {"after": "files__read_file"}, "reply": {"calls": [call("done", result="it is all in order")]}},
]


def write(folder: Folder, server: StartedServer, notes: Path) -> None:
    tricky = {"command": TRICKY, "env": {"TRICKY_NOTES": str(notes)}, "effects": {"hang": "read"}}
    mortal = {"command": TRICKY, "env": {"TRICKY_NOTES": str(folder.path / "deaths")}, "effects": {"die": "read"}}
    document: JsonObject = {
        "plan": "served",
        "models": {"house": {"url": server.url}},
        "mcp": {**SERVERS, "tricky": tricky, "mortal": mortal},
        "goal": "look at the folder",
        "agent": {
            "model": "house/any",
            "tools": ["files.read_file", "git.git_status", "time", "everything", "resource", "tricky", "mortal.die"],
            "prompt": "mcp:everything/simple-prompt",
        },
    }
    folder.write("served.plan.yaml", "".join(f"{name}: {json.dumps(value)}\n" for name, value in document.items()))
    folder.write("note.txt", "hello from the note")
    subprocess.run(["git", "init", "-q", "."], cwd=folder.path, check=True)


def process_of(folder: Folder, program: str) -> int:
    """The one process of a server, by a word of its command line; its watcher has others."""
    lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in folder.processes()}
    (found,) = [pid for pid, words in lines.items() if any(word.endswith(program.encode()) for word in words[:2])]
    return found


def results_of(body: dict[str, Any]) -> list[tuple[str, str]]:
    """What came of each call in the conversation, by tool, in order."""
    calls = {one["id"]: one["function"]["name"] for each in body["messages"] for one in each.get("tool_calls", ())}
    return [(calls[each["tool_call_id"]], str(each["content"])) for each in body["messages"] if each["role"] == "tool"]


@pytest.mark.needs("git")
def test_model_has_one_result_per_call_though_goals_change_and_servers_are_killed(folder: Folder) -> None:
    notes = Notes(folder.path / "notes")
    with closing(notes), started(STEPS, folder.path) as server:
        write(folder, server, notes.path)
        with folder.started("--yes", "served.plan.yaml") as owner:
            notes.until("hang began")
            os.kill(process_of(folder, "mcp-server-git"), signal.SIGKILL)
            hurried = folder.run("send", "agent/.", HURRY, "--delivery", "interrupt")
            assert hurried.code == 0, hurried.text
            assert folder.run("wait", "--for", "condition=AwaitingInput", "agent/.", "--timeout", "15s").code == 0
            edited = folder.run("patch", "task/.", f"goal={LATER}")
            assert edited.code == 0, edited.text
            assert owner.ended() == 0, owner.text
        assert server.stop() == 0, server.left

    first, last = server.asked[0], server.asked[-1]
    assert {"files__read_file", "git__git_status", "time__convert_time", "tricky__hang"} <= names_of(first)
    assert "files__write_file" not in names_of(first)
    assert "This is a simple prompt without arguments." in first["messages"][0]["content"]
    results = results_of(last)
    assert [name for name, _ in results] == [
        "files__read_file", "git__git_status", "time__get_current_time", "resource", "tricky__hang",
        "tricky__greet", "git__git_status", "mortal__die", "files__read_file",
    ]  # fmt: skip
    texts = [text for _, text in results]
    assert "hello from the note" in texts[0] and "note.txt" in texts[1] and '"timezone": "UTC"' in texts[2]
    assert "Everything" in texts[3]
    assert "Cancelled" in texts[4], "an interrupting message stops a call that runs"
    assert "Cancelled" in texts[5], "a new goal calls off one that waits for an answer"
    assert "note.txt" in texts[6], "the server that was killed was started again"
    assert "alive" in texts[7], "what only reads is called again when its server dies"
    replayed = folder.run("replay", "--tree")
    assert replayed.code == 0, replayed.text
    assert folder.processes() == []


def names_of(body: dict[str, Any]) -> set[str]:
    return {tool["function"]["name"] for tool in body["tools"]}
