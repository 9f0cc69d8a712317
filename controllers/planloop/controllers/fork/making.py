"""A fork is made: a snapshot of the folder as it is, a branch at it, a working tree of that branch.

What is to be made is noted before it is, so that whoever comes after a crash makes the same: one branch, one tree.
"""

from __future__ import annotations

from collections.abc import Collection

from planloop.controllers.fork import locking
from planloop.controllers.fork.desk import FOLDER, Fork, slug
from planloop.controllers.fork.git import GitFailed
from planloop.controllers.fork.repository import Repository
from planloop.reconciler.storing.layout import STATE
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.fork import ForkState


async def make(fork: Fork) -> None:
    """Makes the working tree of a fork in state `making`, and says that it is ready. Raises GitFailed and OSError."""
    desk, status = fork.desk, fork.status
    repository = await fork.repository()
    if not (status.folder and status.base):
        begun: dict[str, Json] = {"folder": f"{STATE}/{desk.plan}/{FOLDER}/{fork.name}", "prefix": repository.prefix}
        if not status.base:
            base = await repository.snapshot(fork.index, await repository.head(), f"{desk.plan}: the folder as it is")
            begun |= {"base": base, "branch": await _free_branch(fork, repository)}
        await fork.note("fork.making", begun)
    worktree = fork.worktree(repository)
    async with desk.turns:
        await worktree.make(fork.status.base)
    merge: dict[str, Json] = {"state": str(ForkState.READY), "tries": None, "fault": None, "retry_at": None}
    data: JsonObject = {"branch": worktree.branch, "folder": fork.status.folder}
    merge |= {"incoming": None, "head": None, "files": None, "left_out": None}
    await fork.note("fork.ready", merge, data, locking.left_behind(fork))


async def _free_branch(fork: Fork, repository: Repository) -> str:
    """The name of a branch that is not there yet. Raises GitFailed when the plan's own choice is taken."""
    wanted = fork.spec.branch
    if wanted:
        if await repository.branch(wanted):
            raise GitFailed(f"the branch `{wanted}` is there already: merge and delete it, or name another")
        return wanted
    known = await repository.branches()
    names = ("plan", slug(f"plan/{fork.desk.plan}"), slug(fork.spec.task))
    # A branch `plan` leaves no room for any that begin with `plan/`.
    is_barred = bool({names[0], "/".join(names[:2])} & known)
    name = "-".join(names) if is_barred else "/".join(names)
    found = (
        each for each in (name, *(f"{name}-{count}" for count in range(2, len(known) + 3))) if _is_free(each, known)
    )
    return next(found)


def _is_free(name: str, known: Collection[str]) -> bool:
    return not any(each == name or each.startswith(f"{name}/") for each in known)
