"""Sandbox of a command: what the plan's objects request, and whether this machine supports it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from posixpath import normpath
from typing import Final, Protocol

from planloop.reconciler.effects.processes import CommandSandbox
from planloop.reconciler.store.store import View
from planloop.schemas import patterns
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.objects.container import is_outside_plan
from planloop.schemas.objects.plan import plan_file_name
from planloop.schemas.objects.sandbox import (
    BUBBLEWRAP,
    GROUP,
    SANDBOX_AVAILABLE,
    SandboxAvailability,
    SandboxRequest,
    sandbox_request,
)
from planloop.schemas.resource import Resource


class SandboxSupport(Protocol):
    """Which sandboxes this machine supports."""

    def known(self, wanted: SandboxRequest) -> SandboxAvailability | None:
        """Return the result of the last try; None if the sandbox was not tried yet."""
        ...

    async def tried(self, wanted: SandboxRequest) -> SandboxAvailability:
        """Try the sandbox by running a command in it, unless the last result is still valid."""
        ...


class _Fixed:
    def __init__(self, tier_max: int) -> None:
        self._tier_max = tier_max

    def known(self, wanted: SandboxRequest) -> SandboxAvailability | None:
        if wanted.tier <= self._tier_max:
            return SANDBOX_AVAILABLE
        return SandboxAvailability(False, f"{wanted.words} is not available here", "plan apply runs such plans")

    async def tried(self, wanted: SandboxRequest) -> SandboxAvailability:
        return self.known(wanted) or SANDBOX_AVAILABLE


ALL_SANDBOXES: Final[SandboxSupport] = _Fixed(tier_max=1_000)
"""For a replay, which runs no commands."""

GROUP_ONLY: Final[SandboxSupport] = _Fixed(tier_max=GROUP)
"""For commands without a sandbox."""


def nearest_agent(view: View, task: str) -> Resource | None:
    """Return the agent of the task at the address `task`, or else of its nearest ancestor that has one."""
    path = task.partition("/")[2]
    while (found := view.get(f"agent/{path}")) is None and path != ".":
        path = path.rpartition("/")[0] or "."
    return found


def requested_sandbox(view: View, agent: JsonObject, folder: PurePath) -> CommandSandbox | None:
    """Return the sandbox of commands of the compiled `agent` that work below `folder`; None if it has no sandbox.

    `folder` is the absolute folder of the plan or of a fork, without links: both contain the plan's file.
    """
    wanted = sandbox_request(agent.get("sandbox"))
    if wanted.tier < BUBBLEWRAP and wanted.memory_bytes is None and wanted.processes is None:
        return None
    rights, plan = agent["rights"], next(iter(view.list("plan")), None)
    control_files = steering_files(plan_file_name(plan), rights.get("guarded", ()))
    return CommandSandbox(
        tier=wanted.tier,
        container=wanted.container,
        readable=() if wanted.is_alone else (str(folder),),
        is_alone=wanted.is_alone,
        guarded=tuple(str(folder / path) for path in control_files),
        held=tuple(str(folder / path) for path in mounted_folders(view)),
        network=bool(rights["network"]),
        hosts=tuple(rights.get("hosts", ())),
        memory_bytes=wanted.memory_bytes,
        processes=wanted.processes,
    )


def steering_files(plan_file: str, guarded: Iterable[str]) -> tuple[str, ...]:
    """Return the paths that control the plan, relative to its folder: `plan_file` and the subjects of `guarded`."""
    return tuple(path for path in dict.fromkeys((plan_file, *map(_guarded, guarded))) if path)


def mounted_folders(view: View) -> tuple[str, ...]:
    """Return the paths in the plan's folder that its containers mount or are built from. Writers must not create links
    there.
    """
    specs = [container.spec for container in view.list("container")]
    written = [str(mount["host"]) for spec in specs for mount in spec["mounts"]]
    written += [str(folder) for spec in specs for folder in (spec["build"].get("folder"), spec["rootfs"]) if folder]
    found = (normpath(path) for path in written if path and not is_outside_plan(path))
    return tuple(dict.fromkeys(path for path in found if path != "."))


def _guarded(pattern: str) -> str:
    """Return the file or folder of a denied write. Before a star it is the folder above; a star at the top of the plan
    is kept. Empty for a pattern that matches every name.
    """
    call = patterns.parse_call_pattern(pattern)
    if call is None or not call.subject:
        return ""
    names = call.subject.split("/")
    starred = next((index for index, name in enumerate(names) if "*" in name), len(names))
    return "/".join(names[:starred]) or ("" if names[0] == "**" else names[0])
