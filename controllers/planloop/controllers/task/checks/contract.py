"""What a check is given and what it returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from planloop.controllers.shared.container_exec import ContainerCommands
from planloop.reconciler.clock import Ids
from planloop.reconciler.effects.processes import CommandSandbox, Processes
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.task import CheckSpec

FindingResult: TypeAlias = Literal["pass", "fail", "error"]
"""Holds, does not hold, or could not be run."""


@frozen
class CheckFinding:
    """What a check found. `message` is a sentence for people and models, `output` the whole of what was printed.

    `probes` is how often it looked: a pass of none is no pass where it counts. `evidence` is what it saw, by name.
    `figures` are numbers beside, by name: for benchmarks, which show them and never add them up to a verdict.
    `is_own`: an error that what was looked at can bring about, not only the world; where agents are measured it counts.
    """

    result: FindingResult
    message: str
    output: bytes = b""
    probes: int = 1
    evidence: Mapping[str, bytes] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    is_own: bool = False


@frozen
class CheckEnvironment:
    """Where a check runs: the task's workspace (absolute) and environment, and what starts its commands.

    `containers` are the plan's, None where no plan runs; `label` tells this task's commands in one from others'.
    `sandbox` is what its commands are enclosed in. `no_links_from`: the folder from which on the way to `cwd` has no
    links, and checks look behind none that has come there since; None where people may lead it wherever they want.
    """

    processes: Processes
    ids: Ids
    cwd: str
    no_links_from: str | None
    env: Mapping[str, str] = field(default_factory=dict)
    containers: ContainerCommands | None = None
    label: str = ""
    sandbox: CommandSandbox | None = None


CheckFunction: TypeAlias = Callable[[CheckSpec, CheckEnvironment], Awaitable[CheckFinding]]
RunCheck: TypeAlias = CheckFunction
"""Runs a check of any kind; never raises."""
