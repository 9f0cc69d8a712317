"""The product's reconcilers for a simulation, as `planloop/wiring.py` builds them for real."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import compiler
from controllers.agent import AgentReconciler, World
from controllers.agent.conflicts import ConflictReconciler
from controllers.agent.models.port import Models, NoModels
from controllers.hook import HookReconciler
from controllers.lock import LockReconciler
from controllers.plan import PlanReconciler
from controllers.task import Surroundings, TaskController
from planloop.background import Background
from planloop.sources import FolderSources
from reconciler.admitting.gate import Gate
from reconciler.clock import Clock, Ids
from reconciler.contract import Reconciler
from reconciler.driving.working import WorkPlane
from reconciler.effects.processes import Processes
from reconciler.storing.store import Store

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
