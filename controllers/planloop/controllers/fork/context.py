"""Services that the jobs of forks share: the store, git, folders, status writes, and the locks that a fork takes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final

import anyio

from planloop.controllers.fork.git import ForkedRepository, Git, find_repository
from planloop.controllers.fork.worktree import Worktree
from planloop.controllers.shared.leases import grants
from planloop.controllers.shared.leases.grants import LockOwner, LocksGranted, Wants, explain_blockers, lost_locks
from planloop.reconciler.clock import Clock
from planloop.reconciler.effects.processes import Processes
from planloop.reconciler.store import state_files
from planloop.reconciler.store.store import Store, View
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, printable_name
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, RecordDraft, SetStatus
from planloop.schemas.objects.fork import (
    FORK_KIND,
    ForkSpec,
    ForkStatus,
    fork_from_json,
    fork_status_from_json,
    lock_prefix,
)
from planloop.schemas.objects.lock import LockKept
from planloop.schemas.resource import Resource, Uid

ACTOR: Final = "controller:fork"
FOLDER: Final = "forks"
_NO_NAME: Final = re.compile(r"[^\w-]+|_")


class ForkGone(Exception):
    """The fork that a job works for is gone, or was replaced."""


@frozen
class ForkContext:
    """`folder` is the plan's folder, `state` its state folder below it, both absolute; `plan` is the plan's name.

    `turns` lets one fork at a time create or remove a working tree, because git keeps one list of them.
    """

    store: Store
    processes: Processes
    clock: Clock
    git: Git
    plan: str
    folder: Path
    state: Path
    turns: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def forks(self) -> Path:
        """The folder of the working trees and of the files that are needed to create them."""
        return self.state / FOLDER


@frozen
class ForkHandle:
    """One fork, for its jobs. Properties are read from the view at each use."""

    services: ForkContext
    address: str
    uid: Uid

    @property
    def resource(self) -> Resource:
        """The object. Raises ForkGone."""
        view = self.services.store.view
        found = view.get(self.address)
        if found is None or found.uid != self.uid:  # It may have moved with its task.
            found = next((one for one in view.list(FORK_KIND) if one.uid == self.uid), None)
        if found is None:
            raise ForkGone(self.address)
        return found

    @property
    def spec(self) -> ForkSpec:
        return fork_from_json(self.resource.spec)

    @property
    def status(self) -> ForkStatus:
        return fork_status_from_json(self.resource.status)

    @property
    def name(self) -> str:
        """The unique, readable name of its folder and files below the state folder."""
        return f"{task_slug(self.spec.task)}-{self.uid[:6]}"

    @property
    def index(self) -> Path:
        """Path of the git index for snapshots of the folder that it branches from."""
        return self.services.forks / f"{self.name}.index"

    async def repository(self) -> ForkedRepository:
        """Return the repository of the folder that it branches from: the plan's, or its place in the outer fork.

        Raises:
            GitFailed: git could not be asked.
        """
        state_files.make_folder(self.services.forks)
        return await find_repository(
            self.services.git,
            self.services.folder / outer_folder(self.services.store.view, self.spec),
            self.services.forks,
        )

    def worktree(self, repository: ForkedRepository) -> Worktree:
        """Return its working tree, by its status."""
        status = self.status
        return Worktree(repository, self.services.folder / status.folder, status.branch)

    async def note(
        self, type_: str, merge: Mapping[str, Json], data: JsonObject | None = None, more: Sequence[Change] = ()
    ) -> None:
        """Write `merge` into the status durably, with `more` in the same append. Raises ForkGone and Conflict."""
        resource = self.resource
        draft = fork_draft_of(resource, type_, merge, data or {}, more)
        # Law 5: the next owner must know what was about to be done, so this append is durable before the effect.
        await self.services.store.append(draft, {resource.address: resource.rev})


def fork_draft_of(
    fork: Resource, type_: str, merge: Mapping[str, Json], data: JsonObject, more: Sequence[Change] = ()
) -> RecordDraft:
    """Return the record of a change of a fork's status, with the signal that wakes tasks and agents."""
    answered = merge.get("answered", fork.status.get("answered"))
    status: JsonObject = {**merge, "signal": [answered, merge.get("fault", fork.status.get("fault"))]}
    return RecordDraft(type_, ACTOR, fork.address, (SetStatus(fork.address, fork.uid, status), *more), data)


