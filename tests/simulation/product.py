"""The product's reconcilers for a simulation, as `planloop.owner.build` builds them for real."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from planloop.client.plan_sources import FolderSources
from planloop.compiler import plan_compiler
from planloop.controllers.agent.conflicts.controller import ConflictReconciler
from planloop.controllers.agent.controller import AgentReconciler
from planloop.controllers.agent.models.port import ModelClient, NoModelClient
from planloop.controllers.agent.services import AgentServices, DeciderServices, ProgramSettings
from planloop.controllers.hook.controller import HookReconciler
from planloop.controllers.lock.controller import LockReconciler
from planloop.controllers.plan.controller import PlanReconciler
from planloop.controllers.task.controller import TaskReconciler
from planloop.controllers.task.run_environment import RunEnvironment
from planloop.owner.lazy import BackgroundJobs
from planloop.reconciler.admission.gate import PlanGate
from planloop.reconciler.clock import Clock, Ids
from planloop.reconciler.effects.processes import Processes
from planloop.reconciler.engine.reconcile import Reconciler
from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.reconciler.store.store import Store

ENV = {"PATH": "/usr/bin:/bin"}


@dataclass(frozen=True, slots=True)
class Parts:
    """What an owner has to build reconcilers from. `plan` is the plan's address, `epoch` the owner's number."""

    plan: str
    folder: Path
    store: Store
    gate: PlanGate
    processes: Processes
    work: WorkPlane
    clock: Clock
    ids: Ids
    epoch: int = 0
    background: BackgroundJobs = field(default_factory=BackgroundJobs)


def product(parts: Parts, models: ModelClient | None = None) -> Sequence[Reconciler]:
    """Task, agent, lock and plan. `models` None: agents that need one cannot ask it."""
    sources = FolderSources(parts.folder)
    name = parts.plan.partition("/")[2]
    world = AgentServices(
        parts.store,
        parts.clock,
        parts.ids,
        parts.work,
        parts.gate,
        parts.plan,
        parts.folder,
        ProgramSettings(parts.processes, ENV, sys.executable),
        DeciderServices(models or NoModelClient()),
    )
    surroundings = RunEnvironment(name, parts.folder, ENV)
    return [
        TaskReconciler(parts.store, parts.work, parts.processes, parts.clock, parts.ids, surroundings),
        AgentReconciler(world),
        ConflictReconciler(parts.store, parts.clock, parts.gate),
        LockReconciler(parts.store, parts.clock, parts.work),
        HookReconciler(parts.store, parts.clock),
        PlanReconciler(
            parts.store,
            lambda document: plan_compiler.check_document(document, sources=sources),
            clock=parts.clock,
            ids=parts.ids,
            work=parts.work,
        ),
    ]
