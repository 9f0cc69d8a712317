"""Errors of tools: ToolFailed (tried, or not possible) and ToolDenied (not allowed).

ToolFault
├── ToolFailed   it was tried, or cannot be: the call's result is Failed, with one CamelCase word
└── ToolDenied   it may not be done: the call's result is Denied
"""

from __future__ import annotations


class ToolError(Exception):
    """Root of the tree above."""


class ToolFailed(ToolError):
    """`reason` is one CamelCase word, for programs; the message is for the caller."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ToolDenied(ToolError):
    """Rights, denials or the workspace forbid it."""
