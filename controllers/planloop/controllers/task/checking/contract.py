"""What a check is given and what it answers. One file next door for each kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from planloop.controllers.inside import Containers
from planloop.reconciler.clock import Ids
from planloop.reconciler.effects.processes import Processes, Sandbox
from planloop.schemas.frozen import frozen
from planloop.schemas.task import CheckSpec

Result: TypeAlias = Literal["pass", "fail", "error"]
"""Holds, does not hold, or could not be run."""


@frozen
class Finding:
    """What a check found. `message` is a sentence for people and models, `output` the whole of what was printed.

    `probes` is how often it looked: a pass of none is no pass where it counts. `evidence` is what it saw, by name.
    `figures` are numbers beside, by name: for benchmarks, which show them and never add them up to a verdict.
    `is_own`: an error that what was looked at can bring about, not only the world; where agents are measured it counts.
    """

    result: Result
    message: str
    output: bytes = b""
    probes: int = 1
    evidence: Mapping[str, bytes] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    is_own: bool = False


@frozen
class Bench:
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
    containers: Containers | None = None
    label: str = ""
    sandbox: Sandbox | None = None


Check: TypeAlias = Callable[[CheckSpec, Bench], Awaitable[Finding]]
RunCheck: TypeAlias = Check
"""Runs a check of any kind; never raises."""