def outer_folder(view: View, spec: ForkSpec) -> str:
    """Return the folder that the fork branches from, relative to the plan's folder; empty for that folder itself."""
    outer = view.get(spec.outer) if spec.outer else None
    return "" if outer is None else fork_status_from_json(outer.status).tree


def task_slug(task: str) -> str:
    """Return the path of a task as a name for a file or a part of a branch; the end of a long path."""
    name = _NO_NAME.sub("-", task.partition("/")[2]).encode()[-limits.FORK_NAME_BYTES_MAX :]
    return name.decode(errors="ignore").strip("-") or "plan"


# Locks of a fork are granted all or none. They have the same names as for all other users of the files; files outside
# the plan's folder have no locks.

_KEPT: Final[LockKept] = "asked"
NO_WISH: Final[JsonObject] = {"wants": None, "kept": None, "reason": None, "locks": None}
"""Status merge of a fork that no longer waits for locks."""


def wanted_locks(fork: ForkHandle, prefix: str, paths: Sequence[str]) -> Wants:
    """Return the locks of `paths`, which are relative to a repository in which `prefix` is the plan's folder."""
    names = [printable_name(path.removeprefix(prefix)) for path in paths if path.startswith(prefix)]
    if len(names) > limits.FORK_LOCKS_MAX:
        above = os.path.commonpath([name.rpartition("/")[0] or "." for name in names])
        names = [f"{above}/**" if above not in ("", ".") else "**"]
    place = lock_prefix(fork.spec.outer) if fork.spec.outer else ""
    return {f"{place}/{name}" if place else name: "write" for name in names}


def take_locks(fork: ForkHandle, wants: Wants) -> tuple[Change, ...] | None:
    """Return the changes that grant all of `wants` to the fork's task; None if other owners block them."""
    owner = _owner(fork)
    if owner is None or not wants:
        return ()
    found = grants.grant_locks(fork.services.store.view, owner, wants, _KEPT, _reason(fork), fork.services.clock.now())
    return found.changes if isinstance(found, LocksGranted) else None


class ForkLocksLost(Exception):
    """The fork lost its locks, or another owner has them now: no further file may be written."""


def require_locks(fork: ForkHandle, wants: Wants) -> None:
    """Check that the fork still holds the locks of `wants`. Raises ForkLocksLost."""
    owner, view = _owner(fork), fork.services.store.view
    if owner is None:
        return
    if any(lost_locks(view, owner, wants)) or any(grants.blocking_grants(view, owner.address, wants)):
        raise ForkLocksLost(fork.address)


async def wait_for_locks(fork: ForkHandle, wants: Wants) -> None:
    """Enter the fork into the queues of all these locks. It holds none meanwhile, so it causes no deadlock."""
    owner, view, now = _owner(fork), fork.services.store.view, fork.services.clock.now()
    if owner is None:
        return
    if (held := release_fork_locks(fork)) != ():
        await fork.note("lock.released", {}, {"owner": owner.address}, held)
    others = grants.find_blockers(view, owner, wants, now)
    why = explain_blockers(others).message if others else ""
    merge: JsonObject = {"wants": dict(wants), "kept": _KEPT, "reason": _reason(fork), "locks": None}
    queued = grants.queue_changes(view, fork.address, owner, wants, _reason(fork), now)
    data: JsonObject = {"owner": owner.address, "wants": dict(wants), "message": why}
    await fork.note("lock.requested", merge, data, queued)


def release_fork_locks(fork: ForkHandle) -> tuple[Change, ...]:
    """Return the changes that release all its locks, and remove the fork from the queues."""
    owner = _owner(fork)
    wants: JsonObject = fork.resource.status.get("wants") or {}
    left = grants.unqueue_changes(fork.services.store.view, fork.address, tuple(wants)) if wants else ()
    return left or (() if owner is None else grants.release_changes(fork.services.store.view, owner, kept={_KEPT}))


def release_outer_locks(fork: ForkHandle) -> tuple[Change, ...]:
    """Return the changes that release the locks of its agents in the folder that they leave for the fork."""
    view = fork.services.store.view
    found = (view.get(ref) for ref in fork.resource.refs if ref.startswith("agent/"))
    agents = [grants.lock_owner(agent) for agent in found if agent is not None]
    return tuple(
        change for agent in agents for change in grants.release_changes(view, agent, kept=("turn", "asked", "task"))
    )


def _owner(fork: ForkHandle) -> LockOwner | None:
    task = fork.services.store.view.get(fork.spec.task)
    return None if task is None else grants.lock_owner(task)


def _reason(fork: ForkHandle) -> str:
    return f"{fork.address} is being merged back"
