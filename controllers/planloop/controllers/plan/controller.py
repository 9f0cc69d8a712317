"""The plan controller: creates pending objects and writes the state of the plan as a whole."""

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
    """Reconciles `plan/<name>`. `check` is the compiler's: document to wanted objects."""

    kind = "plan"

    def __init__(self, store: Store, check: CheckDocument, *, clock: Clock, ids: Ids, work: WorkPlane) -> None:
        self._store = store
        self._check = check
        self._clock = clock
        self._ids = ids
        self._work = work
        # The gate writes a document and its objects in one record, so a whole comparison is due only once per
        # process, in case a library file changed while nobody ran, and not at all once the gate has written one:
        # it compiled the whole. Forgetting this costs time, never correctness.
        self._is_compared = False
        self._models = ""
        store.on_change(self._heard)

    async def reconcile(self, address: Address) -> Outcome:
        """One step: what is pending is put, then the status is brought up to date."""
        seen = observe_plan(self._store.view, str(address))
        if seen is None:
            return Done()
        made, faults = self._made(seen)
        status = decide.plan_status(seen, faults, self._clock.now())
        if made is not None:
            status["pending"] = list(made.pending)
        changes = self._changes(seen, made, status)
        if changes:
            type_ = "object.updated" if made is not None and made.changes else "plan.condition"
            data: JsonObject = {"state": status["state"]}
            draft = RecordDraft(type_, ACTOR, str(address), changes, data)
            await self._store.append(draft, {str(address): seen.plan.rev})
        self._tell_of_models(seen.plan)
        return Done()

    def _heard(self, record: Record, changed: Sequence[str]) -> None:
        del changed
        if record.draft.type == PATCHED:
            plan = self._store.view.get(record.draft.subject)
            self._is_compared = plan is not None and not _fault_of(plan)

    def _tell_of_models(self, plan: Resource) -> None:
        """Agents that could ask no model look again when the plan says something else of models."""
        models = models_digest(plan.spec)
        if models == self._models:
            return
        self._models = models
        for agent in self._store.view.list("agent"):
            if not WITHOUT_MODEL.isdisjoint(agent.status.get("conditions", {})):
                self._work.poke(agent.address)

    def _made(self, seen: ObservedPlan) -> tuple[ObjectChanges | None, str]:
        """The changes that are due, None when nothing is; and the faults of the document, if it has any by now."""
        if self._is_compared and not seen.freed:
            return None, _fault_of(seen.plan)
        self._is_compared = True
        checked = self._check(seen.plan.spec)
        if checked.graph is None:
            return None, "; ".join(one.summary for one in checked.diagnostics if one.severity == "error")
        wanted, moved = checked.graph.objects, current_plan.declared_moves(seen.plan.spec)
        made = object_changes.object_changes(wanted, self._store.view, seen.plan.address, self._ids.mint, moved)
        return made, ""

    def _changes(self, seen: ObservedPlan, made: ObjectChanges | None, status: JsonObject) -> tuple[Change, ...]:
        changes: list[Change] = [*(made.changes if made is not None else ())]
        changes += [Drop(one.address, one.uid) for one in seen.orphans]
        if json_patch.diff_values(seen.plan.status, json_patch.merge_values(seen.plan.status, status)):
            changes.append(SetStatus(seen.plan.address, seen.plan.uid, status))
        return tuple(changes)


def _fault_of(plan: Resource) -> str:
    """What was wrong with its document when it was last compared, empty when nothing was."""
    told = plan.status.get("conditions", {}).get("DocumentInvalid") or {}
    return str(told.get("message", "")) if told.get("status") == "True" else ""
