"""The product's reconcilers for a simulation, as `planloop.app.wiring` builds them for real."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from planloop import compiler
from planloop.app.background import Background
from planloop.app.sources import FolderSources
from planloop.controllers.agent import AgentReconciler, World
from planloop.controllers.agent.conflicts import ConflictReconciler
from planloop.controllers.agent.models.port import Models, NoModels
from planloop.controllers.hook import HookReconciler
from planloop.controllers.lock import LockReconciler
from planloop.controllers.plan import PlanReconciler
from planloop.controllers.task import Surroundings, TaskController
from planloop.reconciler.admitting.gate import Gate
from planloop.reconciler.clock import Clock, Ids
from planloop.reconciler.contract import Reconciler
from planloop.reconciler.driving.working import WorkPlane
from planloop.reconciler.effects.processes import Processes
from planloop.reconciler.storing.store import Store

ENV = {"PATH": "/usr/bin:/bin"}


@dataclass(frozen=True, slots=True)
class Parts:
    """What an owner has to build reconcilers from. `plan` is the plan's address, `epoch` the owner's number."""

    plan: str
    folder: Path
    store: Store
    gate: Gate
    processes: Processes
    work: WorkPlane
    clock: Clock
    ids: Ids
    epoch: int = 0
    background: Background = field(default_factory=Background)


def product(parts: Parts, models: Models | None = None) -> Sequence[Reconciler]:
    """Task, agent, lock and plan. `models` None: agents that need one cannot ask it."""
    sources = FolderSources(parts.folder)
    name = parts.plan.partition("/")[2]
    world = World(
        parts.store,
        parts.clock,
        parts.ids,
        parts.processes,
        parts.work,
        parts.gate,
        parts.plan,
        parts.folder,
        ENV,
        sys.executable,
        models=models or NoModels(),
    )
    surroundings = Surroundings(name, parts.folder, ENV)
    return [
        TaskController(parts.store, parts.work, parts.processes, parts.clock, parts.ids, surroundings),
        AgentReconciler(world),
        ConflictReconciler(parts.store, parts.clock, parts.gate),
        LockReconciler(parts.store, parts.clock, parts.work),
        HookReconciler(parts.store, parts.clock),
        PlanReconciler(
            parts.store,
            lambda document: compiler.check_document(document, sources=sources),
            clock=parts.clock,
            ids=parts.ids,
            work=parts.work,
        ),
    ]
