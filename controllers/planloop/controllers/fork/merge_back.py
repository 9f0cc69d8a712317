"""Merge a fork's work back into the folder that it left, and continue when a person has resolved a conflict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from planloop.controllers.fork import context
from planloop.controllers.fork.context import ForkHandle
from planloop.controllers.fork.copy_changes import ChangeCopier
from planloop.controllers.fork.git import ForkedRepository, GitFailed
from planloop.controllers.fork.worktree import FileChange, Worktree, restore_worktree
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, printable_name
from planloop.schemas.objects.fork import ForkState, fork_request
from planloop.schemas.objects.plan import plan_file_name

# What a fork's tasks did comes back: the folder is merged into the fork, then what differs is written into the folder.
#
# The merge is git's own, made in the fork's working tree, so that any git will do and that a conflict stands there as
# everybody knows it: marks in the files, an open merge, nothing of it in the folder that others work in. A file that
# somebody changes between the snapshot and the write is not written: the fork takes the change in first.

_UNSEEN: Final = "something stands there that git does not look at (ignored, or kept out of its index): move it away"
_WELL: Final[JsonObject] = {"tries": None, "fault": None, "retry_at": None}


async def merge_back(fork: ForkHandle) -> None:
    """Brings a fork in state `merging` or `writing` in, or says which files conflict. Raises GitFailed and OSError."""
    repository = await fork.repository()
    worktree = fork.worktree(repository)
    async with fork.desk.turns:
        await restore_worktree(worktree)
    if not (worktree.folder / ".git").exists():
        async with fork.desk.turns:
            await worktree.make(fork.status.base)  # Somebody removed it: what was committed is on the branch.
    await worktree.unlock()
    if fork.status.state is ForkState.WRITING:
        if not await _written(fork, worktree):
            return
    elif not await _committed(fork, worktree):
        return
    moved: tuple[str, ...] = ()
    for _ in range(limits.FORK_ROUNDS_MAX):
        base = fork.status.base
        if not await _merged(fork, worktree) or await _checked_anew(fork):
            return
        if moved and fork.status.base == base:
            raise GitFailed(f"{', '.join(map(printable_name, moved[: limits.FORK_FILES_SHOWN]))}: {_UNSEEN}")
        if not (moved := await _written(fork, worktree)):
            return
    raise GitFailed("the files that it changed are being changed by others all the time")


async def _committed(fork: ForkHandle, worktree: Worktree) -> bool:
    """Commits what was done in the fork. False: an open merge is not mended, which is then said."""
    status, open_ = fork.status, await worktree.open()
    if open_ or await worktree.is_merging():
        if status.incoming and not status.files:
            await worktree.back_to(status.head)  # A crash cut the merge off: it is made anew.
        # Without that, it is a merge (a rebase, a stash) that was begun by who works there.
        elif left := await worktree.unmended(status.files or open_, is_claimed=_is_claimed(fork)):
            await _conflict(fork, left)
            return False
    elif status.incoming and status.head and not status.files:
        # Cut off too, but before git noted that it merges, or after it had ended: both are as if it had not begun.
        await worktree.back_to(status.head)
    head = await worktree.commit(f"{fork.desk.plan}: work of {fork.spec.task}")
    base = status.incoming if status.incoming and await worktree.has(status.incoming) else status.base
    await fork.note("fork.merging", {"base": base, "head": head, "incoming": None, "files": None})
    return True


def _is_claimed(fork: ForkHandle) -> bool:
    """Whether an agent says that it has mended what it was told of."""
    task = fork.desk.store.view.get(fork.spec.task)
    if task is None or task.spec["work"]["kind"] != "agent":
        return False
    return fork_request(task.status).bring > fork.status.answered


async def _merged(fork: ForkHandle, worktree: Worktree) -> bool:
    """Takes in what the folder has become since; False when that does not merge, which is then said."""
    status, desk = fork.status, fork.desk
    words = f"{desk.plan}: the folder as it is"
    incoming = await worktree.repository.snapshot(fork.index, status.base, words)
    if incoming == status.base:
        return True
    merge: JsonObject = {"state": str(ForkState.MERGING), "incoming": incoming, "head": await worktree.head()}
    await fork.note("fork.merging", merge)
    files = await worktree.merge(incoming, f"{desk.plan}: {fork.spec.task} takes in what changed meanwhile")
    if files:
        await _conflict(fork, files)
        return False
    took_in: JsonObject = {"base": incoming, "incoming": None, "head": await worktree.head(), "unchecked": True}
    await fork.note("fork.merging", took_in)
    return True


async def _checked_anew(fork: ForkHandle) -> bool:
    """Has the checks run once more on what both made together, before it goes to where others work.

    So often in a row, and no oftener: where somebody is always busy it would never come back.
    """
    status, task = fork.status, fork.desk.store.view.get(fork.spec.task)
    if not status.unchecked or status.rounds >= limits.FORK_CHECKS_MAX or task is None or not task.spec["acceptance"]:
        return False
    merge: JsonObject = {"state": str(ForkState.READY), "answered": _asked(fork), "unchecked": None, **_WELL}
    merge |= {"rounds": status.rounds + 1, **context.NO_WISH}
    await fork.note("fork.merged", merge, {"branch": status.branch}, context.release_fork_locks(fork))
    return True


async def _conflict(fork: ForkHandle, files: Sequence[str]) -> None:
    named: list[Json] = [printable_name(path) for path in files]
    merge: JsonObject = {"state": str(ForkState.CONFLICT), "files": named, "answered": _asked(fork), **_WELL}
    # Whoever mends it takes their time: what was locked for the write is free for others until then.
    merge |= context.NO_WISH
    await fork.note(
        "fork.conflict", merge, {"files": named, "branch": fork.status.branch}, context.release_fork_locks(fork)
    )


def _asked(fork: ForkHandle) -> int:
    task = fork.desk.store.view.get(fork.spec.task)
    return max(fork.status.answered, fork_request(task.status).bring if task is not None else 0)


async def _written(fork: ForkHandle, worktree: Worktree) -> tuple[str, ...]:
    """Writes what differs into the folder, under locks, or waits for those.

    Returns what moved on first, which is then to be taken in.
    """
    status, repository = fork.status, worktree.repository
    differences = await worktree.differences(status.base, status.head)
    left_out = [each.path for each in differences if not _is_brought(fork, repository, each)]
    todo = [each for each in differences if each.path not in left_out]
    named_out: list[Json] = [printable_name(path) for path in left_out]
    wants = context.wanted_locks(fork, repository.prefix, [each.path for each in todo])
    if status.state is not ForkState.WRITING:
        grants = context.take_locks(fork, wants)
        if grants is None:
            await context.wait_for_locks(fork, wants)
            return ()
        merge: JsonObject = {"state": str(ForkState.WRITING), "left_out": named_out, **context.NO_WISH}
        await fork.note("fork.writing", merge, more=grants)
    carrier = ChangeCopier(repository, fork.desk.forks / f"{fork.name}.out")
    try:
        moved = await carrier.carry(status.head, todo, lambda: context.require_locks(fork, wants))
    except context.ForkLocksLost:
        # It takes in what is there by then, and asks for the locks anew, behind whoever has them.
        lost: JsonObject = {"message": "its locks were taken from it before it wrote"}
        await fork.note("fork.merging", {"state": str(ForkState.MERGING)}, lost, context.release_fork_locks(fork))
        return await _written(fork, worktree)
    if moved:
        await fork.note("fork.merging", {"state": str(ForkState.MERGING)}, more=context.release_fork_locks(fork))
        return moved
    paths: list[Json] = [printable_name(each.path) for each in todo]
    data: JsonObject = {"branch": status.branch, "files": paths[: limits.FORK_FILES_SHOWN], "count": len(paths)}
    if left_out:
        data["left_out"] = named_out
    merge = {"state": str(ForkState.IN), "answered": _asked(fork), "files": None, "incoming": None, **_WELL}
    merge |= {"unchecked": None, "rounds": None}
    await fork.note("fork.brought", merge, data, context.release_fork_locks(fork))
    return ()


def _is_brought(fork: ForkHandle, repository: ForkedRepository, each: FileChange) -> bool:
    """Whether a difference may be written: the plan file is a person's (law 9), and submodules are no files."""
    file = plan_file_name(fork.desk.store.view.get(f"plan/{fork.desk.plan}"))
    return not (each.is_submodule or (file and each.path == repository.prefix + file))


# Whether a person has mended a merge that stands open: looked at now and then, at the price of a few stats.
#
# Git is asked only when something in the files in conflict, or in git's index, is other than at the last look.

FilesFingerprint: TypeAlias = tuple[tuple[int, int, int], ...]


def files_fingerprint(folder: Path, files: Iterable[str]) -> FilesFingerprint:
    """What changes when one of `files` in the working tree at `folder`, or its index, does."""
    try:
        index = Path((folder / ".git").read_text().removeprefix("gitdir:").strip()) / "index"
    except OSError:
        index = folder
    return tuple(_mark(path) for path in (index, *(folder / file for file in files)))


async def check_conflict_resolved(fork: ForkHandle) -> None:
    """Goes on with a merge that a person has mended; leaves one that is not mended as it is."""
    worktree = fork.worktree(await fork.repository())
    if not await worktree.unmended(fork.status.files, is_claimed=False):
        await fork.note("fork.merging", {"state": str(ForkState.MERGING)})


def _mark(path: Path) -> tuple[int, int, int]:
    try:
        seen = path.lstat()
    except OSError:
        return (0, 0, 0)
    return (seen.st_ino, seen.st_size, seen.st_mtime_ns)
