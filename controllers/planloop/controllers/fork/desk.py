"""What the jobs of forks work with, and how they write what they do: the intent first, flushed, then the effect."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final

import anyio

from planloop.controllers.fork.git import Git
from planloop.controllers.fork.repository import Repository, repository_of
from planloop.controllers.fork.worktree import Worktree
from planloop.reconciler.clock import Clock
from planloop.reconciler.effects.processes import Processes
from planloop.reconciler.storing import folders
from planloop.reconciler.storing.store import Store, View
from planloop.schemas import limits
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.fork import KIND, ForkSpec, ForkStatus, fork_from_json, fork_status
from planloop.schemas.frozen import frozen
from planloop.schemas.record import Change, Draft, SetStatus
from planloop.schemas.resource import Resource, Uid

ACTOR: Final = "controller:fork"
FOLDER: Final = "forks"
_NO_NAME: Final = re.compile(r"[^\w-]+|_")


class Gone(Exception):
    """The fork that a job works for is no more, or is another by now."""


@frozen
class Desk:
    """`folder` is the plan's folder, `state` its state folder below it, both absolute; `plan` is the plan's name.

    `turns` lets one fork at a time make or remove a working tree: git keeps one list of them.
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
        """Where working trees and what is needed to make them lie."""
        return self.state / FOLDER


@frozen
class Fork:
    """One fork at the desk. Everything is read from the view when it is asked for."""

    desk: Desk
    address: str
    uid: Uid

    @property
    def resource(self) -> Resource:
        """The object. Raises Gone."""
        view = self.desk.store.view
        found = view.get(self.address)
        if found is None or found.uid != self.uid:  # Its task may have moved, and it with that.
            found = next((one for one in view.list(KIND) if one.uid == self.uid), None)
        if found is None:
            raise Gone(self.address)
        return found

    @property
    def spec(self) -> ForkSpec:
        return fork_from_json(self.resource.spec)

    @property
    def status(self) -> ForkStatus:
        return fork_status(self.resource.status)

    @property
    def name(self) -> str:
        """What its folder and its files below the state folder are called: readable, and like no other's."""
        return f"{slug(self.spec.task)}-{self.uid[:6]}"

    @property
    def index(self) -> Path:
        """For snapshots of the folder that it leaves."""
        return self.desk.forks / f"{self.name}.index"

    async def repository(self) -> Repository:
        """Of the folder that it leaves: the plan's, or where that is in the fork around it. Raises GitFailed."""
        folders.make(self.desk.forks)
        return await repository_of(
            self.desk.git, self.desk.folder / outer_tree(self.desk.store.view, self.spec), self.desk.forks
        )

    def worktree(self, repository: Repository) -> Worktree:
        """Where it is, by what is noted."""
        status = self.status
        return Worktree(repository, self.desk.folder / status.folder, status.branch)

    async def note(
        self, type_: str, merge: Mapping[str, Json], data: JsonObject | None = None, more: Sequence[Change] = ()
    ) -> None:
        """Writes `merge` into the status, durably, with `more` in the same append. Raises Gone and Conflict."""
        resource = self.resource
        draft = noted(resource, type_, merge, data or {}, more)
        # This await is the law: what is about to be done must be known to whoever comes after a crash.
        await self.desk.store.append(draft, {resource.address: resource.rev})


def noted(
    fork: Resource, type_: str, merge: Mapping[str, Json], data: JsonObject, more: Sequence[Change] = ()
) -> Draft:
    """The record of a change of a fork's status. What others react to is in its signal."""
    answered = merge.get("answered", fork.status.get("answered"))
    told: JsonObject = {**merge, "signal": [answered, merge.get("fault", fork.status.get("fault"))]}
    return Draft(type_, ACTOR, fork.address, (SetStatus(fork.address, fork.uid, told), *more), data)


def outer_tree(view: View, spec: ForkSpec) -> str:
    """Where the folder that the fork leaves is, relative to the plan's folder; empty for that folder."""
    outer = view.get(spec.outer) if spec.outer else None
    return "" if outer is None else fork_status(outer.status).tree


def slug(task: str) -> str:
    """A task's path as one name of a file or of a part of a branch; of a long one its end."""
    name = _NO_NAME.sub("-", task.partition("/")[2]).encode()[-limits.FORK_NAME_BYTES_MAX :]
    return name.decode(errors="ignore").strip("-") or "plan"
