"""What a model writes is shown while it writes it: in a conversation, and to who follows its agent's transcript."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e import command
from tests.e2e.folder import Folder
from tests.e2e.test_chat import staying
from tests.e2e.test_terminal import terminal
from tests.fakes.model_server.running import StartedServer, started

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

PLAN = """\
plan: demo
goal: {goal}
agent: {{model: ollama/small, tools: [read]}}
models: {{ollama: {{url: {url}}}}}
"""
STORY = "once upon a time there was"
HANGS = {"reply": {"text": STORY, "split": 10}, "hang": 3}
STEPS = [
    {"when": {"any": "a story"}, **HANGS},
    {"reply": {"text": "I am here"}},
]


@contextmanager
def told(folder: Folder, goal: str) -> Iterator[StartedServer]:
    """A plan whose model says two stretches of a story when asked for one, and then nothing any more."""
    with started(STEPS, folder.path) as server, staying(folder, PLAN.format(url=server.url, goal=goal)):
        yield server


def replies(folder: Folder) -> list[str]:
    return [str(one["data"].get("text")) for one in folder.records() if "once" in str(one["data"].get("text"))]


def test_a_conversation_shows_a_reply_before_it_is_complete(folder: Folder) -> None:
    with told(folder, "be there"), terminal(folder, "chat") as chat:
        chat.until("demo > ")
        chat.press("tell me a story\n")
        chat.until("once upon a time")
        assert replies(folder) == [], "the reply has no end, so it is in no record"
        chat.press("\x03")
        chat.until("its answer will be in /logs")


def test_follower_of_a_transcript_sees_a_reply_before_it_is_complete(folder: Folder) -> None:
    with told(folder, "tell a story"):
        words, pipe = ("logs", "agent/.", "-f"), subprocess.PIPE
        with command.start(*words, cwd=folder.path, stdout=pipe, text=False, bufsize=0) as follower:
            assert follower.stdout is not None
            seen = b""
            while b"once upon a time" not in seen:
                piece = follower.stdout.read(1 << 10)
                assert piece, seen
                seen += piece
            assert replies(folder) == []
            follower.kill()
