"""A plan without a store: the gate's chain and the fold, on the real plan language."""

from __future__ import annotations

from pathlib import Path

from planloop import compiler
from planloop.app.sources import FolderSources
from planloop.compiler import merging
from planloop.reconciler.admitting import admission, materialising, recording
from planloop.reconciler.admitting.language import Language
from planloop.reconciler.admitting.present import Present
from planloop.reconciler.admitting.recording import Moment, Outcome
from tests.product import Draft, JsonObject, MemoryView, Patch, Record, SetStatus
from tests.reconciler.plans import CountedIds


class Imagined:
    """The chain and the fold without a store, on the real plan language: a thousand patches a second."""

    def __init__(self, folder: Path, filed: JsonObject) -> None:
        self.view = MemoryView()
        self._folder = folder
        self._filed = filed
        self._ids = CountedIds()
        self._language = Language(self._check, merging.merge, compiler.change_class)

    def _check(self, document: JsonObject) -> compiler.Checked:
        return compiler.check_document(document, sources=FolderSources(self._folder))

    @property
    def present(self) -> Present:
        plan = self.view.get("plan/p")
        return Present("plan/p", plan, self._filed if plan is not None else {}, self.view.rev)

    @property
    def document(self) -> JsonObject:
        return self.present.document

    @property
    def specs(self) -> dict[str, JsonObject]:
        return {one.address: one.spec for kind in ("task", "agent") for one in self.view.list(kind)}

    def status(self, address: str, merge: JsonObject) -> None:
        """What a controller would have written of the object at `address`, if there is one."""
        if (found := self.view.get(address)) is not None:
            draft = Draft("object.updated", "controller:plan", address, (SetStatus(address, found.uid, merge),))
            self.view.fold(Record(self.view.rev + 1, 0.0, 1, draft))

    def answer(self, patch: Patch) -> admission.Admission:
        """What the gate would say; nothing is written."""
        return admission.admit(patch, self.present, self.view, self._language)

    def faults(self, patch: Patch) -> tuple[str, ...]:
        """What is wrong with a patch, in words; nothing is written."""
        return tuple(one.message for one in admission.admit(patch, self.present, self.view, self._language).faults)

    def submit(self, patch: Patch) -> bool:
        """Whether the patch was taken; then it is folded in."""
        now = self.present
        answer = admission.admit(patch, now, self.view, self._language)
        if answer.faults or answer.hold or answer.graph is None:
            return False
        made = materialising.materialise(answer.graph.objects, self.view, "plan/p", self._ids.mint)
        outcome = Outcome(made, Moment(now.rev + 1, 0.0), str(now.uid or "plan"), self.view)
        self.view.fold(Record(now.rev + 1, 0.0, 1, recording.accepted(patch, now, answer, outcome)))
        return True
