"""Sessions of the documentation: the commands of a page run for real, and what they print is compared with the page.

A page shows one run as it was: its revisions, ids and durations. Only its clock is set: the first time of day that it
prints becomes 14:03:22, and all others move with it. `check` compares two runs without what differs from run to run
and from machine to machine: times, durations, ids and process ids.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from planloop.containers.engine.engine import HOST
from tests.architecture.tree import ROOT

SESSION: Final = re.compile(r"(?ms)^```console\n(\$ .*?)^```\n")

TIME: Final = re.compile(r"\b(\d\d):(\d\d):(\d\d)\b")
FIRST_S: Final = 14 * 3600 + 3 * 60 + 22
DAY_S: Final = 24 * 3600

Changes = Sequence[tuple[str, str]]
PLACES: Final[Changes] = (
    (r"/\S*/(?=demo\.plan\.yaml|\.plan)", ""),
    (r"\b(planloop) \d+\.\d+\.\d+\S*", r"\1 0.1.0"),
    (r"\b[0-9a-f]{64}\b", "5f2c…"),
)
"""What is replaced in a page: it belongs to the machine or to the version."""

DIFFERS: Final[Changes] = (
    (TIME.pattern, "TIME"),
    (r"(?<![\w.])(?=[0-9a-f]*\d)[0-9a-f]{12}\b", "ID"),
    (r"\bprocess \d+(, rev \d+)?", "process N"),
    (r"\b\d+(\.\d+)? s\b|\b\d+m\d\ds\b", "DURATION"),
    (r"\b(active_s|took_s) [\d.e-]+", r"\1 DURATION"),
    (r" {2,}", "  "),
    (r"-{3,}", "---"),
)
"""What two runs may differ in. The width of columns follows from it."""
REVISIONS: Final[Changes] = ((r"\brev \d+", "rev N"), (r"(?m)^ *\d+(?= +TIME)|(?<=TIME) +\d+\b", "N"))
"""What they differ in, too, if an engine or several tasks at once decide the order of records."""


class Terminal:
    """A shell in `folder` in which commands are typed: exported variables, functions, the folder and `$?` persist.

    `replaced` maps texts of a page to those of this run: a port, an address.
    """

    def __init__(
        self,
        folder: Path,
        *,
        timeout_s: float = 15,
        env: Mapping[str, str] | None = None,
        replaced: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.timeout_s = timeout_s
        self.replaced = dict(replaced or {})
        self._env = dict(env or {})
        self._state = folder.with_name(f"{folder.name}.terminal")
        self._shift_s: int | None = None

    def play(self, block: str) -> str:
        """The session `block` with what its commands print now. A line that begins with `> ` continues a command."""
        parts = [f"$ {command}\n{self.type(command)[0]}".rstrip() for command in _commands(block)]
        return "\n\n".join(parts) + "\n"

    def save(self, name: str, text: str) -> None:
        """Write the file that a page shows."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._real(text))

    def stop_plans(self) -> None:
        """Stop the owners of all plans of the folder."""
        states = self.folder / ".plan"
        for store in sorted(states.glob("*/log.db")) if states.exists() else ():
            shell(f"plan down --plan {shlex.quote(store.parent.name)}", self.folder, timeout_s=self.timeout_s)

    def type(self, command: str) -> tuple[str, int]:
        """What `command` prints, in the form of a page, and its exit code."""
        state = shlex.quote(str(self._state))
        script = (
            f"[ -e {state} ] && . {state}; (exit ${{LAST:-0}})\n{self._real(command)}\n"
            f'LAST=$?; {{ export -p; echo "cd $(printf %q "$PWD")"; echo LAST=$LAST; }} > {state}; exit $LAST'
        )
        said, code = shell(script, self.folder, timeout_s=self.timeout_s, env=self._env)
        for shown, real in self.replaced.items():
            said = said.replace(real, shown)
        return self.set_clock(settled(said)), code

    def _real(self, text: str) -> str:
        for shown, real in self.replaced.items():
            text = text.replace(shown, real)
        return text

    def set_clock(self, text: str) -> str:
        """`text` with its times of day moved, so that the first one of this terminal is 14:03:22."""

        def moved(found: re.Match[str]) -> str:
            hours, minutes, seconds = map(int, found.groups())
            real_s = hours * 3600 + minutes * 60 + seconds
            if self._shift_s is None:
                self._shift_s = FIRST_S - real_s
            shown_s = (real_s + self._shift_s) % DAY_S
            return f"{shown_s // 3600:02}:{shown_s // 60 % 60:02}:{shown_s % 60:02}"

        return TIME.sub(moved, text)


def _commands(block: str) -> list[str]:
    commands: list[str] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            commands.append(line[2:])
        elif line.startswith("> "):
            commands[-1] += f"\n{line[2:]}"
    return commands


def shell(
    command: str, folder: Path, *, timeout_s: float = 15, env: Mapping[str, str] | None = None
) -> tuple[str, int]:
    """What the command line printed, both streams as a terminal mixes them, and its exit code."""
    plan = f'plan() {{ "{sys.executable}" -m planloop "$@"; }}\n'
    engine = {HOST: os.environ[HOST]} if HOST in os.environ else {}  # noqa: TID251 - the engine that the test uses
    done = subprocess.run(
        ["bash", "-c", f"{plan}{command.replace('EDITOR=true plan', 'export EDITOR=true; plan')}"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=timeout_s,
        env={
            "PATH": os.defpath,
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            **engine,
            **(env or {}),
        },
    )
    return "\n".join(line.rstrip() for line in done.stdout.rstrip().splitlines()), done.returncode


def settled(text: str) -> str:
    """`text` without what belongs to this machine or to this version."""
    for pattern, example in PLACES:
        text = re.sub(pattern, example, text)
    return text


def replayed(page: str, terminal: Terminal) -> str:
    """`page` with its sessions as they are now."""
    return SESSION.sub(lambda found: f"```console\n{terminal.play(found[1])}```\n", page)


def check(path: Path, now: str, *, is_updating: bool, is_ordered: bool = True) -> None:
    """Compare the page at `path` with `now`, as a run makes it; with `is_updating`, write it if they differ.

    Without `is_ordered`, revisions may differ.

    Raises:
        AssertionError: they differ in more than what differs between any two runs.
    """
    stored = path.read_text() if path.exists() else ""
    changes = DIFFERS if is_ordered else (*DIFFERS, *REVISIONS)
    before, after = _compared(stored, changes), _compared(now, changes)
    if is_updating and before != after:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(now)
        return
    different = "\n".join(difflib.unified_diff(before, after, "page", "run", n=1, lineterm=""))
    assert not different, f"run `make docs` and look at the difference:\n{different}"


def _compared(text: str, changes: Changes) -> list[str]:
    for pattern, example in changes:
        text = re.sub(pattern, example, text)
    return text.splitlines()
