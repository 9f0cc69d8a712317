"""What a model, a server or a person wrote never steers the terminal that shows it."""

from __future__ import annotations

import io
import os
import pty
import re
from pathlib import Path
from typing import TextIO, cast

import pytest

from planloop.client.process import EscapingStream, write_styled
from tests.e2e.folder import Folder
from tests.e2e.test_terminal import terminal
from tests.fakes.model_server.running import started

EVIL = "a\x1b[2J\x1b]0;owned\x07\x9b31m\u202eb\x08\x7f\r\x00c"
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
CALLS = [
    {"name": f"na{EVIL}me", "arguments": {}},
    {"name": "write", "arguments": {"path": "x", "content": EVIL}},
    {"name": "write", "raw": "[" * 300},
    {"name": "write", "raw": '"text"'},
]
STEPS = [
    {"status": 500, "error": EVIL},
    {"reply": {"text": EVIL, "calls": CALLS}},
    {"reply": {"text": f"done {EVIL}"}, "times": "always"},
]

VERBS = ("describe agent/.", "logs agent/.", "events", "events -o json", "history", "get tasks", "get agents", "tree")

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]


def test_control_characters_of_a_model_are_shown_and_never_obeyed(folder: Folder) -> None:
    with started(STEPS, folder.path) as server:
        plan_text = f"plan: p\ngoal: g\nagent: {{model: 'm@{server.url}', tools: [write]}}\n"
        folder.write("p.plan.yaml", plan_text)
        said = folder.run("apply", "p.plan.yaml").text

    assert not STEERS.search(said)
    for words in VERBS:
        said = folder.run(*words.split()).text
        assert not STEERS.search(said), words
    assert any(EVIL in str(record["data"].get("text")) for record in folder.records()), "the log has it as it was"
    assert r"\x1b[2J" in folder.run("logs", "agent/.").out


def test_a_live_tree_on_a_terminal_obeys_no_model_either(folder: Folder) -> None:
    with started(STEPS, folder.path) as server:
        plan_text = f"plan: p\ngoal: g\nagent: {{model: 'm@{server.url}', tools: [write]}}\n"
        folder.write("p.plan.yaml", plan_text)
        with terminal(folder, "apply", "p.plan.yaml") as screen:
            assert screen.ended() == 0
        for sequence in (b"\x1b[2J", b"\x1b]0;", b"\x9b31m", "\u202e".encode()):
            assert sequence not in screen.raw


def test_foreign_text_is_escaped_and_our_text_is_styled() -> None:
    plain = io.StringIO()
    stream = cast("TextIO", EscapingStream(plain))
    stream.write("tab\tline\r\nesc\x1b[31m c1\x9b rtl\u202e")
    write_styled("\x1b[1mours\x1b[0m", stream)

    assert plain.getvalue() == "tab\tline\nesc\\x1b[31m c1\\x9b rtl\\u202e\x1b[1mours\x1b[0m"


def test_closed_terminal_is_a_reader_that_has_left() -> None:
    held, given = pty.openpty()
    with os.fdopen(given, "w") as stream:
        os.close(held)
        gone = EscapingStream(stream)
        with pytest.raises(BrokenPipeError):
            print("hello", file=gone, flush=True)
        with pytest.raises(BrokenPipeError):
            gone.flush()
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), given)  # What the stream still holds goes there when it is closed.
