"""Exceptions of the engine, the store and controllers.

EngineError
├── TransientError     an outside failure that may pass: retried with back-off
│   └── WriteConflict  the object changed since it was read: read and decide again
├── TerminalError      a retry does not help: becomes a condition
├── StoreFailed        the log cannot be read or written (disk full, read-only): the owner stops, nothing is lost
├── StoreCorrupt       the log does not verify: names the first bad revision
└── NotOwner           another process owns the plan: names its pid
"""

from __future__ import annotations

from typing import Final


class EngineError(Exception):
    """Root of the tree above."""


class TransientError(EngineError):
    """Retried with back-off. `reason` is one CamelCase word."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class WriteConflict(TransientError):
    """`address` was read at `expected` and is now at `actual` (None: absent)."""

    def __init__(self, address: str, expected: int | None, actual: int | None) -> None:
        super().__init__(
            "Conflict", f"{address} has changed: it was read at revision {expected} and is now at {actual}"
        )
        self.address = address
        self.expected = expected
        self.actual = actual


class TerminalError(EngineError):
    """Becomes the condition `Stalled` with this reason and message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


AGAIN: Final = "run `plan apply` again"
"""How to continue a plan, for the hints of `StoreFailed`."""


class StoreFailed(EngineError):
    """The log cannot be read or written. `hint` is the fix."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class StoreCorrupt(EngineError):
    """The log does not verify from revision `rev` on; 0 if that is unknown. `hint` is the fix."""

    def __init__(self, rev: int, message: str, hint: str = "") -> None:
        super().__init__(f"revision {rev}: {message}" if rev else message)
        self.rev = rev
        self.hint = hint or _restoring(rev)


def _restoring(rev: int) -> str:
    copy = "restore the plan's folder in `.plan` from a backup"
    if rev > 2:  # Before that there is no plan yet: the first record is of its owner.
        return f"{copy}, or continue from the last valid revision: plan fork --at {rev - 1}"
    lost = "all tasks then run again, and the history and transcripts are lost"
    return f"{copy}, or move it away and run `plan apply` to start over: {lost}"


class NotOwner(EngineError):
    """The process `pid` owns the plan (None: unknown)."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"process {pid} owns this plan" if pid else "another process owns this plan")
        self.pid = pid
