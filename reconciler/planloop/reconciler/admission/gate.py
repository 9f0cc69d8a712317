"""The gate: admits and records every change of the plan, including rejections.

There is no await between reading the current plan and proposing the record, so submissions are serial and each sees all
earlier ones. `submit` returns when its record is durable. Only the gate writes the document, stamps and file of
`plan/<name>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from planloop.reconciler import current_plan
from planloop.reconciler.admission import admit, approvals, history, object_changes, records
from planloop.reconciler.admission import preview as admission_preview
from planloop.reconciler.admission.admit import Admission
from planloop.reconciler.admission.approvals import ApprovalAnswer
from planloop.reconciler.admission.object_changes import ObjectChanges
from planloop.reconciler.admission.preview import PatchDecision, PatchPreview, StoredPreview
from planloop.reconciler.clock import Clock, Ids
from planloop.reconciler.current_plan import CurrentPlan, CurrentPlanReader
from planloop.reconciler.diff import file_patch
from planloop.reconciler.diff.file_patch import FileSave
from planloop.reconciler.errors import TerminalError
from planloop.reconciler.plan_language_port import PlanLanguage
from planloop.reconciler.store.store import Store
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.log.patch import Author, Patch, PatchAccepted, PatchHeld, PatchProblem, PatchRefused, PatchVerdict
from planloop.schemas.log.record import Change, RecordDraft, SubRecord
from planloop.schemas.objects.approval import APPROVED, REJECTED
from planloop.schemas.resource import Resource

_Ruling: TypeAlias = tuple[tuple[Change, ...], tuple[SubRecord, ...]]
"""Additional parts of the record of a patch."""


class PlanGate:
    """Admits patches to one plan. `plan` is its name; the object is `plan/<name>`."""

    def __init__(self, store: Store, plan: str, *, ids: Ids, clock: Clock, language: PlanLanguage) -> None:
        self._store = store
        self._address = f"plan/{plan}"
        self._ids = ids
        self._clock = clock
        self._language = language
        self._reader = CurrentPlanReader(store, self._address)

    @property
    def present(self) -> CurrentPlan:
        """The current plan."""
        return self._reader.read()

    def preview(self, patch: Patch) -> PatchPreview:
        """Return what `submit` would do now."""
        now = self.present
        return self._preview(patch, now, self._admit(patch, now))

    def preview_file(self, save: FileSave) -> PatchPreview:
        """Return what `submit_file` would do now."""
        now = self.present
        if file_patch.is_held_back(save, now):
            return admission_preview.preview_no_change(now, file_patch.HELD_BACK)
        patch, answer = self._admit_file(save, now)
        return self._preview(patch, now, answer)

    async def submit(self, patch: Patch) -> PatchVerdict:
        """Accept, reject or hold `patch`; return when the record is durable."""
        return (await self.decide(patch)).verdict

    async def decide(self, patch: Patch) -> PatchDecision:
        """Like `submit`; also returns the preview that it was based on."""
        now = self.present
        if patch.author.kind == "agent":
            patch = replace(patch, is_approved=False)  # Only people can approve a held patch; see `approve`.
        return await self._decide(patch, now, self._admit(patch, now))

    async def submit_file(self, save: FileSave) -> PatchVerdict:
        """Apply the changes of a saved file since its last apply to the live plan, as one patch by `human:file`."""
        return (await self.decide_file(save)).verdict

    async def decide_file(self, save: FileSave) -> PatchDecision:
        """Like `submit_file`; also returns the preview that it was based on."""
        now = self.present
        if file_patch.is_held_back(save, now):
            nothing = admission_preview.preview_no_change(now, file_patch.HELD_BACK)
            return PatchDecision(PatchAccepted(now.document_rev, nothing.notes), nothing)
        self._keep(file_patch.file_blobs(save, now))
        patch, answer = self._admit_file(save, now)
        return await self._decide(patch, now, answer)

    def save_preview(self, save: FileSave) -> JsonObject:
        """Return `preview_file` as JSON, in the form for `submit_saved`."""
        return admission_preview.preview_to_json(self.preview_file(save), file_patch.file_blobs(save, self.present))

    async def submit_saved(self, saved: StoredPreview, *, is_approved: bool = False) -> PatchVerdict:
        """Submit exactly what a saved preview showed. Rejected as stale if the document has changed since."""
        now = self.present
        patch = replace(saved.patch, base_rev=now.rev, is_approved=is_approved)
        stale = admission_preview.stale_preview_faults(saved, now)
        if stale:
            return await self._commit(patch, now, Admission(patch.ops, now.document, faults=stale))
        self._keep(saved.blobs)
        return await self._commit(patch, now, self._admit(patch, now))

    async def approve(
        self, address: str, by: Author, reason: str = "", content: JsonObject | None = None
    ) -> PatchVerdict:
        """Approve the pending approval at `address`, or the end of the hook there.

        A held patch is admitted again on the current plan; a stale one is rejected. `content` is the answer to a
        question.

        Raises TerminalError if nothing is pending there, or `content` is given without a question.
        """
        hook = self._store.view.get(address) if address.startswith("hook/") else None
        if hook is not None:
            return PatchAccepted(await self._append(approvals.hook_end_draft(hook, by, reason), self.present))
        now, approval = self.present, approvals.pending_approval(self._store.view, address)
        if content is not None and approval.spec.get("kind") != "input":
            raise TerminalError("NoQuestion", f"{address} does not ask for `{', '.join(content)}`")
        yes = ApprovalAnswer(APPROVED, by, reason, content)
        if approvals.is_for_request(approval):
            return await self._grant(approval, yes, now)
        if not approvals.is_for_patch(approval):
            return PatchAccepted(await self._append(approvals.answer_draft(approval, yes, self._address), now))
        patch = approvals.rebase_held_patch(approval, now)
        stale = tuple(approvals.held_patch_faults(approval, now))
        answer = Admission(patch.ops, now.document, faults=stale) if stale else self._admit(patch, now)
        if answer.faults:
            yes = ApprovalAnswer(REJECTED, by, "; ".join(fault.message for fault in answer.faults))
        return await self._commit(patch, now, answer, settled=(approval, yes))

    async def _grant(self, approval: Resource, yes: ApprovalAnswer, now: CurrentPlan) -> PatchVerdict:
        """Submit the granting patch in the name of the granter. If it is rejected or held, the request stays
        pending."""
        patch = approvals.grant_patch(approval, yes.by, now, self._store.view)
        if patch is None:
            return PatchAccepted(await self._append(approvals.answer_draft(approval, yes, self._address), now))
        answer = self._admit(patch, now)
        answer = replace(answer, faults=(*answer.faults, *approvals.useless_grant_faults(approval, answer)))
        is_refused = answer.faults or admit.blocking_warnings(answer, self._language)
        return await self._commit(patch, now, answer, settled=None if is_refused else (approval, yes))

    async def rule(self, patch: Patch, changes: Sequence[Change], also: Sequence[SubRecord]) -> PatchVerdict:
        """Like `submit`, with `changes` and `also` in the same record if the patch is accepted.

        For resolutions, which are a patch with other changes. The caller must not have awaited since it read the view.
        A patch that would be held is rejected: when it is approved later, the other changes would be outdated.
        """
        now = self.present
        answer = self._admit(patch, now)
        if answer.hold:
            words = f"a resolution must take effect immediately, but this one needs approval by a person: {answer.hold}"
            fault = PatchProblem(
                "protect", words, hint="choose another resolution, or do not answer: the conflict then goes to a person"
            )
            answer = replace(answer, hold="", faults=(*answer.faults, fault))
        return await self._commit(patch, now, answer, ruling=(tuple(changes), tuple(also)))

    async def reject(self, address: str, by: Author, reason: str = "") -> int:
        """Reject the pending approval at `address`; return the revision. Raises TerminalError if nothing is pending."""
        approval = approvals.pending_approval(self._store.view, address)
        return await self._append(
            approvals.answer_draft(approval, ApprovalAnswer(REJECTED, by, reason), self._address), self.present
        )

    async def roll_back(self, rev: int, by: Author, reason: str = "", *, is_approved: bool = False) -> PatchVerdict:
        """Restore the document of revision `rev` as a new revision, and do not apply the file until it changes.

        Raises TerminalError if there was no plan at `rev`.
        """
        past = await self._past(rev)
        now = self.present
        patch = replace(history.rollback_patch(now, past, by, reason), is_approved=is_approved)
        return await self._commit(patch, now, self._admit(patch, now))

    async def preview_roll_back(self, rev: int, by: Author) -> PatchPreview:
        """Return what `roll_back` would do now. Raises TerminalError like `roll_back`."""
        past = await self._past(rev)
        return self.preview(history.rollback_patch(self.present, past, by, ""))

    async def _past(self, rev: int) -> Resource:
        past = await history.plan_at(self._store, self._address, rev)
        if past is None or rev > self._store.view.rev:
            raise TerminalError("NotFound", f"no plan at revision {rev}; run `plan history` for a list")
        return past

    async def report_file(self, path: str, faults: str) -> int:
        """Set the plan's condition that the file at `path` is invalid; the live plan does not change.

        `faults` is the text for people. Returns the revision: the current one if the condition was already set.
        """
        now = self.present
        draft = records.file_invalid_draft(now, path, faults, self._clock.now())
        return now.rev if draft is None else await self._append(draft, now)

    def _preview(self, patch: Patch, now: CurrentPlan, answer: Admission) -> PatchPreview:
        return replace(
            admission_preview.preview_admission(patch, now, answer),
            stops=admit.blocking_warnings(answer, self._language),
        )

    def _admit_file(self, save: FileSave, now: CurrentPlan) -> tuple[Patch, Admission]:
        wanted = file_patch.merge_file(save, now, self._language.merge)
        kept = file_patch.keep_protected(now.document, wanted.document)
        patch = file_patch.file_patch(save, now, kept.document)
        language = replace(self._language, check=file_patch.check_unless_compiled(save, self._language.check))
        answer = admit.admit_patch(patch, now, self._store.view, language)
        return patch, replace(answer, notes=(*wanted.notes, *kept.notes, *answer.notes))

    def _admit(self, patch: Patch, now: CurrentPlan) -> Admission:
        return admit.admit_patch(patch, now, self._store.view, self._language)

    async def _decide(self, patch: Patch, now: CurrentPlan, answer: Admission) -> PatchDecision:
        # Before the commit, which changes the view that the differences refer to.
        preview = admission_preview.preview_admission(patch, now, answer)
        return PatchDecision(await self._commit(patch, now, answer), preview)

    async def _commit(
        self,
        patch: Patch,
        now: CurrentPlan,
        answer: Admission,
        settled: tuple[Resource, ApprovalAnswer] | None = None,
        ruling: _Ruling | None = None,
    ) -> PatchVerdict:
        answer = replace(answer, faults=(*answer.faults, *admit.blocking_warnings(answer, self._language)))
        if answer.faults:
            draft = records.rejected_draft(patch, now, answer, self._clock.now())
            return PatchRefused(await self._append(_settling(draft, settled), now), answer.faults)
        if answer.hold:
            return await self._hold(patch, now, answer)
        made = self._made(answer)
        is_answer = settled is not None or ruling is not None
        is_told = answer.ops or made.changes or is_answer or records.is_new_file(patch, now)
        if not is_told:
            return PatchAccepted(now.document_rev, answer.notes)
        moment = records.RecordTime(now.rev + 1, self._clock.now())
        uid = str(now.uid or self._ids.mint())
        draft = records.accepted_draft(patch, now, answer, records.AcceptedOutcome(made, moment, uid, self._store.view))
        if ruling is not None:
            draft = replace(draft, changes=(*draft.changes, *ruling[0]), also=(*draft.also, *ruling[1]))
        return PatchAccepted(await self._append(_settling(draft, settled), now), answer.notes)

    def _made(self, answer: Admission) -> ObjectChanges:
        assert answer.graph is not None, "an admission without faults has a graph"
        moved = current_plan.declared_moves(answer.document)
        return object_changes.object_changes(
            answer.graph.objects, self._store.view, self._address, self._ids.mint, moved
        )

    def _keep(self, blobs: tuple[bytes, ...]) -> None:
        for blob in blobs:
            self._store.put_blob(blob)

    async def _hold(self, patch: Patch, now: CurrentPlan, answer: Admission) -> PatchHeld:
        waiting = records.pending_same_patch(patch, answer, self._store.view)
        if waiting is not None:
            return PatchHeld(waiting.rev, waiting.address, answer.hold)
        approval = f"approval/{self._ids.mint()}"
        draft = records.held_draft(patch, now, answer, approval, self._store.view)
        return PatchHeld(await self._append(draft, now), approval, answer.hold)

    async def _append(self, draft: RecordDraft, now: CurrentPlan) -> int:
        expect = {self._address: None if now.plan is None else now.plan.rev}
        rev = self._store.propose(draft, expect)
        assert rev == now.rev + 1, "nothing awaits between reading the present and proposing"
        await self._store.flush(rev)
        return rev


def _settling(draft: RecordDraft, settled: tuple[Resource, ApprovalAnswer] | None) -> RecordDraft:
    if settled is None:
        return draft
    approval, answer = settled
    told = {"approval": approval.address, "by": str(answer.by), "reason": answer.reason}
    return replace(
        draft,
        changes=(*draft.changes, *approvals.answer_changes(approval, answer)),
        data=draft.data | {answer.state: told},
        cause=approval.created_rev,
    )
