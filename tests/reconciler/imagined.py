"""A plan without a store: the gate's chain and the fold, on the real plan language."""

from __future__ import annotations

from pathlib import Path

from planloop.client.plan_sources import FolderSources
from planloop.compiler import graph, merge, plan_compiler
from planloop.reconciler.admission import admit, object_changes, records
from planloop.reconciler.admission.records import AcceptedOutcome, RecordTime
from planloop.reconciler.current_plan import CurrentPlan
from planloop.reconciler.plan_language_port import PlanLanguage
from planloop.schemas.spec import tables
from tests.product import JsonObject, MemoryView, Patch, Record, RecordDraft, SetStatus
from tests.reconciler.plans import CountedIds


class Imagined:
    """The chain and the fold without a store, on the real plan language: a thousand patches a second."""

    def __init__(self, folder: Path, filed: JsonObject) -> None:
        self.view = MemoryView()
        self._folder = folder
        self._filed = filed
        self._ids = CountedIds()
        self._language = PlanLanguage(self._check, merge.merge_documents, tables.change_class)

    def _check(self, document: JsonObject) -> graph.CheckedPlan:
        return plan_compiler.check_document(document, sources=FolderSources(self._folder))

    @property
    def present(self) -> CurrentPlan:
        plan = self.view.get("plan/p")
        return CurrentPlan("plan/p", plan, self._filed if plan is not None else {}, self.view.rev)

    @property
    def document(self) -> JsonObject:
        return self.present.document

    @property
    def specs(self) -> dict[str, JsonObject]:
        return {one.address: one.spec for kind in ("task", "agent") for one in self.view.list(kind)}

    def status(self, address: str, merge: JsonObject) -> None:
        """What a controller would have written of the object at `address`, if there is one."""
        if (found := self.view.get(address)) is not None:
            draft = RecordDraft("object.updated", "controller:plan", address, (SetStatus(address, found.uid, merge),))
            self.view.fold(Record(self.view.rev + 1, 0.0, 1, draft))

    def answer(self, patch: Patch) -> admit.Admission:
        """What the gate would say; nothing is written."""
        return admit.admit_patch(patch, self.present, self.view, self._language)

    def faults(self, patch: Patch) -> tuple[str, ...]:
        """What is wrong with a patch, in words; nothing is written."""
        return tuple(one.message for one in admit.admit_patch(patch, self.present, self.view, self._language).faults)

    def submit(self, patch: Patch) -> bool:
        """Whether the patch was taken; then it is folded in."""
        now = self.present
        answer = admit.admit_patch(patch, now, self.view, self._language)
        if answer.faults or answer.hold or answer.graph is None:
            return False
        made = object_changes.object_changes(answer.graph.objects, self.view, "plan/p", self._ids.mint)
        outcome = AcceptedOutcome(made, RecordTime(now.rev + 1, 0.0), str(now.uid or "plan"), self.view)
        self.view.fold(Record(now.rev + 1, 0.0, 1, records.accepted_draft(patch, now, answer, outcome)))
        return True
