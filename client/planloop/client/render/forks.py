"""Forks of tasks in words: branch, working tree, progress, and what blocks them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.objects.fork import ForkState, ForkStatus, fork_status_from_json
from planloop.schemas.resource import Resource

FORK_HEAD: Final = ("fork", "state", "branch", "folder", "what")
_STATES: Final = {
    ForkState.NONE: "not created yet",
    ForkState.MAKING: "is being created",
    ForkState.READY: "ready: its working tree has its work",
    ForkState.MERGING: "is merging changes of others",
    ForkState.CONFLICT: "has a merge conflict",
    ForkState.WRITING: "is being written to the folder",
    ForkState.IN: "merged: the folder has all of its work",
    ForkState.KEPT: "was kept with work that is not in the folder",
}


def fork_row(item: Resource, now: float) -> tuple[str, ...]:
    """Path, state, branch, working tree and a sentence, for a table."""
    del now
    status = fork_status_from_json(item.status)
    state = "deleting" if item.deleting else str(status.state) or "new"
    return (item.address.partition("/")[2], state, status.branch, status.folder, _what(status))


def fork_words(item: Resource) -> str:
    """Return the fork in one line, for the description of another object."""
    status = fork_status_from_json(item.status)
    branch = f" on branch {status.branch}" if status.branch else ""
    return f"{item.address}{branch}: {_what(status)}"


def fork_facts(item: Resource) -> list[tuple[str, str]]:
    """Labelled lines of a description."""
    status = fork_status_from_json(item.status)
    out = [("of", str(item.spec["task"]))]
    out += [("why", _what(status))]
    out += [("branch", status.branch)] if status.branch else []
    out += [("folder", status.folder)] if status.folder else []
    out += [("within", str(item.spec["outer"]))] if item.spec.get("outer") else []
    out += [("conflict", path) for path in status.files]
    out += [("left out", f"{path} (plan files and submodules are not merged)") for path in status.left_out]
    out += [
        ("left", f"{path} is in the working tree only (ignored, or a nested repository)") for path in status.ignored
    ]
    return out


def _what(status: ForkStatus) -> str:
    if status.fault:
        return f"{status.fault} (try {status.tries}; retried automatically)"
    if status.state is ForkState.KEPT:
        return f"its branch has work that is not in the folder: git merge {status.branch}"
    if status.state is ForkState.CONFLICT:
        return f"{_files(status.files)} did not merge; resolve the conflicts in {status.folder}"
    return _STATES[status.state]


def _files(files: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(files[: limits.FORK_FILES_SHOWN])
    more = len(files) - limits.FORK_FILES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _brought(data: JsonObject) -> str:
    count = int(data.get("count") or 0)
    if not count:
        return "nothing to merge"
    left = f"; left out: {', '.join(data['left_out'])}" if data.get("left_out") else ""
    return f"{count} files: {_files(list(data['files']))}{left}" if count > 1 else f"{_files(data['files'])}{left}"


def _kept(data: JsonObject) -> str:
    branch = data.get("branch", "")
    return f"not merged: the work is on branch {branch}" if data.get("has_work") else "it had no new work"


FORK_SAYERS: Final[Mapping[str, Callable[[JsonObject], str]]] = {
    "fork.ready": lambda data: f"branch {data.get('branch', '')} in {data.get('folder', '')}",
    "fork.merged": lambda _: "merged changes of others; its checks run again",
    "fork.conflict": lambda data: f"did not merge: {_files(list(data.get('files') or ()))}",
    "fork.brought": _brought,
    "fork.kept": _kept,
    "fork.failed": lambda data: str(data.get("message", "")),
}
"""Texts for the records of forks."""
