"""Find out by a trial run which sandboxes this machine supports, and remember the answer.

A missing one is tried again at growing intervals: it may be installed meanwhile.
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

LESS: Final = "or ask for less: a lower `sandbox` in the plan"
INSTALL: Final = f"install bubblewrap with your system's package manager, {LESS}"
ALLOW: Final = (
    "let users make namespaces (as root: sysctl kernel.unprivileged_userns_clone=1, on Ubuntu "
    f"kernel.apparmor_restrict_unprivileged_userns=0; in a container, run it with more rights), {LESS}"
)
FILTER: Final = (
    "use a kernel with CONFIG_SECCOMP_FILTER on x86_64 or aarch64; in a container, let it load filters of its own "
    f"(prctl, seccomp), {LESS}"
)
LOOK: Final = (
    "plan describe container/{} says how it is; to be worked in it needs a `cmd` that lasts, as in "
    "`cmd: [sleep, infinity]`, and a /bin/sh in its image"
)


class ProbedSandboxes:
    """A `planloop.controllers.shared.sandbox.SandboxSupport` over processes that enclose. `folder` is the plan's."""

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
        """Whether a shell starts in it. Concurrent callers share one trial."""
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
                False, f"there is no sandbox of tier {request.tier}", "3, a container, is the strongest"
            )
        if request.tier == CONTAINER and not request.container:
            return SandboxAvailability(
                False, "tier 3 needs a container to be in", "name one: `sandbox: {container: name}`"
            )
        op, box = self._ids.mint(), CommandSandbox(request.tier, request.container)
        env = {"PATH": "/usr/bin:/bin"}
        command = ProcessCommand(self._folder, shell=":", env=env, timeout_s=limits.SANDBOX_PROBE_S, sandbox=box)
        ended = await self._processes.run(op, command)
        self._processes.forget([op])
        if ended.ending is ExitCause.EXITED and ended.code == 0:
            return SANDBOX_AVAILABLE
        said = last_line(ended.output) or ended.ending.value
        return SandboxAvailability(
            False, f"the sandbox, {request.words}, is not to be had: {said}", _hint(request, said)
        )


def _key(request: SandboxRequest) -> tuple[int, str]:
    return request.tier, request.container


def _pause_s(failures: int) -> float:
    return float(min(limits.SANDBOX_RETRY_CAP_S, limits.SANDBOX_RETRY_S * 2.0 ** min(failures - 1, 30)))


def _hint(request: SandboxRequest, said: str) -> str:
    if request.tier == BUBBLEWRAP:
        if "system call" in said:
            return FILTER
        return INSTALL if "is not there" in said else ALLOW
    return LOOK.format(request.container)
