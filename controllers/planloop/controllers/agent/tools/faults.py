"""How a tool says no.

ToolFault
├── ToolFailed   it was tried, or cannot be: the call's result is Failed, with one CamelCase word
└── ToolDenied   it may not be done: the call's result is Denied
"""

from __future__ import annotations


class ToolFault(Exception):
    """Root of the tree above."""


class ToolFailed(ToolFault):
    """`reason` is one CamelCase word, for programs; the message is for whoever called."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ToolDenied(ToolFault):
    """Rights, denials or the workspace forbid it."""
