"""What grading is done with: given by the wiring, so that nothing here makes a process or asks for the time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from planloop.benchmarks.checks.contract import Evidence
from planloop.benchmarks.compiling.compiled import Compiled
from planloop.benchmarks.grading.blobs import Blobs
from planloop.containers.engine import Engine
from planloop.controllers.task.checking import RunCheck
from planloop.reconciler.clock import Clock, Ids
from planloop.reconciler.effects.processes import Processes
from planloop.schemas.case import CaseSpec
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource


@frozen
class Ground:
    """`folder` is the run's, absolute, `blobs` what is kept there. `engine` is asked for late.

    `witness` tells what an attempt's agent did, `containers` those of the plan that a case was worked in.
    """

    folder: Path
    blobs: Blobs
    compiled: Compiled
    run_check: RunCheck
    processes: Processes
    ids: Ids
    clock: Clock
    witness: Callable[[CaseSpec], Awaitable[Evidence]]
    engine: Callable[[], Engine]
    containers: Callable[[Resource], Sequence[Resource]]
    label: str
    env: Mapping[str, str] = field(default_factory=dict)
