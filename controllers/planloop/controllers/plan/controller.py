"""Reconcile the plan object: create pending objects, and write the state and conditions of the plan."""

from __future__ import annotations

from collections.abc import Sequence

from planloop.controllers.plan import decide
from planloop.controllers.plan.decide import ObservedPlan, observe_plan
from planloop.reconciler import current_plan
from planloop.reconciler.admission import object_changes
from planloop.reconciler.admission.object_changes import ObjectChanges
from planloop.reconciler.clock import Clock, Ids
from planloop.reconciler.engine.reconcile import Done, Outcome
from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.reconciler.plan_language_port import CheckDocument
from planloop.reconciler.store.store import Store
from planloop.schemas import json_patch
from planloop.schemas.address import Address
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.log.record import Change, Drop, Record, RecordDraft, SetStatus
from planloop.schemas.objects.agent import WITHOUT_MODEL
from planloop.schemas.objects.model import models_digest
from planloop.schemas.resource import Resource

ACTOR = "controller:plan"
PATCHED = "plan.patched"


class PlanReconciler:
    """The `Reconciler` of `plan/<name>`. `check` compiles a document into the desired objects."""

    kind = "plan"

    def __init__(self, store: Store, check: CheckDocument, *, clock: Clock, ids: Ids, work: WorkPlane) -> None:
        self._store = store
        self._check = check
        self._clock = clock
        self._ids = ids
        self._work = work
        # The gate writes a document and its objects in one record, so one full comparison per process is enough: a
        # library file may have changed while no owner was running. After the gate has written a document, none is
        # needed. Losing this flag costs time, never correctness.
        self._is_compared = False
        self._models = ""
        store.on_change(self._note_patch)

    async def reconcile(self, address: Address) -> Outcome:
        """Create pending objects, then update the status."""
        seen = observe_plan(self._store.view, str(address))
        if seen is None:
            return Done()
        due, errors = self._due_changes(seen)
        status = decide.plan_status(seen, errors, self._clock.now())
        if due is not None:
            status["pending"] = list(due.pending)
        changes = self._changes(seen, due, status)
        if changes:
            type_ = "object.updated" if due is not None and due.changes else "plan.condition"
            data: JsonObject = {"state": status["state"]}
            draft = RecordDraft(type_, ACTOR, str(address), changes, data)
            await self._store.append(draft, {str(address): seen.plan.rev})
        self._wake_agents_without_model(seen.plan)
        return Done()

    def _note_patch(self, record: Record, changed: Sequence[str]) -> None:
        del changed
        if record.draft.type == PATCHED:
            plan = self._store.view.get(record.draft.subject)
            self._is_compared = plan is not None and not _document_errors(plan)

    def _wake_agents_without_model(self, plan: Resource) -> None:
        """Wake the agents that have no usable model when the plan's models change."""
        models = models_digest(plan.spec)
        if models == self._models:
            return
        self._models = models
        for agent in self._store.view.list("agent"):
            if not WITHOUT_MODEL.isdisjoint(agent.status.get("conditions", {})):
                self._work.poke(agent.address)

    def _due_changes(self, seen: ObservedPlan) -> tuple[ObjectChanges | None, str]:
        """Return the changes of objects that are due (None: none), and the errors of the document."""
        if self._is_compared and not seen.freed:
            return None, _document_errors(seen.plan)
        self._is_compared = True
        checked = self._check(seen.plan.spec)
        if checked.graph is None:
            return None, "; ".join(one.summary for one in checked.diagnostics if one.severity == "error")
        wanted, moved = checked.graph.objects, current_plan.declared_moves(seen.plan.spec)
        due = object_changes.object_changes(wanted, self._store.view, seen.plan.address, self._ids.mint, moved)
        return due, ""

    def _changes(self, seen: ObservedPlan, due: ObjectChanges | None, status: JsonObject) -> tuple[Change, ...]:
        changes: list[Change] = [*(due.changes if due is not None else ())]
        changes += [Drop(one.address, one.uid) for one in seen.orphans]
        if json_patch.diff_values(seen.plan.status, json_patch.merge_values(seen.plan.status, status)):
            changes.append(SetStatus(seen.plan.address, seen.plan.uid, status))
        return tuple(changes)


def _document_errors(plan: Resource) -> str:
    """Return the errors of the plan's document at the last comparison; empty if there were none."""
    invalid = plan.status.get("conditions", {}).get("DocumentInvalid") or {}
    return str(invalid.get("message", "")) if invalid.get("status") == "True" else ""
