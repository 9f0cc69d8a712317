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
"""The prefix of variables by which planloop finds a plan's processes again. A plan cannot set them."""


def command_environment(services: AgentServices, agent: ObservedAgent) -> dict[str, str]:
    """The clean environment with the task's own variables, and git configured for what the agent may run."""
    own = {} if agent.task_spec is None else {str(name): str(value) for name, value in agent.task_spec.env.items()}
    env = {
        **services.programs.env,
        **{name: value for name, value in own.items() if not name.startswith(RESERVED_VARIABLES)},
    }
    lists = (agent.spec.tools, agent.spec.rights.tools)
    may_run_all = all(patterns.is_allowed_by(each, "shell", None) for each in lists)
    return with_git_settings(env, may_run_all=may_run_all, is_owners=is_git_outside(env, real_folder(services.folder)))


def resolve_agent_workspace(services: AgentServices, agent: ObservedAgent) -> Workspace:
    """The workspace of the agent. Raises ToolDenied if the task's `cwd` is outside the workspace of a parent agent."""
    cwd = agent.task_spec.cwd if agent.task_spec is not None else "."
    folder = plan_folder(services, agent)
    root = resolve_workspace(services.store.view, cwd, folder)
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
    return Workspace(folder, root, rights.read, rights.write, deny, allow, _plan_file(services, folder), place)


def plan_folder(services: AgentServices, agent: ObservedAgent) -> Path:
    """The plan's folder, or that of the fork that the agent works in, with links resolved."""
    tree = working_tree_path(agent.context.fork.status) if agent.context.fork is not None else ""
    return real_folder(services.folder / tree) if tree else real_folder(services.folder)


def workspace_or_denial(services: AgentServices, agent: ObservedAgent) -> Workspace | ToolDenied:
    """The workspace of the agent, or the error that `resolve_agent_workspace` raises."""
    try:
        return resolve_agent_workspace(services, agent)
    except ToolDenied as error:
        return error


def working_directory(services: AgentServices, agent: ObservedAgent) -> str:
    """The absolute folder of the agent's task, in its fork if it has one."""
    tree = working_tree_path(agent.context.fork.status) if agent.context.fork is not None else ""
    return str(
        path_in_folder(path_in_folder(services.folder, tree), "." if agent.task_spec is None else agent.task_spec.cwd)
    )


def agent_sandbox(services: AgentServices, agent: ObservedAgent) -> CommandSandbox | None:
    """The sandbox of the agent's commands; None if they are not sandboxed."""
    return requested_sandbox(services.store.view, agent.resource.spec, plan_folder(services, agent))


def agent_container(services: AgentServices, agent: ObservedAgent) -> ContainerFiles | None:
    """The files of the container that is the agent's sandbox; None if no container is."""
    request = sandbox_request(agent.spec.sandbox)
    if request.tier < CONTAINER:
        return None
    folder, cwd = real_folder(services.folder), os.path.realpath(working_directory(services, agent))
    return container_files(services.store.view, request.container, folder, cwd)


def function_sandbox(services: AgentServices, agent: ObservedAgent) -> CommandSandbox | None:
    """The sandbox of the agent's Python functions.

    They need the interpreter of planloop, which containers do not have, so bubblewrap takes the place of a container.
    """
    box = agent_sandbox(services, agent)
    return box if box is None or box.tier < CONTAINER else replace(box, tier=BUBBLEWRAP, container="")


def _plan_file(services: AgentServices, folder: Path) -> Path | None:
    """The path of the plan file in `folder`, the plan's folder or a fork of it; None if no file was applied."""
    name = plan_file_name(services.store.view.get(services.plan))
    return path_in_folder(folder, name) if name else None
