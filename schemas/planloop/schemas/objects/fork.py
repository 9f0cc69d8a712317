"""A fork: the working tree and branch of a task and its descendants, at `fork/<task path>`.

It begins as a snapshot of the folder that it leaves (the plan's, or that of the fork around it) and is brought back
there by a merge when its task's checks hold. Tasks ask in their own status (`status.fork`), the fork's controller
answers in the fork's; neither writes the other's.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, TypeAlias

from planloop.schemas import codec
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen

FORK_KIND: Final = "fork"
AWAITING_FORK: Final = "AwaitingFork"  # The reason of a task that goes on when its fork is there.
FORK_FAILED: Final = "ForkFailed"
MERGE_CONFLICT: Final = "MergeConflict"
LOCK_PLACES: Final = ".plan/forks"  # No glob of the plan's folder leads there, and no agent may touch what is there.


class ForkState(StrEnum):
    """`status.state` of a fork."""

    NONE = ""  # No working tree, and nothing to bring.
    MAKING = "making"  # No task works in either tree, so that the snapshot is consistent.
    READY = "ready"
    MERGING = "merging"  # The current state of the folder is merged into the working tree.
    CONFLICT = "conflict"  # The merge has conflicts, which an agent or a person resolves in the working tree.
    WRITING = "writing"  # The files that differ are written into the folder, one by one.
    IN = "in"  # All of it is in the folder.
    KEPT = "kept"  # The working tree is gone; its branch has what was never brought in.


IN_USE: Final = frozenset({ForkState.READY, ForkState.MERGING, ForkState.CONFLICT, ForkState.WRITING})
"""States in which there is a working tree to work in."""

MOVING: Final = frozenset({ForkState.MAKING, ForkState.MERGING, ForkState.WRITING})
"""States in which git is at work: no agent of the fork begins anything."""

MergeRequest: TypeAlias = Literal["", "made", "in"]


@frozen
class ForkSpec:
    """`task` is whose it is, `outer` the fork around it (None: the plan's folder), `branch` its name (empty: ours)."""

    task: str
    branch: str = ""
    outer: str | None = None

    def to_json(self) -> JsonObject:
        return codec.to_json(self)


def fork_from_json(raw: JsonObject) -> ForkSpec:
    """Inverse of `ForkSpec.to_json`."""
    return codec.from_json(ForkSpec, raw)


@frozen
class ForkStatus:
    """`folder` is the working tree and `prefix` what lies between it and the plan's folder in it, all with `/`.

    `folder` is relative to the plan's folder and empty without a folder. `base` is the snapshot that the branch has
    taken in, `incoming` the one that is being merged or written over, `head` what is written. `answered` is the newest
    merge request that has an answer; `files` are those in conflict, `left_out` those that are not merged.
    `ignored` is what no commit has (ignored files, repositories within it): for it the working tree is left.
    `unchecked`: it has taken in what its task's checks have not seen; `rounds` counts how often they ran for that.
    `fault` is the error of git's next step, after `tries` tries; the next is at `retry_at`, seconds since 1970.
    """

    state: ForkState = ForkState.NONE
    folder: str = ""
    prefix: str = ""
    branch: str = ""
    base: str = ""
    incoming: str = ""
    head: str = ""
    answered: int = 0
    files: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unchecked: bool = False
    rounds: int = 0
    fault: str = ""
    tries: int = 0
    retry_at: float = 0.0

    @property
    def tree(self) -> str:
        """Where the plan's folder is in the working tree; empty while the fork's tasks work in the shared one."""
        if self.state not in IN_USE or not self.folder:
            return ""
        return f"{self.folder}/{self.prefix}".rstrip("/")


def fork_status_from_json(raw: JsonObject) -> ForkStatus:
    """The typed form of a fork's `status`; an empty one is a fork that was never made."""
    return codec.from_json(ForkStatus, raw)


@frozen
class ForkRequest:
    """What a task asks of its fork. `bring` numbers the merge requests; `told` is the last answer it used."""

    wish: MergeRequest = ""
    bring: int = 0
    told: int = 0


def fork_request(status: JsonObject) -> ForkRequest:
    """What a task's `status` asks of the fork that it works in."""
    raw: Json = status.get("fork")
    if not isinstance(raw, dict):
        return ForkRequest()
    return ForkRequest(raw.get("wants") or "", raw.get("bring") or 0, raw.get("told") or 0)


def lock_prefix(fork: str) -> str:
    """What stands before a path in the names of locks in a fork: the file of that name elsewhere is another file."""
    return f"{LOCK_PLACES}/{fork.partition('/')[2].replace('/', '+')}"


def working_tree_path(status: JsonObject | None) -> str:
    """Where work goes on, from a fork's status: relative to the plan's folder, empty for that folder itself."""
    return "" if not status else fork_status_from_json(status).tree
