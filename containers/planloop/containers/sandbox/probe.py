"""Test which sandboxes this machine supports by running a command in them, and remember the result.

An unavailable sandbox is tested again at growing intervals, because it may be installed meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Final

import anyio

from planloop.reconciler.clock import Clock, Ids
from planloop.reconciler.effects.processes import CommandSandbox, ExitCause, ProcessCommand, Processes
from planloop.reconciler.effects.truncate import last_line
from planloop.schemas import limits
from planloop.schemas.objects.sandbox import (
    BUBBLEWRAP,
    CONTAINER,
    GROUP,
    SANDBOX_AVAILABLE,
    SandboxAvailability,
    SandboxRequest,
)

NO_BWRAP: Final = "bwrap is not installed"
FILTER_NAME: Final = "seccomp filter"
"""Parts of messages that select a hint. `entry.py`, which imports nothing, spells the second out."""

LESS: Final = "or set a lower `sandbox` in the plan"
INSTALL: Final = f"install bubblewrap with your system's package manager, {LESS}"
ALLOW: Final = (
    "allow users to create namespaces (as root: sysctl kernel.unprivileged_userns_clone=1, on Ubuntu "
    f"kernel.apparmor_restrict_unprivileged_userns=0; in a container, start it with more rights), {LESS}"
)
FILTER: Final = (
    "use a kernel with CONFIG_SECCOMP_FILTER on x86_64 or aarch64; in a container, allow it to load seccomp filters "
    f"(prctl, seccomp), {LESS}"
)
BWRAP_FILTER_ERROR: Final = "system call"  # In the message of bwrap for a filter that the kernel refuses.
LOOK: Final = (
    "run plan describe container/{}; to run commands in it, it needs a `cmd` that does not end, such as "
    "`cmd: [sleep, infinity]`, and a /bin/sh in its image"
)


class ProbedSandboxes:
    """A `planloop.controllers.shared.sandbox.SandboxSupport` that tests sandboxes. `folder` is the plan's folder."""

    def __init__(self, processes: Processes, clock: Clock, ids: Ids, folder: str) -> None:
        self._processes = processes
        self._clock = clock
        self._ids = ids
        self._folder = folder
        self._known: dict[tuple[int, str], SandboxAvailability] = {}
        self._trying: defaultdict[tuple[int, str], anyio.Lock] = defaultdict(anyio.Lock)

    def known(self, request: SandboxRequest) -> SandboxAvailability | None:
        return SANDBOX_AVAILABLE if request.tier <= GROUP else self._known.get(_key(request))

    async def tried(self, request: SandboxRequest) -> SandboxAvailability:
        """Test whether a shell starts in the sandbox. Concurrent callers share one test."""
        key = _key(request)
        async with self._trying[key]:
            known = self.known(request)
            if known is not None and not known.is_due(self._clock.now()):
                return known
            answer = await self._try(request)
            if not answer.is_had:
                tries = 1 if known is None else known.tries + 1
                answer = replace(answer, tries=tries, again_at=self._clock.now() + _pause_s(tries))
            self._known[key] = answer
            return answer

    async def _try(self, request: SandboxRequest) -> SandboxAvailability:
        if request.tier > CONTAINER:
            return SandboxAvailability(
                False,
                f"unknown sandbox tier {request.tier}",
                "use a tier from 0 to 3; tier 3, a container, is the strongest",
            )
        if request.tier == CONTAINER and not request.container:
            return SandboxAvailability(False, "tier 3 needs a container", "set `sandbox: {container: name}`")
        op, box = self._ids.mint(), CommandSandbox(request.tier, request.container)
        env = {"PATH": "/usr/bin:/bin"}
        command = ProcessCommand(self._folder, shell=":", env=env, timeout_s=limits.SANDBOX_PROBE_S, sandbox=box)
        ended = await self._processes.run(op, command)
        self._processes.forget([op])
        if ended.ending is ExitCause.EXITED and ended.code == 0:
            return SANDBOX_AVAILABLE
        said = last_line(ended.output) or ended.ending.value
        return SandboxAvailability(False, f"sandbox {request.words} is not available: {said}", _hint(request, said))


def _key(request: SandboxRequest) -> tuple[int, str]:
    return request.tier, request.container


def _pause_s(failures: int) -> float:
    return float(min(limits.SANDBOX_RETRY_CAP_S, limits.SANDBOX_RETRY_S * 2.0 ** min(failures - 1, 30)))


def _hint(request: SandboxRequest, said: str) -> str:
    if request.tier == BUBBLEWRAP:
        if FILTER_NAME in said or BWRAP_FILTER_ERROR in said:
            return FILTER
        return INSTALL if NO_BWRAP in said else ALLOW
    return LOOK.format(request.container)
