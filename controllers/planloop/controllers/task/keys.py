"""The keys of a task's jobs. A key says whose job it is (by uid, so that it survives a move), which, and how urgent."""

from __future__ import annotations


def run(uid: str, incarnation: int, priority: int) -> str:
    """The key of the command of `incarnation`, queued at `priority`."""
    return f"{uid}:run:{incarnation}:{priority}"


def check(uid: str, round_: int, key: str, digest: str) -> str:
    """The key of one check of a round, as it is worded."""
    return f"{uid}:check:{round_}:{key}:{digest}"


def stop(uid: str, call: str) -> str:
    """The key of the job that stops a command which nobody waits for."""
    return f"{uid}:stop:{call}"


def trying(uid: str) -> str:
    """The key of the job that finds out whether the task's sandbox is to be had."""
    return f"{uid}:try"


def is_run(key: str) -> bool:
    """Whether it is a command's."""
    return ":run:" in key


def is_check(key: str) -> bool:
    """Whether it is a check's."""
    return ":check:" in key


def is_stop(key: str) -> bool:
    """Whether it is a stopping job's."""
    return ":stop:" in key
