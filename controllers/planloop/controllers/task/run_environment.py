"""Folder, environment variables and sandbox of the commands of a task."""

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
"""Prefix of the variables that label a plan's processes, so that an owner finds them. A plan cannot set them."""

KEPT_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR")
"""Variables that a command inherits. Not TERM: output goes to a file, which would contain colour codes."""


@frozen
class RunEnvironment:
    """Environment of the tasks of one plan.

    `folder` is the absolute folder of the plan file. `inherited` is the owner's environment; only KEPT_VARIABLES are
    used. `check` runs one acceptance check. `containers` returns the containers of the plan, `sandboxes` knows the
    sandboxes of this machine. In a replay, `check` returns the recorded result, and `strays` the recorded reason why a
    task could not work in its folder.
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
        """Return the absolute workspace of a task, or why the task may not work there.

        `encloser` is the nearest agent at or above the task, `fork` the fork that it works in. With an agent, the path
        must not contain symbolic links: people may place links that lead out of the plan's folder, agents may not.
        """
        folder = self._folder(fork)
        written = str(folder) if spec.cwd == "." else str(folder / spec.cwd)
        if self.strays is not None:
            return self.strays(view, task) or written
        if encloser is None:
            return workspace_fault(view, spec.cwd, real_folder(folder)) or written
        found = resolve_workspace(view, spec.cwd, real_folder(folder))
        return found if isinstance(found, WorkspaceFault) else str(found)

    def make_workspace(self, path: str, encloser: Resource | None, fork: Resource | None = None) -> None:
        """Create the workspace at `path` if it is missing. A missing folder of the plan or fork is not recreated.

        Raises:
            OSError: the folder cannot be created.
        """
        if self.strays is not None or os.path.isdir(path):  # noqa: PTH112 - called for every command
            return
        folder = self._folder(fork)
        if encloser is not None:
            make_folder(real_folder(folder), path)
        elif folder.is_dir():
            Path(path).mkdir(parents=True, exist_ok=True)

    def no_links_from(self, encloser: Resource | None, fork: Resource | None = None) -> str | None:
        """Return the folder below which a task's workspace has no symbolic links; None if links are allowed."""
        return None if encloser is None else str(real_folder(self._folder(fork)))

    def _folder(self, fork: Resource | None) -> Path:
        tree = working_tree_path(fork.status) if fork is not None else ""
        return self.folder / tree if tree else self.folder

    def sandbox(self, view: View, encloser: Resource | None, fork: Resource | None = None) -> CommandSandbox | None:
        """Return the sandbox of commands whose nearest agent is `encloser` and that work in `fork`."""
        if encloser is None:
            return None
        tree = working_tree_path(fork.status) if fork is not None else ""
        return requested_sandbox(view, encloser.spec, (self.folder / tree).resolve())

    def env(self, address: str, spec: TaskSpec, incarnation: int, encloser: Resource | None) -> dict[str, str]:
        """Return the environment of a task's command: inherited variables, labels, then the plan's `env`.

        With an agent as `encloser`, it also holds git settings that fit the commands that this agent may run.
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
