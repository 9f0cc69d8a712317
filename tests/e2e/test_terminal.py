"""The live tree on a real terminal of 80 columns: words, keys, and the terminal put back as it was."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.e2e import mcp_clients
from tests.e2e.folder import Folder
from tests.golden_text import said_in

LONG = "plan: shown\ntasks:\n  talk:\n    goal: a long talk\n    agent: {script: [{say: hi}, {sleep: 300}]}\n"
QUICK = "plan: shown\ntasks:\n  one: {goal: first, run: 'true'}\n  two: {goal: second, needs: [one], run: 'true'}\n"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PATIENCE_S = 60.0


@dataclass
class Terminal:
    pid: int
    descriptor: int
    shown: str = ""
    raw: bytes = b""

    def until(self, phrase: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while phrase not in self.shown:
            ready, _, _ = select.select([self.descriptor], [], [], deadline - time.monotonic())
            assert ready, f"no {phrase!r} in:\n{self.shown}"
            assert self.read(), f"ended without {phrase!r}:\n{self.shown}"

    def press_until(self, key: str, phrase: str) -> None:
        """Presses, and again each second, as a person would.

        A signal that arrives after Python has looked for signals and before it waits for a key is seen with the next
        key only.
        """
        deadline = time.monotonic() + PATIENCE_S
        while phrase not in self.shown:
            assert time.monotonic() < deadline, f"no {phrase!r} in:\n{self.shown}"
            self.press(key)
            while phrase not in self.shown and select.select([self.descriptor], [], [], 1.0)[0]:
                assert self.read(), f"ended without {phrase!r}:\n{self.shown}"

    def read(self) -> bool:
        try:
            content = os.read(self.descriptor, 65536)
        except OSError:  # Linux raises it when the last process has closed its end.
            return False
        self.raw += content
        self.shown += ESCAPES.sub("", content.decode(errors="replace"))
        return bool(content)

    def press(self, key: str) -> None:
        os.write(self.descriptor, key.encode())

    def ended(self) -> int:
        while self.read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    @property
    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self.descriptor)[3] & termios.ECHO)


@contextmanager
def terminal(
    folder: Folder, *words: str, columns: int = 80, settings: tuple[str, ...] = ("NO_COLOR=",)
) -> Iterator[Terminal]:
    """`plan` on a terminal of its own; `settings` are environment variables as `env` takes them."""
    pid, descriptor = pty.fork()
    if pid == 0:
        os.chdir(folder.path)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # As on a terminal: the tests may run in a shell's background.
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.execvp(
            "env",
            [
                "env",
                "-u",
                "COLUMNS",
                "-u",
                "LINES",
                "TERM=xterm-256color",
                *settings,
                sys.executable,
                "-m",
                "planloop",
                *words,
            ],
        )
    try:
        yield Terminal(pid, descriptor)
    finally:
        folder.run("down", "--force")
        os.close(descriptor)


@pytest.mark.process
def test_the_live_tree_shows_every_task_in_words_and_ends_with_the_plan(folder: Folder) -> None:
    folder.write("p.plan.yaml", QUICK)
    with terminal(folder, "apply", "p.plan.yaml") as screen:
        code = screen.ended()

    assert code == 0
    assert re.search(r"✔ two +done", screen.shown)
    said_in(screen.shown)
    assert max(len(line.rstrip()) for line in screen.shown.splitlines()) <= 80


@pytest.mark.process
def test_ctrl_c_on_the_live_tree_leaves_and_puts_the_terminal_back(folder: Folder) -> None:
    folder.write("p.plan.yaml", LONG)
    with terminal(folder, "apply", "p.plan.yaml") as screen:
        screen.until("q run in background")
        screen.press("\x03")
        screen.until("Detached from plan `shown`")

        assert screen.echoes
        assert screen.ended() == 8


@pytest.mark.process
def test_q_leaves_the_plan_running_in_the_background(folder: Folder) -> None:
    folder.write("p.plan.yaml", LONG)
    with terminal(folder, "apply", "p.plan.yaml") as screen:
        screen.until("q run in background")
        screen.press("q")
        screen.until("runs in the background")
        assert screen.ended() == 0

        assert "not running" not in folder.run("get").out


@pytest.mark.process
def test_top_follows_the_owner_until_the_plan_is_not_running(folder: Folder) -> None:
    folder.write(
        "shown.plan.yaml", "plan: shown\ntasks:\n  talk: {goal: a, agent: {script: [{say: hi}, {sleep: 300}]}}\n"
    )
    with folder.started("--yes", "shown.plan.yaml") as owner:
        owner.until("asleep|talk")
        with terminal(folder, "top", "-n", "0.2", columns=60) as screen:
            screen.until("shown  rev")
            screen.until("asleep")
            assert folder.run("down").code == 0
            screen.until("shown is no longer running")
            assert screen.ended() == 0
    assert "\\x1b" not in screen.shown


@pytest.mark.process
def test_plan_mcp_on_a_terminal_prints_what_it_waits_for_and_can_be_left(folder: Folder) -> None:
    with mcp_clients.running(folder), terminal(folder, "mcp", "--as", "helper") as screen:
        screen.until("waiting for an MCP client")
        screen.press("\x03")
        assert screen.ended() == 8
