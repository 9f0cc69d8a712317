"""Exit codes, and the exception that ends a command with one.

Every verb ends by returning (0) or by raising `CommandError`; `cli/main.py` is the only place that turns either into a
code.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes, as documented in docs/reference/exit-codes.md. For `diff`, FAILED means differences."""

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
    """Error that ends a command. `summary` states the problem (empty: already printed), `hint` the next step.

    If the command did not fail itself (differences found, tasks failed), the summary is empty and only the code
    matters. Each line of summary or hint is one error or one fix. `label` is printed before each line of the summary.
    """

    def __init__(self, exit_: ExitCode, summary: str = "", hint: str = "", *, label: str = "error") -> None:
        super().__init__(summary)
        self.exit = exit_
        self.summary = summary
        self.hint = hint
        self.label = label

    def text(self) -> str:
        """Return the text for stderr: `error:` lines, then `help:` lines; both are optional."""
        lines = [f"{self.label}: {line}" for line in self.summary.splitlines()]
        lines += [f"help: {line}" for line in self.hint.splitlines()]
        return "\n".join(lines)
