"""Where commands run and which variables they see: the plan's folder and a clean environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from planloop.controllers.shared.sandbox import GROUP_ONLY, SandboxSupport, requested_sandbox
from planloop.controllers.shared.workspace import (
    WorkspaceFault,
    is_git_outside,
    make_folder,
    real_folder,
    resolve_workspace,
    workspace_fault,
)
from planloop.controllers.task.checks.run import CheckFunction, run_check
from planloop.reconciler.effects.processes import CommandSandbox
from planloop.reconciler.store.store import View
from planloop.schemas import patterns
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.fork import working_tree_path
from planloop.schemas.objects.task import TaskSpec
from planloop.schemas.resource import Resource
from planloop.schemas.rights import rights_from_json
from planloop.schemas.shell.variables import with_git_settings

if TYPE_CHECKING:
    from planloop.controllers.shared.container_exec import ContainerCommands

RESERVED_PREFIX = "PLANLOOP_"
"""Our labels find a plan's processes again; a plan does not set them."""

KEPT_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR")
"""What a command inherits. No TERM: output goes to a file, and colour codes would be kept in it."""


@frozen
class RunEnvironment:
    """`folder` is the plan file's, absolute; `inherited` is the owner's environment, of which only KEPT is used.

    `check` runs one acceptance check; a replay gives what was found instead, and `strays` which task at which address
    was found to have no folder to work in. `containers` gives those of the plan, `sandboxes` what this machine has.
    """

    plan: str
    folder: Path
    inherited: Mapping[str, str] = field(default_factory=dict)
    check: CheckFunction = run_check
    containers: Callable[[], ContainerCommands] | None = None
    sandboxes: SandboxSupport = GROUP_ONLY
    strays: Callable[[View, str], WorkspaceFault | None] | None = None

    def ground(
        self, view: View, task: str, spec: TaskSpec, encloser: Resource | None, fork: Resource | None = None
    ) -> str | WorkspaceFault:
        """The absolute workspace of a task whose nearest agent is `encloser`, in the fork that it works in, if any.

        Where an agent is above it, or does it, that is without links. A person may lead another wherever they want, but
        agents may not.
        """
        folder = self._folder(fork)
        written = str(folder) if spec.cwd == "." else str(folder / spec.cwd)
        if self.strays is not None:
            return self.strays(view, task) or written
        if encloser is None:
            return workspace_fault(view, spec.cwd, real_folder(folder)) or written
        found = resolve_workspace(view, spec.cwd, real_folder(folder))
        return found if isinstance(found, WorkspaceFault) else str(found)

    def make_ground(self, ground: str, encloser: Resource | None, fork: Resource | None = None) -> None:
        """Makes the workspace at `ground` if it is not there. Raises OSError.

        A tree that is gone, the plan's or a fork's, is not made again.
        """
        if self.strays is not None or os.path.isdir(ground):  # noqa: PTH112 - asked for every command
            return
        folder = self._folder(fork)
        if encloser is not None:
            make_folder(real_folder(folder), ground)
        elif folder.is_dir():
            Path(ground).mkdir(parents=True, exist_ok=True)

    def no_links_from(self, encloser: Resource | None, fork: Resource | None = None) -> str | None:
        """The folder from which on the ground of a task has no links, None where it may have some."""
        return None if encloser is None else str(real_folder(self._folder(fork)))

    def _folder(self, fork: Resource | None) -> Path:
        tree = working_tree_path(fork.status) if fork is not None else ""
        return self.folder / tree if tree else self.folder

    def sandbox(self, view: View, encloser: Resource | None, fork: Resource | None = None) -> CommandSandbox | None:
        """What commands are enclosed in whose nearest agent is `encloser`, in the fork that they work in."""
        if encloser is None:
            return None
        tree = working_tree_path(fork.status) if fork is not None else ""
        return requested_sandbox(view, encloser.spec, (self.folder / tree).resolve())

    def env(self, address: str, spec: TaskSpec, incarnation: int, encloser: Resource | None) -> dict[str, str]:
        """The whole environment of a task's command: what is inherited, the labels, then what the plan says.

        Where the nearest agent is `encloser`, git is set for what that may run.
        """
        kept = {name: self.inherited[name] for name in KEPT_VARIABLES if name in self.inherited}
        labels = {"PLANLOOP_NAME": self.plan, "PLANLOOP_TASK": address, "PLANLOOP_INCARNATION": str(incarnation)}
        own = {name: str(value) for name, value in spec.env.items() if not name.startswith(RESERVED_PREFIX)}
        env = {**kept, **labels, **own}
        if encloser is None:
            return env
        rights = rights_from_json(encloser.spec["rights"])
        may_run_all = any(patterns.is_allowed_by(each, "shell", None) for each in (rights.tools, rights.grant_tools))
        return with_git_settings(env, may_run_all=may_run_all, is_owners=is_git_outside(env, real_folder(self.folder)))
