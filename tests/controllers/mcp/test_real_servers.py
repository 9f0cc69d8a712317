"""Servers from the registries, started by a plan and used by its agents."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import needs
from tests.controllers.agent.arena import arena
from tests.controllers.mcp.plans import BAD, DONE, OK, call, plan, texts
from tests.golden_text import said
from tests.product import JsonObject
from tests.servers import EVERYTHING, FILES, GIT

pytestmark = [pytest.mark.anyio, pytest.mark.process]

EVERYTHING_SERVER: JsonObject = {"e": {"command": EVERYTHING}}


async def test_an_agent_writes_and_reads_a_file_through_the_filesystem_server(tmp_path: Path) -> None:
    server = {
        "command": [*FILES, "."],
        "tools": ["write_file", "read_text_file"],
        "effects": {"read_text_file": "read"},
    }
    async with arena(tmp_path) as here:
        write = call("files.write_file", path="note.txt", content="hello")
        outside = call("files.write_file", path="../out.txt", content="x")
        await here.apply(
            plan({"files": server}, write, OK, call("files.read_text_file", path="note.txt"), OK, outside, BAD, DONE)
        )
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        assert await texts(here, "files.read_text_file") == ["hello"]
        assert here.read("note.txt") == "hello" and not (tmp_path.parent / "out.txt").exists()
        await here.settled()
        assert here.state("mcp/files") == "idle"


def git(folder: Path, *words: str) -> str:
    command = [needs.git(), "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


async def test_an_agent_commits_through_the_git_server(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    (tmp_path / "a.txt").write_text("a")
    env = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    repo = str(tmp_path)
    async with arena(tmp_path) as here:
        server = {"command": [*GIT, "--repository", repo], "env": env}
        steps = [
            call("git.git_add", repo_path=repo, files=["a.txt"]),
            OK,
            call("git.git_commit", repo_path=repo, message="second"),
            OK,
            call("git.git_log", repo_path=repo, max_count=1),
            {"expect": {"contains": "second"}},
        ]
        await here.apply(plan({"git": server}, *steps, DONE))
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done", await texts(here)
    assert git(tmp_path, "log", "--format=%s").splitlines() == ["second", "first"]


async def test_the_everything_server_gives_structure_pictures_and_links(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        steps = [
            call("e.get-sum", a=2, b=3),
            call("e.get-structured-content", location="Chicago"),
            call("e.get-tiny-image"),
            call("e.get-resource-links", count=2),
        ]
        await here.apply(plan(EVERYTHING_SERVER, *steps, DONE))
        await here.until_state("task/.", "done", "failed")
        total, structured, image, links = (await here.results())[:4]
        assert "5" in total["text"]
        assert set(structured["value"]) >= {"temperature", "conditions"}
        assert "[image image/png" in image["text"]
        assert links["text"].count("[resource demo://") == 2


async def test_a_resource_and_a_prompt_of_the_everything_server_are_used(tmp_path: Path) -> None:
    uri = "demo://resource/static/document/features.md"
    async with arena(tmp_path) as here:
        steps = [call("resource", server="e"), {"expect": {"contains": uri}}, call("resource", server="e", uri=uri), OK]
        await here.apply(plan(EVERYTHING_SERVER, *steps, DONE, tools=["resource"], prompt="mcp:e/simple-prompt"))
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done", await texts(here)
        assert "# Everything Server" in (await texts(here, "resource"))[1]
        assert here.get("mcp/e").status["texts"]["simple-prompt"]["text"].startswith("This is a simple prompt")


async def test_missing_prompt_keeps_its_agent_from_starting_and_is_reported(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(plan(EVERYTHING_SERVER, DONE, tools=["list"], prompt="mcp:e/args-prompt"))
        await here.until(lambda: "is not available" in str(here.get("agent/.").status.get("why")))
        agent = here.get("agent/.").status
        said(agent["conditions"]["AwaitingServer"]["unblocks"])


async def test_a_long_call_of_the_everything_server_reports_and_is_cancelled_on_the_wire(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    server = {"command": ["sh", "-c", f"tee {heard} | {' '.join(EVERYTHING)}"]}
    async with arena(tmp_path) as here:
        await here.apply(plan({"e": server}, call("e.trigger-long-running-operation", duration=60, steps=600), DONE))
        await here.until(lambda: any(each.status.get("progress") for each in here.store.view.list("call")))
        await here.patch({"op": "add", "path": "/cancel", "value": True})
        await here.until_state("task/.", "cancelled")
        await here.settled()
    assert '"method":"notifications/cancelled"' in heard.read_text()
