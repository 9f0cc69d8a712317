"""Tool servers of a plan as a person sees them: used by scripted agents, listed, explained, and never left behind."""

from __future__ import annotations

import json
import os
import select
import sys
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from tests.e2e.folder import Folder
from tests.golden_text import said_in
from tests.product import Json, JsonObject
from tests.servers import EVERYTHING, FILES, GIT, TIME

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

PATIENCE_S = 60.0
TRICKY = [sys.executable, str(Path(__file__).parents[1] / "servers" / "tricky.py")]
SERVERS: JsonObject = {
    "files": {"command": [*FILES, "."], "effects": {"read_text_file": "read"}},
    "git": {"command": [*GIT, "--repository", "."]},
    "time": {"command": TIME},
    "everything": {"command": EVERYTHING},
}


def write(folder: Folder, servers: JsonObject, tasks: JsonObject) -> None:
    document: JsonObject = {"plan": "served", "mcp": servers, "tasks": tasks}
    folder.write("served.plan.yaml", "".join(f"{name}: {json.dumps(value)}\n" for name, value in document.items()))


def agent(tools: list[str], *steps: JsonObject, **more: Json) -> JsonObject:
    return {"agent": {"tools": tools, "script": [*steps, {"done": "over"}], **more}}


def call(tool: str, **arguments: Json) -> JsonObject:
    return {"call": {tool: arguments}}


def test_agents_use_four_servers_from_the_registries_without_leftovers(folder: Folder) -> None:
    note = call("files.write_file", path="note.txt", content="hello")
    resource = call("resource", server="everything", uri="demo://resource/static/document/features.md")
    tasks = {
        "write": agent(["files"], note, call("files.read_text_file", path="note.txt"), {"expect": "hello"}),
        "ask": agent(["time", "everything", "resource"], call("time.get_current_time", timezone="UTC"), resource,
                     call("everything.get-sum", a=40, b=2), {"expect": {"contains": "42"}},
                     prompt="mcp:everything/simple-prompt"),
    }  # fmt: skip
    write(folder, SERVERS, tasks)
    done = folder.run("apply", "--yes", "served.plan.yaml")
    assert done.code == 0, done.text
    assert (folder.path / "note.txt").read_text() == "hello"
    replayed = folder.run("replay", "--tree")
    assert replayed.code == 0, replayed.text
    assert folder.processes() == []
    states = {one["address"]: one["status"].get("state") for one in folder.json("get", "mcp")}
    assert states == {"mcp/everything": "idle", "mcp/files": "idle", "mcp/git": "idle", "mcp/time": "idle"}
    told = folder.run("describe", "mcp/files").out
    assert "server    secure-filesystem-server" in told
    said_in(told)
    logs = folder.run("logs", "mcp/files").out
    assert "server.ready" in logs
    assert "Secure MCP Filesystem Server" in logs
    assert "recent" not in folder.run("describe", "mcp/git").out, "no agent used it, so it was never started"


def test_missing_program_is_named_with_its_fix_in_get_describe_and_doctor(folder: Folder) -> None:
    write(folder, {"none": {"command": ["npx", "-y", "nothing"]}}, {"a": agent(["none", "list"], call("list"))})
    bare = str(folder.path / "bin")
    Path(bare).mkdir()
    for name in ("sh", "git"):
        (Path(bare) / name).symlink_to(f"/usr/bin/{name}")
    done = folder.run("apply", "--yes", "served.plan.yaml", path=bare)
    assert done.code == 0, done.text
    said_in(done.out, "mcp/none")
    told = folder.run("describe", "mcp/none").out
    assert "NoProgram" in told
    said_in(told)
    said_in(folder.run("get", "mcp").out)
    doctor = folder.run("doctor", path=bare).out
    said_in(doctor, "mcp/none", "apt-get install nodejs npm")


def test_no_server_outlives_a_killed_owner(folder: Folder) -> None:
    """As NousResearch/hermes-agent#50169, openclaw/openclaw#69465 and openai/codex#18881 had it: 41 to 147 of them."""
    stubborn = f"trap '' TERM HUP; {' '.join(TRICKY)}; sleep 1000"
    with closing(Notes(folder.path / "notes")) as notes, ExitStack() as watching:
        servers = {
            "tricky": {"command": TRICKY, "env": {"TRICKY_NOTES": str(notes.path)}, "effects": {"hang": "read"}},
            "stubborn": {"command": ["sh", "-c", stubborn]},
        }
        write(folder, servers, {"a": agent(["tricky", "stubborn"], call("tricky.hang"))})
        with folder.killed("--yes", "served.plan.yaml"):
            notes.until("hang began")
            watched = watch(folder.processes(), watching)
            assert len(watched) >= 4  # Two servers, each with its watcher.
        for each in watched:
            assert select.select([each], [], [], PATIENCE_S)[0], "it lives on"
        while folder.processes():  # What was being started just then is killed by its watcher, too.
            pass
        with folder.started("--yes", "served.plan.yaml"):
            notes.until("hang began")  # What only reads is called again by the next owner, of a new server.


def watch(pids: list[int], watching: ExitStack) -> list[int]:
    """Return descriptors that become readable when the remaining processes end. `watching` closes them."""
    found = []
    for pid in pids:
        with suppress(ProcessLookupError):
            found.append(os.pidfd_open(pid))
            watching.callback(os.close, found[-1])
    return found


class Notes:
    """What a tricky server writes down, read as it comes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._file = os.fdopen(os.open(path, os.O_RDWR), "r")  # Also for writing, so that it has no end.

    def until(self, text: str) -> None:
        """Returns when a line is `text`; the test's timeout is the bound."""
        while self._file.readline().strip() != text:
            pass

    def close(self) -> None:
        self._file.close()


def test_a_question_of_a_server_is_answered_on_the_command_line(folder: Folder) -> None:
    write(
        folder, {"t": {"command": TRICKY}}, {"a": agent(["t"], call("t.greet"), {"expect": {"contains": "hello 007"}})}
    )
    with folder.started("--yes", "served.plan.yaml") as owner:
        owner.until("running")
        assert folder.run("wait", "--for", "condition=AwaitingInput", "agent/a", "--timeout", "15s").code == 0
        (approval,) = folder.json("get", "approvals")
        assert "What is your name?" in folder.run("describe", "task/a").text + folder.run("get", "agents").out
        told = folder.run("describe", approval["address"]).out
        assert "--answer name=…" in told
        said_in(told)
        answered = folder.run("approve", approval["address"], "--answer", "name=007")
        assert answered.code == 0, answered.text
        assert owner.ended() == 0
    replayed = folder.run("replay", "--tree")
    assert replayed.code == 0, replayed.text
