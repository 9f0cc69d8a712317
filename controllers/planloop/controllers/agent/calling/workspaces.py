"""Where an agent acts: its task's folder below the plan's, under its rights to paths, and what its commands see."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.ports import World
from planloop.controllers.agent.tools.faults import ToolDenied
from planloop.controllers.agent.tools.workspace import Workspace
from planloop.controllers.inside import Place, place_of
from planloop.controllers.sandboxes import Astray, beside, ground, is_git_outside, sandbox_of, without_links
from planloop.reconciler.effects.processes import Sandbox
from planloop.schemas import patterns
from planloop.schemas.fork import lock_place, tree_of
from planloop.schemas.plan import file_name
from planloop.schemas.sandbox import BUBBLEWRAP, CONTAINER, wish_of
from planloop.schemas.variables import git_set

RESERVED: Final = "PLANLOOP_"
"""Our labels find a plan's processes again; a plan does not set them."""


def environment(world: World, seen: Observed) -> dict[str, str]:
    """The clean environment with the task's own variables, and git set for what the agent may run."""
    own = {} if seen.task_spec is None else {str(name): str(value) for name, value in seen.task_spec.env.items()}
    env = {**world.env, **{name: value for name, value in own.items() if not name.startswith(RESERVED)}}
    lists = (seen.spec.tools, seen.spec.rights.tools)
    may_run_all = all(patterns.allowed_by(each, "shell", None) for each in lists)
    return git_set(env, may_run_all=may_run_all, is_owners=is_git_outside(env, without_links(world.folder)))


def workspace_of(world: World, seen: Observed) -> Workspace:
    """Raises ToolDenied where the task's `cwd` is not to be worked in: it leads out of what agents above it work in."""
    cwd = seen.task_spec.cwd if seen.task_spec is not None else "."
    folder = folder_of(world, seen)
    root = ground(world.store.view, cwd, folder)
    if isinstance(root, Astray):
        raise ToolDenied(root.words)
    rights = seen.spec.rights
    allow = (seen.spec.tools, rights.tools)
    place = lock_place(seen.fork.address) if seen.fork is not None and tree_of(seen.fork.status) else ""
    deny = (*rights.deny, *rights.guarded)
    return Workspace(folder, root, rights.read, rights.write, deny, allow, _plan_file(world, folder), place)


def folder_of(world: World, seen: Observed) -> Path:
    """The plan's folder without links, or that of the fork that the agent works in."""
    tree = tree_of(seen.fork.status) if seen.fork is not None else ""
    return without_links(world.folder / tree) if tree else without_links(world.folder)


def space_of(world: World, seen: Observed) -> Workspace | ToolDenied:
    """The same, or why there is none."""
    try:
        return workspace_of(world, seen)
    except ToolDenied as fault:
        return fault


def cwd_of(world: World, seen: Observed) -> str:
    """The absolute folder of the agent's task, in its fork if it has one."""
    tree = tree_of(seen.fork.status) if seen.fork is not None else ""
    return str(beside(beside(world.folder, tree), "." if seen.task_spec is None else seen.task_spec.cwd))


def sandbox(world: World, seen: Observed) -> Sandbox | None:
    """What the agent's commands are enclosed in."""
    return sandbox_of(world.store.view, seen.resource.spec, folder_of(world, seen))


def place(world: World, seen: Observed) -> Place | None:
    """The container that the agent works in, if one is its sandbox, as it finds files there."""
    wish = wish_of(seen.spec.sandbox)
    if wish.tier < CONTAINER:
        return None
    return place_of(
        world.store.view, wish.container, without_links(world.folder), os.path.realpath(cwd_of(world, seen))
    )


def around_functions(world: World, seen: Observed) -> Sandbox | None:
    """The same for a Python function: it needs our interpreter, which no container has, so bubblewrap has to do."""
    box = sandbox(world, seen)
    return box if box is None or box.tier < CONTAINER else replace(box, tier=BUBBLEWRAP, container="")


def _plan_file(world: World, folder: Path) -> Path | None:
    """The plan file that was applied last, as it lies in the plan's folder or in a fork of that."""
    name = file_name(world.store.view.get(world.plan))
    return beside(folder, name) if name else None
