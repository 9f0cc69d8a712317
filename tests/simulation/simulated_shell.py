"""The shell words that a simulated command understands, and programs given as functions.

Understood: `true false exit sleep echo cat yes touch test kill trap while`, joined by `;` and `&&`, `>` and `>>` into
files under the command's folder (which are real: files are cheap and checks read them). Anything else is an assertion:
a simulation that misread its commands would prove nothing.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import TypeAlias

from planloop.reconciler.effects.processes import ProcessCommand
from planloop.schemas.frozen import frozen, mutable

FLOOD_BYTES = 1 << 16  # What `yes` has written by the first look: more than any bound a simulation sets.
SIGNALS = {"HUP": 1, "INT": 2, "KILL": 9, "TERM": 15}


@frozen
class ShellStep:
    """At `at_s` after the start, `act` happens."""

    at_s: float
    act: Callable[[], None]


@frozen
class ShellScript:
    """What a program does: it takes `takes_s`, then writes `output`, calls `effect` and ends with `code`."""

    takes_s: float = 0.0
    code: int = 0
    output: bytes = b""
    effect: Callable[[], None] = lambda: None


SimulatedProgram: TypeAlias = Callable[[ProcessCommand], ShellScript | None]


@mutable
class ShellRun:
    """One run: the steps not yet played, and what came of the others."""

    steps: list[ShellStep] = field(default_factory=list)
    output: bytearray = field(default_factory=bytearray)
    code: int = 0
    ends_after_s: float = 0.0
    ignores_term: bool = False
    code_at_term: int | None = None  # What it ends with at TERM, if it has an answer to that.
    is_flooding: bool = False

    @classmethod
    def of(cls, command: ProcessCommand, programs: Sequence[SimulatedProgram]) -> ShellRun:
        """The run of `command`: of the first program that knows it, or of the shell words."""
        for program in programs:
            script = program(command)
            if script is not None:
                return cls._of_script(script)
        run = cls()
        text = command.shell or shlex.join(command.argv)
        _Reader(run, command).read(text)
        return run

    @classmethod
    def _of_script(cls, script: ShellScript) -> ShellRun:
        run = cls(code=script.code, ends_after_s=script.takes_s)
        run.steps = [
            ShellStep(script.takes_s, lambda: run.output.extend(script.output)),
            ShellStep(script.takes_s, script.effect),
        ]
        return run

    def play(self, until_s: float) -> None:
        """Plays every step up to `until_s` after the start."""
        while self.steps and self.steps[0].at_s <= until_s:
            self.steps.pop(0).act()


def start_obstacle_of(command: ProcessCommand) -> str:
    """Why `command` cannot be started, or the empty text."""
    if not Path(command.cwd).is_dir():
        return f"the folder {command.cwd} does not exist"
    if command.argv and command.argv[0].startswith("no-such"):
        return f"{command.argv[0]}: program not found"
    return ""


class _Reader:
    """Reads shell words into a run. Conditions are decided when they are read, which a simulation can live with."""

    def __init__(self, run: ShellRun, command: ProcessCommand) -> None:
        self._run = run
        self._command = command
        self._at_s = 0.0
        self._is_over = False
        self._code = 0  # Of the last command read.

    def read(self, text: str) -> None:
        for statement in re.split(r"[;\n]", text):
            self._code = 0
            for part in statement.split("&&"):
                if part.strip() and not self._is_over and self._code == 0:
                    self._one(part)
        self._end(self._code)

    def _one(self, text: str) -> None:
        text, _, target = text.partition(">")
        words = shlex.split(text)
        match words:
            case ["true" | ":" | "done"] | ["do", *_]:
                pass
            case ["false"]:
                self._code = 1
            case ["exit", code]:
                self._end(int(code))
            case ["sleep", seconds]:
                self._at_s = math.inf if seconds == "infinity" else self._at_s + float(seconds)
            case ["kill", signal, "$$"]:
                self._end(-SIGNALS[signal[1:]])
            case ["trap", answer, "TERM"]:
                self._trap(answer)
            case ["while", "true"]:
                self._at_s = math.inf
            case ["yes"]:
                self._run.is_flooding = True
                self._at_s = math.inf
                self._run.output.extend(b"y\n" * (FLOOD_BYTES // 2))
            case ["test", "-f" | "-s", name]:
                self._code = 0 if (Path(self._command.cwd) / name).is_file() else 1
            case _:
                self._write(words, target)

    def _trap(self, answer: str) -> None:
        self._run.ignores_term = not answer
        self._run.code_at_term = int(answer.removeprefix("exit ")) if answer else None

    def _write(self, words: Sequence[str], target: str) -> None:
        match words:
            case ["echo", *rest]:
                content = " ".join(rest).encode() + b"\n"
            case ["cat"]:
                content = self._command.stdin
            case ["touch", name]:
                content, target = b"", f"> {name}"
            case _:
                raise AssertionError(f"a simulation does not know the command {words}")
        if target.strip() in ("", "&2"):
            self._then(lambda: self._run.output.extend(content))
            return
        path = Path(self._command.cwd) / target.lstrip(">").strip()
        self._then(lambda: _append(path, content))

    def _then(self, act: Callable[[], None]) -> None:
        self._run.steps.append(ShellStep(self._at_s, act))

    def _end(self, code: int) -> None:
        if not self._is_over:
            self._run.code, self._run.ends_after_s, self._is_over = code, self._at_s, True


def _append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)
