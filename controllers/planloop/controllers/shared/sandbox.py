"""The sandbox of a command: from a plan's objects to what the command runs in, and whether this machine has it."""

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

# Which sandboxes are to be had on this machine: known once it was tried.


class SandboxSupport(Protocol):
    """The sandboxes of this machine."""

    def known(self, wish: SandboxRequest) -> SandboxAvailability | None:
        """What is known of it without trying; None when it was not tried yet."""
        ...

    async def tried(self, wish: SandboxRequest) -> SandboxAvailability:
        """Tries it, by running something in it, unless the answer is known and not due."""
        ...


class _Fixed:
    def __init__(self, tier_max: int) -> None:
        self._tier_max = tier_max

    def known(self, wish: SandboxRequest) -> SandboxAvailability | None:
        if wish.tier <= self._tier_max:
            return SANDBOX_AVAILABLE
        return SandboxAvailability(False, f"{wish.words} is not to be had here", "plan apply runs such plans")

    async def tried(self, wish: SandboxRequest) -> SandboxAvailability:
        return self.known(wish) or SANDBOX_AVAILABLE


ALL_SANDBOXES: Final[SandboxSupport] = _Fixed(tier_max=1_000)
"""Of a replay, which runs nothing."""

GROUP_ONLY: Final[SandboxSupport] = _Fixed(tier_max=GROUP)
"""Where nothing encloses."""


# From the objects of a plan to what a command is enclosed in. Pure.


def nearest_agent(view: View, task: str) -> Resource | None:
    """The agent of the task at the address `task`, or else of the nearest one above that has an agent."""
    path = task.partition("/")[2]
    while (found := view.get(f"agent/{path}")) is None and path != ".":
        path = path.rpartition("/")[0] or "."
    return found


def requested_sandbox(view: View, agent: JsonObject, folder: PurePath) -> CommandSandbox | None:
    """What commands of the lowered `agent` are enclosed in that work below `folder`; None for nothing of its own.

    `folder` is absolute, without links, and the plan's or that of a fork: both have the plan's file.
    """
    wish = sandbox_request(agent.get("sandbox"))
    if wish.tier < BUBBLEWRAP and wish.memory_bytes is None and wish.processes is None:
        return None
    rights, plan = agent["rights"], next(iter(view.list("plan")), None)
    steering = steering_files(plan_file_name(plan), rights.get("guarded", ()))
    return CommandSandbox(
        tier=wish.tier,
        container=wish.container,
        readable=() if wish.is_alone else (str(folder),),
        is_alone=wish.is_alone,
        guarded=tuple(str(folder / path) for path in steering),
        held=tuple(str(folder / path) for path in mounted_folders(view)),
        network=bool(rights["network"]),
        hosts=tuple(rights.get("hosts", ())),
        memory_bytes=wish.memory_bytes,
        processes=wish.processes,
    )


def steering_files(plan_file: str, guarded: Iterable[str]) -> tuple[str, ...]:
    """What steers the plan, relative to its folder: the file `plan_file`, and what the denials `guarded` are about."""
    return tuple(path for path in dict.fromkeys((plan_file, *map(_guarded, guarded))) if path)


def mounted_folders(view: View) -> tuple[str, ...]:
    """What the containers of the plan are made from in its folder, relative: who writes there puts no link there."""
    specs = [container.spec for container in view.list("container")]
    written = [str(mount["host"]) for spec in specs for mount in spec["mounts"]]
    written += [str(folder) for spec in specs for folder in (spec["build"].get("folder"), spec["rootfs"]) if folder]
    found = (normpath(path) for path in written if path and not is_outside_plan(path))
    return tuple(dict.fromkeys(path for path in found if path != "."))


def _guarded(pattern: str) -> str:
    """What a denial of writing is about: a file or folder; of names below a star the folder around it, of one at the
    plan's top the name with its star. Empty for what it says of every name."""
    call = patterns.parse_call_pattern(pattern)
    if call is None or not call.subject:
        return ""
    names = call.subject.split("/")
    starred = next((index for index, name in enumerate(names) if "*" in name), len(names))
    return "/".join(names[:starred]) or ("" if names[0] == "**" else names[0])
