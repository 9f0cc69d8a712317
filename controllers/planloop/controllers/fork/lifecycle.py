"""Create a fork's working tree from a snapshot, and remove it when its task is done, cancelled or removed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from planloop.controllers.fork import context
from planloop.controllers.fork.context import FOLDER, ForkHandle, task_slug
from planloop.controllers.fork.git import ForkedRepository, GitFailed
from planloop.controllers.fork.worktree import Worktree, restore_worktree
from planloop.reconciler.store.state_files import STATE
from planloop.schemas.canonical_json import Json, JsonObject, printable_name
from planloop.schemas.objects.fork import ForkState

# A new fork is a snapshot of the folder, a branch at it, and a working tree of that branch. Their names are written
# into the status first, so that the next owner creates the same ones after a crash.


async def create_worktree(fork: ForkHandle) -> None:
    """Create the working tree of a fork in state `making`, and mark the fork as ready. Raises GitFailed and OSError."""
    services, status = fork.services, fork.status
    repository = await fork.repository()
    if not (status.folder and status.base):
        begun: dict[str, Json] = {
            "folder": f"{STATE}/{services.plan}/{FOLDER}/{fork.name}",
            "prefix": repository.prefix,
        }
        if not status.base:
            base = await repository.snapshot(
                fork.index, await repository.head(), f"{services.plan}: the folder as it is"
            )
            begun |= {"base": base, "branch": await _free_branch(fork, repository)}
        await fork.note("fork.making", begun)
    worktree = fork.worktree(repository)
    async with services.turns:
        await worktree.make(fork.status.base)
    merge: dict[str, Json] = {"state": str(ForkState.READY), "tries": None, "fault": None, "retry_at": None}
    data: JsonObject = {"branch": worktree.branch, "folder": fork.status.folder}
    merge |= {"incoming": None, "head": None, "files": None, "left_out": None}
    await fork.note("fork.ready", merge, data, context.release_outer_locks(fork))


async def _free_branch(fork: ForkHandle, repository: ForkedRepository) -> str:
    """Return the name of a branch that does not exist yet. Raises GitFailed if the branch of the plan exists."""
    wanted = fork.spec.branch
    if wanted:
        if await repository.branch(wanted):
            raise GitFailed(f"the branch `{wanted}` already exists: merge and delete it, or name another")
        return wanted
    known = await repository.branches()
    names = ("plan", task_slug(f"plan/{fork.services.plan}"), task_slug(fork.spec.task))
    # If a branch `plan` exists, git allows no branch `plan/...`.
    is_taken = bool({names[0], "/".join(names[:2])} & known)
    name = "-".join(names) if is_taken else "/".join(names)
    found = (
        each for each in (name, *(f"{name}-{count}" for count in range(2, len(known) + 3))) if _is_free(each, known)
    )
    return next(found)


def _is_free(name: str, known: Collection[str]) -> bool:
    return not any(each == name or each.startswith(f"{name}/") for each in known)


# A working tree is removed when all its changes are merged, or when its task is cancelled or removed. Changes that were
# not merged back are committed on the branch; an open merge is kept, with its conflict markers, on a second branch.

UNRESOLVED_SUFFIX: Final = "-unmended"  # Appended to the branch's name for a merge that was abandoned.


async def commit_leftovers(fork: ForkHandle) -> None:
    """Commit the unmerged changes of a fork on its branch, and record it. Raises GitFailed and OSError."""
    status = fork.status
    worktree = fork.worktree(await fork.repository())
    if status.state is not ForkState.MAKING:
        async with fork.services.turns:
            await restore_worktree(worktree)
    if status.state is ForkState.MAKING or not (worktree.folder / ".git").exists():
        head = await worktree.repository.branch(status.branch)
    else:
        await worktree.unlock()
        await _end_merge(fork, worktree)
        head = await worktree.commit(f"{fork.services.plan}: unfinished work of {fork.spec.task}")
    base = status.base
    if head and status.incoming and await _has(worktree, status.incoming, head):
        base = status.incoming
    repository = worktree.repository
    has_work = bool(head) and await repository.tree_of(head) != await repository.tree_of(base)
    merge: JsonObject = {"state": str(ForkState.KEPT if has_work else ForkState.IN), "base": base, "head": head or None}
    data: JsonObject = {"branch": status.branch, "has_work": has_work}
    merge |= {"incoming": None, "files": None, **context.NO_WISH}
    await fork.note("fork.kept", merge, data, context.release_fork_locks(fork))


async def _end_merge(fork: ForkHandle, worktree: Worktree) -> None:
    """Abort an open merge of planloop, so that its conflict markers do not look like work on the branch.

    A partly resolved merge is kept on a second branch.
    """
    status = fork.status
    is_cut_off = status.state is ForkState.MERGING and bool(status.incoming) and not status.files
    is_open = not is_cut_off and bool(status.incoming) and await worktree.is_merging()
    if is_open and not await worktree.unresolved(status.files, is_claimed=False):
        return
    if is_open:
        await worktree.keep_beside(UNRESOLVED_SUFFIX, f"{fork.services.plan}: a merge that was not resolved")
    if is_open or is_cut_off:
        await worktree.back_to(status.head)


async def _has(worktree: Worktree, commit: str, head: str) -> bool:
    repository = worktree.repository
    said = await repository.git.says(
        "merge-base", "--is-ancestor", commit, head, cwd=repository.top, more=repository.environment
    )
    return said.code == 0


async def remove_worktree(fork: ForkHandle) -> None:
    """Remove the working tree, and the branch if it is fully merged and the plan did not name it.

    A merged tree that contains ignored files or nested repositories stays until the fork is recreated or removed: these
    files are on no branch. Raises GitFailed and OSError.
    """
    status, resource = fork.status, fork.resource
    worktree = fork.worktree(await fork.repository())
    is_brought = status.state is ForkState.IN and not resource.deleting
    ignored = await worktree.beyond() if is_brought and (worktree.folder / ".git").exists() else ()
    if ignored:
        await fork.note("fork.cleared", {"ignored": [printable_name(name) for name in ignored]})
        return
    gone: JsonObject = {}
    async with fork.services.turns:
        await worktree.remove()
        if status.state is ForkState.IN and status.head and not fork.spec.branch:
            await worktree.drop_branch(status.head)
            gone = {"branch": None}
    await fork.note("fork.cleared", {"folder": None, "ignored": None, **gone})
