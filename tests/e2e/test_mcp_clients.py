"""Outside agents: programs take tasks of a running plan over MCP, and do them as its agents."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2 as httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from planloop.server.mcp.server import FACTS
from tests import golden_text
from tests.e2e import mcp_clients
from tests.e2e.command import PLAN
from tests.e2e.folder import Folder

pytestmark = [pytest.mark.anyio, pytest.mark.process, pytest.mark.timeout(240)]

WAITS = "until test -e go; do sleep 0.02; done"
MODES = ("legacy", "2026-07-28")


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_takes_a_task_writes_a_file_and_finishes(folder: Folder, mode: str) -> None:
    with mcp_clients.running(folder):
        async with mcp_clients.over_stdio(folder, "--as", "helper", mode=mode) as caller:
            before = await caller.call("list_tasks")
            golden_text.said(before.text)
            golden_text.said((await caller.call("write", path="guide.md", content="x")).text)
            taken = await caller.call("take_task")
            golden_text.said_in(taken.text)
            assert taken.facts["task"] == "guide"
            refused = await caller.call("shell", command="git push origin")
            assert (refused.is_error, refused.facts["error"]) == (True, "Denied")
            golden_text.said(refused.text)
            assert (await caller.call("write", path="guide.md", content="hello\n")).facts["state"] == "Succeeded"
            early = await caller.call("done", result="written")
            assert early.is_error
            golden_text.said_in(early.text, "planloop")
            assert (await caller.call("read", path="guide.md")).text == "hello\n"
            await caller.call("write", path="guide.md", content="hello planloop\n")
            done = await caller.call("done", result="written")
            assert done.facts["accepted"]
        assert folder.run("wait").code == 0
    assert folder.states() == {"task/.": "done", "task/guide": "done", "task/print": "done"}


@pytest.mark.parametrize("mode", MODES)
async def test_the_same_over_http(folder: Folder, mode: str) -> None:
    with mcp_clients.running(folder), mcp_clients.over_http(folder, "--as", "helper") as door:
        async with door.client(mode=mode) as caller:
            taken = await caller.call("take_task", task="guide")
            held = {"lease": taken.facts["lease"]} if mode != "legacy" else {}
            assert bool(held) == ("lease" in taken.facts)
            await caller.call("write", path="guide.md", content="hello planloop\n", **held)
            done = await caller.call("done", result="written", **held)
            assert done.facts["accepted"] is True
            golden_text.said(done.text, "task/guide")
        assert folder.run("wait").code == 0


def owner_of(folder: Folder) -> int:
    """The process that runs the plan."""
    return int(mcp_clients.steps(folder, "epoch.taken")[-1]["pid"])


async def test_the_owner_is_killed_in_the_middle_of_a_call_and_nothing_is_done_twice(folder: Folder) -> None:
    slow = f"echo once >> effects; {WAITS}; echo over"
    with mcp_clients.running(folder):
        async with mcp_clients.over_stdio(folder, "--as", "helper") as caller:
            await caller.call("take_task")
            answers: list[mcp_clients.Told] = []
            async with anyio.create_task_group() as group:

                async def call() -> None:
                    answers.append(await caller.call("shell", command=slow))

                group.start_soon(call)
                await mcp_clients.there(folder.path / "effects")
                os.kill(owner_of(folder), signal.SIGKILL)
                said = await anyio.to_thread.run_sync(folder.run, "apply", "--yes", "--detach", "plan.yaml")
                assert said.code == 0, said.text
                (folder.path / "go").touch()
            assert answers[0].text.strip().endswith("over"), answers
            assert (folder.path / "effects").read_text() == "once\n"
            await caller.call("write", path="guide.md", content="planloop\n")
            assert (await caller.call("done")).facts["accepted"]


async def test_killed_client_loses_its_task_and_its_commands_are_stopped(folder: Folder) -> None:
    with mcp_clients.running(folder, mcp_clients.HANDBOOK.replace("lease: 60", "lease: 2")):
        async with mcp_clients.over_stdio(folder, "--as", "helper") as other:
            with mcp_clients.by_hand(folder, "--as", "helper") as raw:
                raw.call("take_task")
                raw.begin("tools/call", name="shell", arguments={"command": "touch begun; sleep 600"})
                await mcp_clients.there(folder.path / "begun")
                assert "has task/guide" in (await other.call("take_task")).text
                raw.kill()
                while (await other.call("take_task")).is_error:
                    await other.call("list_tasks")  # Until the lease of the one that was killed is over.
            (left,) = mcp_clients.steps(folder, "seat.left")
            assert left["why"].startswith("no request for 2")
            assert folder.processes() == []
            assert not (await other.call("list")).is_error


async def test_leaving_client_returns_its_task_immediately(folder: Folder) -> None:
    with mcp_clients.running(folder), mcp_clients.over_http(folder, "--as", "helper") as door:
        async with mcp_clients.over_stdio(folder, "--as", "helper") as caller:
            await caller.call("take_task")
        async with door.client() as second:
            assert (await second.call("take_task")).facts["task"] == "guide"
        async with door.client() as third:
            assert (await third.call("take_task")).facts["task"] == "guide"
    whys = [left["why"] for left in mcp_clients.steps(folder, "seat.left")]
    golden_text.said(whys[:2])


async def test_resource_updates_are_sent_as_the_log_moves(folder: Folder) -> None:
    with mcp_clients.running(folder):
        async with mcp_clients.over_stdio(folder, "--as", "helper") as caller:
            uris = {str(one.uri) for one in (await caller.client.list_resources()).resources}
            assert uris == {
                *(f"planloop://handbook/{name}" for name in ("plan", "tasks", "locks", "task/guide", "messages/guide"))
            }
            task = "planloop://handbook/task/guide"
            assert json.loads(await caller.read(task))["goal"] == "write guide.md"
            with pytest.raises(MCPError) as caught:
                await caller.read("planloop://handbook/task/print")
            golden_text.said(str(caught.value))
            with pytest.warns(MCPDeprecationWarning):  # Of the client: newer ones listen.
                await caller.client.subscribe_resource(task)
            await caller.call("take_task")
            said = folder.run("patch", "guide", "goal=write it in Latin")
            assert said.code == 0, said.text
            await caller.until(lambda one: getattr(one, "method", "") == "notifications/resources/updated")
            while json.loads(await caller.read(task))["goal"] != "write it in Latin":
                pass  # The first update announced the lease, and a reader may be behind the log.
            await caller.until(lambda one: "news for task/guide" in news_in(one))
            assert "write" in {tool.name for tool in (await caller.client.list_tools()).tools}
            assert folder.run("patch", ".", 'agents.helper.tools=["read"]').code == 0
            await caller.until(lambda one: getattr(one, "method", "") == "notifications/tools/list_changed")
            while "write" in {tool.name for tool in (await caller.client.list_tools()).tools}:
                pass  # The first notice may be about the lease.
            golden_text.said_in((await caller.call("list")).text)


def news_in(notice: Any) -> str:
    """What the server tells in words, if that is what `notice` does."""
    return str(notice.params.data) if getattr(notice, "method", "") == "notifications/message" else ""


async def test_the_newer_protocol_listens_instead_of_subscribing(folder: Folder) -> None:
    task = "planloop://handbook/task/guide"
    with mcp_clients.running(folder):
        async with (
            mcp_clients.over_stdio(folder, "--as", "helper", mode=MODES[1]) as caller,
            caller.client.listen(resource_subscriptions=[task]) as events,
        ):
            assert folder.run("patch", "guide", "goal=write it in Latin").code == 0
            assert getattr(await anext(aiter(events)), "uri", "") == task


def test_http_client_without_the_right_name_and_token_is_refused(folder: Folder) -> None:
    two = mcp_clients.HANDBOOK.replace(
        "tasks:", "  judge: {outside: true}\ntasks:\n  rate: {goal: rate it, agent: judge}"
    )
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}
    accept = {"Accept": "application/json, text/event-stream"}
    with mcp_clients.running(folder, two), mcp_clients.over_http(folder) as door:
        assert set(door.tokens) == {"helper", "judge"}
        own = {**accept, "Authorization": f"Bearer {door.tokens['helper']}"}
        with httpx.Client(timeout=20) as web:
            for headers, status in (
                (accept, 401),
                ({**accept, "Authorization": "Bearer " + "x" * 43}, 401),
                ({**own, "Host": "evil.example"}, 421),
                ({**own, "Origin": "https://evil.example"}, 403),
                (own, 200),
            ):
                assert web.post(door.url, json=body, headers=headers).status_code == status, headers
            session = web.post(door.url, json=body, headers=own).headers["mcp-session-id"]
            asking = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
            mine = web.post(door.url, json=asking, headers={**own, "Mcp-Session-Id": session})
            assert mine.status_code == 200
            other = {**accept, "Authorization": f"Bearer {door.tokens['judge']}", "Mcp-Session-Id": session}
            assert web.post(door.url, json=asking, headers=other).status_code == 404
            assert web.post(door.url, content=b"x" * (5 << 20), headers=own).status_code == 413
            nowhere = door.url.replace("/mcp", "/v1/session")
            assert web.post(nowhere, json=body, headers=own).status_code == 404
            with mcp_clients.over_http(folder, "--as", "helper", "--new-tokens") as second:
                while web.post(nowhere, json=body, headers=own).status_code != 401:
                    pass  # The old token is dead as soon as the new one is seen, where it was printed before, too.
                for token in (second.tokens["helper"], door.tokens["judge"]):
                    headers = {**accept, "Authorization": f"Bearer {token}"}
                    assert web.post(door.url, json=body, headers=headers).status_code == 200
        kept = (folder.path / ".plan" / "handbook" / "guests.json").stat().st_mode
        assert kept & 0o077 == 0


def test_handwritten_script_completes_the_whole_task(folder: Folder) -> None:
    """Take a task, lock a file, patch, be refused what it may not, finish; as an inspector would."""
    with mcp_clients.running(folder), mcp_clients.by_hand(folder, "--as", "helper") as raw:
        names = {tool["name"] for tool in raw.ask("tools/list")["tools"]}
        assert {"take_task", "lock", "plan_patch", "done", "shell"} <= names
        assert raw.call("take_task")["_meta"][FACTS]["task"] == "guide"
        assert not raw.call("lock", paths=["guide.md"], reason="I write it")["isError"]
        locks = json.loads(raw.ask("resources/read", uri="planloop://handbook/locks")["contents"][0]["text"])
        assert [one["holders"][0]["owner"] for one in locks["locks"]] == ["agent/guide"]
        child = {"op": "add", "path": "tasks", "value": {"proof": {"goal": "read it again", "run": WAITS}}}
        assert "task/guide/proof" in raw.call("plan_diff", ops=[child])["content"][0]["text"]
        raw.call("write", path="guide.md", content="planloop, in short\n")
        assert not raw.call("plan_patch", ops=[child], reason="needs a review")["isError"]
        above = raw.call("plan_patch", ops=[{"op": "replace", "path": "/goal", "value": "mine"}])
        assert above["isError"] and "Refused" in above["content"][0]["text"]
        pushed = raw.call("shell", command="git push")
        assert pushed["_meta"][FACTS] == {"state": "Denied", "error": "Denied"}
        (folder.path / "go").touch()
        waiting = raw.begin("tools/call", name="wait_for_news", arguments={"for_s": 600})
        assert raw.answer(waiting)["_meta"][FACTS]["news"][0]["body"]["task"] == "task/guide/proof"
        assert raw.call("done", result="a handbook")["_meta"][FACTS]["accepted"]
        assert folder.run("wait").code == 0
    assert set(folder.states().values()) == {"done"}
    assert folder.run("replay", "--tree").code == 0


def test_the_server_ends_without_an_error_when_standard_input_is_empty(folder: Folder) -> None:
    with mcp_clients.running(folder), Path(os.devnull).open("rb") as nothing:
        words = [*PLAN, "mcp", "--as", "helper"]
        ended = subprocess.run(words, check=False, cwd=folder.path, stdin=nothing, capture_output=True)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


@pytest.mark.parametrize("client", ["claude", "codex"])
async def test_output_of_print_config_starts_the_server(folder: Folder, client: str) -> None:
    with mcp_clients.running(folder):
        printed = folder.run("mcp", "--as", "helper", "--print-config", client).out
        said = tomllib.loads(printed)["mcp_servers"] if client == "codex" else json.loads(printed)["mcpServers"]
        server = said["handbook"]
        start = StdioServerParameters(command=server["command"], args=server["args"], cwd="/")
        async with Client(start, mode="legacy") as caller:
            assert {"take_task", "done"} <= {tool.name for tool in (await caller.list_tools()).tools}


def test_model_sees_the_whole_answer_whatever_its_client_shows(folder: Folder) -> None:
    """Clients that get structured content show it instead of the text: there must be none."""
    with mcp_clients.running(folder), mcp_clients.by_hand(folder, "--as", "helper") as raw:
        taken = raw.call("take_task")
        (part,) = taken["content"]
        ran = raw.call("shell", command="echo seen; exit 3")
        (output,) = ran["content"]

    assert "structuredContent" not in {**taken, **ran}
    assert "write guide.md" in part["text"] and '{"path":"guide.md","text":"planloop"}' in part["text"]
    assert "seen" in output["text"] and "3" in output["text"]
    assert (taken["_meta"][FACTS]["task"], ran["_meta"][FACTS]["exit_code"]) == ("guide", 3)
