"""Where an agent works: its folder, its rights to paths, its environment variables and its sandbox."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.services import AgentServices
from planloop.controllers.agent.tools.errors import ToolDenied
from planloop.controllers.agent.tools.workspace import Workspace
from planloop.controllers.shared.container_exec import ContainerFiles, container_files
from planloop.controllers.shared.sandbox import requested_sandbox
from planloop.controllers.shared.workspace import (
    WorkspaceFault,
    is_git_outside,
    path_in_folder,
    real_folder,
    resolve_workspace,
)
from planloop.reconciler.effects.processes import CommandSandbox
from planloop.schemas import patterns
from planloop.schemas.objects.fork import lock_prefix, working_tree_path
from planloop.schemas.objects.plan import plan_file_name
from planloop.schemas.objects.sandbox import BUBBLEWRAP, CONTAINER, sandbox_request
from planloop.schemas.shell.variables import with_git_settings

RESERVED_VARIABLES: Final = "PLANLOOP_"
"""Our labels find a plan's processes again; a plan does not set them."""


def command_environment(world: AgentServices, agent: ObservedAgent) -> dict[str, str]:
    """The clean environment with the task's own variables, and git set for what the agent may run."""
    own = {} if agent.task_spec is None else {str(name): str(value) for name, value in agent.task_spec.env.items()}
    env = {
        **world.programs.env,
        **{name: value for name, value in own.items() if not name.startswith(RESERVED_VARIABLES)},
    }
    lists = (agent.spec.tools, agent.spec.rights.tools)
    may_run_all = all(patterns.is_allowed_by(each, "shell", None) for each in lists)
    return with_git_settings(env, may_run_all=may_run_all, is_owners=is_git_outside(env, real_folder(world.folder)))


def resolve_agent_workspace(world: AgentServices, agent: ObservedAgent) -> Workspace:
    """Raises ToolDenied where the task's `cwd` is not to be worked in: it leads out of what agents above it work in."""
    cwd = agent.task_spec.cwd if agent.task_spec is not None else "."
    folder = plan_folder(world, agent)
    root = resolve_workspace(world.store.view, cwd, folder)
    if isinstance(root, WorkspaceFault):
        raise ToolDenied(root.words)
    rights = agent.spec.rights
    allow = (agent.spec.tools, rights.tools)
    place = (
        lock_prefix(agent.context.fork.address)
        if agent.context.fork is not None and working_tree_path(agent.context.fork.status)
        else ""
    )
    deny = (*rights.deny, *rights.guarded)
    return Workspace(folder, root, rights.read, rights.write, deny, allow, _plan_file(world, folder), place)


def plan_folder(world: AgentServices, agent: ObservedAgent) -> Path:
    """The plan's folder without links, or that of the fork that the agent works in."""
    tree = working_tree_path(agent.context.fork.status) if agent.context.fork is not None else ""
    return real_folder(world.folder / tree) if tree else real_folder(world.folder)


def workspace_or_denial(world: AgentServices, agent: ObservedAgent) -> Workspace | ToolDenied:
    """The same, or why there is none."""
    try:
        return resolve_agent_workspace(world, agent)
    except ToolDenied as fault:
        return fault


def working_directory(world: AgentServices, agent: ObservedAgent) -> str:
    """The absolute folder of the agent's task, in its fork if it has one."""
    tree = working_tree_path(agent.context.fork.status) if agent.context.fork is not None else ""
    return str(
        path_in_folder(path_in_folder(world.folder, tree), "." if agent.task_spec is None else agent.task_spec.cwd)
    )


def agent_sandbox(world: AgentServices, agent: ObservedAgent) -> CommandSandbox | None:
    """What the agent's commands are enclosed in."""
    return requested_sandbox(world.store.view, agent.resource.spec, plan_folder(world, agent))


def agent_container(world: AgentServices, agent: ObservedAgent) -> ContainerFiles | None:
    """The container that the agent works in, if one is its sandbox, as it finds files there."""
    wish = sandbox_request(agent.spec.sandbox)
    if wish.tier < CONTAINER:
        return None
    return container_files(
        world.store.view, wish.container, real_folder(world.folder), os.path.realpath(working_directory(world, agent))
    )


def function_sandbox(world: AgentServices, agent: ObservedAgent) -> CommandSandbox | None:
    """The same for a Python function: it needs our interpreter, which no container has, so bubblewrap has to do."""
    box = agent_sandbox(world, agent)
    return box if box is None or box.tier < CONTAINER else replace(box, tier=BUBBLEWRAP, container="")


def _plan_file(world: AgentServices, folder: Path) -> Path | None:
    """The plan file that was applied last, as it lies in the plan's folder or in a fork of that."""
    name = plan_file_name(world.store.view.get(world.plan))
    return path_in_folder(folder, name) if name else None
