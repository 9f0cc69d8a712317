"""A fork's working tree goes: when all of it is in, when its task is cancelled or removed.

What was never brought in stays on the branch, committed; an open merge with its marks as it stood, on one beside.
"""

from __future__ import annotations

from typing import Final

from planloop.controllers.fork import locking
from planloop.controllers.fork.desk import Fork
from planloop.controllers.fork.restoring import restore
from planloop.controllers.fork.worktree import Worktree
from planloop.schemas.encoding import JsonObject, printable
from planloop.schemas.fork import ForkState

UNMENDED: Final = "-unmended"  # After a branch's name: a merge into it that was given up.


async def leave(fork: Fork) -> None:
    """Keeps on the branch what was done in the fork, and says what is kept. Raises GitFailed and OSError."""
    status = fork.status
    worktree = fork.worktree(await fork.repository())
    if status.state is not ForkState.MAKING:
        async with fork.desk.turns:
            await restore(worktree)
    if status.state is ForkState.MAKING or not (worktree.folder / ".git").exists():
        head = await worktree.repository.branch(status.branch)
    else:
        await worktree.unlock()
        await _end_merge(fork, worktree)
        head = await worktree.commit(f"{fork.desk.plan}: unfinished work of {fork.spec.task}")
    base = status.base
    if head and status.incoming and await _has(worktree, status.incoming, head):
        base = status.incoming
    repository = worktree.repository
    has_work = bool(head) and await repository.tree_of(head) != await repository.tree_of(base)
    merge: JsonObject = {"state": str(ForkState.KEPT if has_work else ForkState.IN), "base": base, "head": head or None}
    data: JsonObject = {"branch": status.branch, "has_work": has_work}
    merge |= {"incoming": None, "files": None, **locking.NO_WISH}
    await fork.note("fork.kept", merge, data, locking.freed(fork))


async def _end_merge(fork: Fork, worktree: Worktree) -> None:
    """Takes an open merge of ours back: marks are no work, and whoever goes on from the branch must not take them so.

    How far somebody had mended it is kept on a branch beside.
    """
    status = fork.status
    is_cut_off = status.state is ForkState.MERGING and bool(status.incoming) and not status.files
    is_open = not is_cut_off and bool(status.incoming) and await worktree.is_merging()
    if is_open and not await worktree.unmended(status.files, is_claimed=False):
        return
    if is_open:
        await worktree.keep_beside(UNMENDED, f"{fork.desk.plan}: a merge that was not mended")
    if is_open or is_cut_off:
        await worktree.back_to(status.head)


async def _has(worktree: Worktree, commit: str, head: str) -> bool:
    repository = worktree.repository
    said = await repository.git.says(
        "merge-base", "--is-ancestor", commit, head, cwd=repository.top, more=repository.environment
    )
    return said.code == 0


async def clear(fork: Fork) -> None:
    """Removes the working tree, and the branch when all of it is in and the plan did not name it.

    A tree that is in but still holds what git ignores, or repositories within it, stays until the fork is made anew or
    goes: that is in no branch. Raises GitFailed and OSError.
    """
    status, resource = fork.status, fork.resource
    worktree = fork.worktree(await fork.repository())
    is_brought = status.state is ForkState.IN and not resource.deleting
    ignored = await worktree.beyond() if is_brought and (worktree.folder / ".git").exists() else ()
    if ignored:
        await fork.note("fork.cleared", {"ignored": [printable(name) for name in ignored]})
        return
    gone: JsonObject = {}
    async with fork.desk.turns:
        await worktree.remove()
        if status.state is ForkState.IN and status.head and not fork.spec.branch:
            await worktree.drop_branch(status.head)
            gone = {"branch": None}
    await fork.note("fork.cleared", {"folder": None, "ignored": None, **gone})
