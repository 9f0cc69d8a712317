"""How a command ends: at once, with everything said and done that was to be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import IO

TOOLS = "import atexit, threading; from planloop.cli.main import exit_process; "


def left(code: str, *, says: str = "", to: IO[bytes] | int = subprocess.PIPE) -> subprocess.CompletedProcess[bytes]:
    """The end of a process that does `code`."""
    command = [sys.executable, "-c", TOOLS + code]
    return subprocess.run(command, input=says.encode(), stdout=to, stderr=subprocess.PIPE, check=False)


def test_output_and_exit_actions_are_not_lost() -> None:
    done = left("atexit.register(print, 'done'); print('said'); exit_process(3)")

    assert (done.returncode, done.stdout, done.stderr) == (3, b"said\ndone\n", b"")


def test_a_thread_that_is_at_work_is_waited_for() -> None:
    done = left("threading.Thread(target=lambda: print(input())).start(); exit_process(0)", says="late\n")

    assert (done.returncode, done.stdout) == (0, b"late\n")


def test_unwritable_output_is_reported() -> None:
    with Path("/dev/full").open("wb") as full:
        done = left("print('said'); exit_process(0)", to=full)

    assert done.returncode != 0
    assert b"No space left" in done.stderr
