"""`plan serve` beside a real owner: changes, words of models as they come, an owner that is killed and replaced."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPException

import pytest

from planloop.client.plan_paths import PlanPaths, plan_label
from tests.e2e.folder import Folder, Owner
from tests.fakes.model_server.running import started
from tests.product import encode
from tests.server.gateway.gateways import Served, frames, listening, served

pytestmark = [pytest.mark.process, pytest.mark.timeout(120), pytest.mark.anyio]

STORY = "once upon a time there was"
TELLS = [{"reply": {"text": STORY, "split": 10}, "hang": 3}] * 2
TELLING = "plan: demo\ngoal: tell a story\nagent: {{model: ollama/small}}\nmodels: {{ollama: {{url: {url}}}}}\n"
WAITING = "plan: demo\ngoal: wait\ntasks:\n  long: {goal: wait, run: sleep 600}\n"


@contextmanager
def applied(folder: Folder, text: str) -> Iterator[Owner]:
    """An owner of the plan with that text, and what it started goes with it."""
    folder.write("task.yaml", text)
    with folder.started("--yes", "task.yaml") as owner:
        owner.until("running")
        yield owner


def patched(gateway: Served, notes: str) -> dict[str, object]:
    op = {"op": "add", "path": "/tasks/long/notes", "value": notes}
    answer = gateway.ask("POST", gateway.path("patch"), body=encode({"ops": [op], "reason": "a test"}))
    assert answer.status == 200, answer
    found: dict[str, object] = answer.json
    return found


async def test_change_is_read_back_immediately_with_an_owner_and_without(folder: Folder) -> None:
    with applied(folder, WAITING) as owner, served(folder.path) as gateway:
        assert gateway.get("status")["pid"] == owner.process.pid
        first = patched(gateway, "with")
        assert gateway.get("objects/task/long")["spec"]["notes"] == "with"
        owner.process.kill()
        owner.process.wait()
        second = patched(gateway, "without")
        assert gateway.get("objects/task/long")["spec"]["notes"] == "without"
        assert gateway.get("status")["pid"] is None

    authors = {one["rev"]: one["actor"] for one in folder.records()}
    assert (authors[first["rev"]], authors[second["rev"]]) == ("human:web", "human:web")


async def test_hanging_owner_delays_neither_viewers_nor_the_end(folder: Folder) -> None:
    with applied(folder, WAITING) as owner, served(folder.path) as gateway, ThreadPoolExecutor() as pool:
        owner.process.send_signal(signal.SIGSTOP)
        try:
            asked = pool.submit(patched, gateway, "nobody takes this")
            assert gateway.get("status")["pid"] is None
            assert gateway.get("objects/task/long")["spec"]["goal"] == "wait"
            gateway.end()
            assert isinstance(asked.exception(), OSError | HTTPException), "it was never answered"
        finally:
            owner.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("words", ["serve --port 0", "serve --read-only --port 0", "mcp --http --port 0", "mcp"])
def test_command_of_the_plan_gets_no_links_and_no_tokens(folder: Folder, words: str) -> None:
    folder.write("task.yaml", WAITING.replace("sleep 600", "'true'"))
    assert folder.run("apply", "--yes", "task.yaml").code == 0
    inside = {"PLANLOOP_PLAN": plan_label(PlanPaths("demo", folder.path / ".plan" / "demo"))}
    said = folder.run(*words.split(), env=inside, timeout_s=20)
    assert (said.code, "may not change demo" in said.text) == (5, True), said.text


async def test_client_cannot_sign_as_another(folder: Folder) -> None:
    with applied(folder, WAITING), served(folder.path) as gateway:
        body = encode({"ops": [], "by": "cli"})
        assert gateway.ask("POST", gateway.path("patch"), body=body).status == 400


async def test_model_words_stream_as_written_to_late_listeners_too(folder: Folder) -> None:
    with started(TELLS, folder.path) as server, served_while_told(folder, server.url) as (_, gateway):
        async with listening(gateway, "words=1") as early:
            assert await _heard(early) == STORY[:20]
            # The reply has no end yet, and the owner has been asked once for both.
            async with listening(gateway, "words=1&after=0", token=gateway.read) as late:
                assert await _heard(late) == STORY[:20]


async def test_words_continue_when_another_owner_takes_over(folder: Folder) -> None:
    with started(TELLS, folder.path) as server, served_while_told(folder, server.url) as (owner, gateway):
        async with listening(gateway, "words=1") as socket:
            assert await _heard(socket) == STORY[:20]
            owner.process.kill()
            owner.process.wait()
            with folder.started("--yes", "task.yaml"):
                assert await _heard(socket) == STORY[:20]


@contextmanager
def served_while_told(folder: Folder, url: str) -> Iterator[tuple[Owner, Served]]:
    with applied(folder, TELLING.format(url=url)) as owner, served(folder.path) as gateway:
        yield owner, gateway


async def _heard(socket: object) -> str:
    """What an agent says until it falls silent in the middle of its story."""
    text = ""
    async for frame in frames(socket):  # type: ignore[arg-type]
        text += str(frame.get("said", {}).get("text", ""))
        if len(text) >= 20:
            return text
    raise AssertionError(f"the words ended: {text!r}")
