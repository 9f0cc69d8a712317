"""Exit codes, and the exception that ends a command with one.

Every verb ends by returning (0) or by raising `CommandError`; `cli/main.py` is the only place that turns either into a
code.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The promise of docs/reference/verbs/index.md. For `diff`, FAILED says that there are differences."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    INVALID = 3
    CONFLICT = 4
    REFUSED = 5
    NOT_FOUND = 6
    CANCELLED = 8
    TIMEOUT = 9
    FINISHED_WITH_FAILURES = 10
    BUG = 70


class CommandError(Exception):
    """The command stops here. `summary` says what is wrong (empty: already said), `hint` what to do next.

    An end that is no error (differences found, tasks failed) has an empty summary: only its code matters. Several
    lines of summary or hint are several faults or cures. `label` is the word before each line of the summary.
    """

    def __init__(self, exit_: ExitCode, summary: str = "", hint: str = "", *, label: str = "error") -> None:
        super().__init__(summary)
        self.exit = exit_
        self.summary = summary
        self.hint = hint
        self.label = label

    def text(self) -> str:
        """What is printed on stderr: `error:` lines, then `help:` lines; either may be absent."""
        lines = [f"{self.label}: {line}" for line in self.summary.splitlines()]
        lines += [f"help: {line}" for line in self.hint.splitlines()]
        return "\n".join(lines)
