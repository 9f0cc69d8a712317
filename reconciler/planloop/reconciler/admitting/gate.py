"""The one gate: every change of the plan document, whoever asks, passes here and is recorded, refusals included.

From reading the present to proposing the record nothing awaits, so submissions are serial and each sees all before it;
`submit` returns when its record is durable. The gate alone writes `plan/<name>`'s document, stamps and file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from planloop.reconciler.admitting import admission, approving, granting, materialising, present, recording
from planloop.reconciler.admitting.admission import Admission
from planloop.reconciler.admitting.approving import Answer
from planloop.reconciler.admitting.language import Language
from planloop.reconciler.admitting.materialising import Materialised
from planloop.reconciler.admitting.present import Present, PresentReader
from planloop.reconciler.clock import Clock, Ids
from planloop.reconciler.editing import filing, history, keeping, previewing
from planloop.reconciler.editing.filing import FileSave
from planloop.reconciler.editing.previewing import Decision, Preview, SavedPreview
from planloop.reconciler.errors import Terminal
from planloop.reconciler.storing.store import Store
from planloop.schemas.approval import APPROVED, REJECTED
from planloop.schemas.encoding import JsonObject
from planloop.schemas.patch import Accepted, Author, Fault, Held, Patch, Refused, Verdict
from planloop.schemas.record import Also, Change, Draft
from planloop.schemas.resource import Resource

_Ruling: TypeAlias = tuple[tuple[Change, ...], tuple[Also, ...]]
"""What goes into the record of a patch beside it."""


class Gate:
    """Admits patches to one plan. `plan` is its name; the object is `plan/<name>`."""

    def __init__(self, store: Store, plan: str, *, ids: Ids, clock: Clock, language: Language) -> None:
        self._store = store
        self._address = f"plan/{plan}"
        self._ids = ids
        self._clock = clock
        self._language = language
        self._reader = PresentReader(store, self._address)

    @property
    def present(self) -> Present:
        """The plan as it stands."""
        return self._reader.read()

    def preview(self, patch: Patch) -> Preview:
        """What `submit` would say and do now."""
        now = self.present
        return self._preview(patch, now, self._admit(patch, now))

    def preview_file(self, save: FileSave) -> Preview:
        """What `submit_file` would say and do now."""
        now = self.present
        if filing.is_held_back(save, now):
            return previewing.of_nothing(now, filing.HELD_BACK)
        patch, answer = self._admit_file(save, now)
        return self._preview(patch, now, answer)

    async def submit(self, patch: Patch) -> Verdict:
        """Admits `patch`, or refuses or holds it; in each case returns when that is durable."""
        return (await self.decide(patch)).verdict

    async def decide(self, patch: Patch) -> Decision:
        """`submit`, with the preview that it acted on."""
        now = self.present
        if patch.author.kind == "agent":
            patch = replace(patch, is_approved=False)  # Only people let a hold pass; see `approve`.
        return await self._decide(patch, now, self._admit(patch, now))

    async def submit_file(self, save: FileSave) -> Verdict:
        """Applies a saved file as one patch by `human:file`: its changes since it was last applied, on top of live."""
        return (await self.decide_file(save)).verdict

    async def decide_file(self, save: FileSave) -> Decision:
        """`submit_file`, with the preview that it acted on."""
        now = self.present
        if filing.is_held_back(save, now):
            nothing = previewing.of_nothing(now, filing.HELD_BACK)
            return Decision(Accepted(now.document_rev, nothing.notes), nothing)
        self._keep(filing.blobs(save, now))
        patch, answer = self._admit_file(save, now)
        return await self._decide(patch, now, answer)

    def save_preview(self, save: FileSave) -> JsonObject:
        """`preview_file` in the form that `submit_saved` takes, as JSON."""
        return previewing.to_json(self.preview_file(save), filing.blobs(save, self.present))

    async def submit_saved(self, saved: SavedPreview, *, is_approved: bool = False) -> Verdict:
        """Submits exactly what a saved preview showed; refused as stale when the document has changed since."""
        now = self.present
        patch = replace(saved.patch, base_rev=now.rev, is_approved=is_approved)
        stale = previewing.stale_faults(saved, now)
        if stale:
            return await self._commit(patch, now, Admission(patch.ops, now.document, faults=stale))
        self._keep(saved.blobs)
        return await self._commit(patch, now, self._admit(patch, now))

    async def approve(self, address: str, by: Author, reason: str = "", content: JsonObject | None = None) -> Verdict:
        """Says yes to what waits at `address`, or to the end of the hook there.

        A patch is admitted again on the present plan; stale ones are refused.

        `content` is the answer to a question.

        Raises errors.Terminal when nothing waits there, and for an answer to what asks no question.
        """
        hook = self._store.view.get(address) if address.startswith("hook/") else None
        if hook is not None:
            return Accepted(await self._append(approving.ended(hook, by, reason), self.present))
        now, approval = self.present, approving.waiting(self._store.view, address)
        if content is not None and approval.spec.get("kind") != "input":
            raise Terminal("NoQuestion", f"{address} asks no question that `{', '.join(content)}` could answer")
        yes = Answer(APPROVED, by, reason, content)
        if approving.is_of_request(approval):
            return await self._grant(approval, yes, now)
        if not approving.is_of_patch(approval):
            return Accepted(await self._append(approving.answered(approval, yes, self._address), now))
        patch = approving.rebased(approval, now)
        stale = tuple(approving.stale_faults(approval, now))
        answer = Admission(patch.ops, now.document, faults=stale) if stale else self._admit(patch, now)
        if answer.faults:
            yes = Answer(REJECTED, by, "; ".join(fault.message for fault in answer.faults))
        return await self._commit(patch, now, answer, settled=(approval, yes))

    async def _grant(self, approval: Resource, yes: Answer, now: Present) -> Verdict:
        """Makes what was asked for the granter's own patch. Refused or held, the request waits as before."""
        patch = granting.patch_of(approval, yes.by, now, self._store.view)
        if patch is None:
            return Accepted(await self._append(approving.answered(approval, yes, self._address), now))
        answer = self._admit(patch, now)
        answer = replace(answer, faults=(*answer.faults, *granting.vain_faults(approval, answer)))
        is_refused = answer.faults or admission.stops(answer, self._language)
        return await self._commit(patch, now, answer, settled=None if is_refused else (approval, yes))

    async def rule(self, patch: Patch, changes: Sequence[Change], also: Sequence[Also]) -> Verdict:
        """`submit`, with `changes` and `also` in the record if the patch is accepted: all of it, or nothing.

        For a ruling, which is a patch and what takes effect with it. The caller has read the view it was computed from
        and awaited nothing since. What would be held is refused: later, the rest of the ruling would be of another day.
        """
        now = self.present
        answer = self._admit(patch, now)
        if answer.hold:
            words = f"a ruling takes effect at once, and this one would wait for a person's yes: {answer.hold}"
            fault = Fault(
                "protect", words, hint="rule otherwise, or leave it: without an answer it comes before a person"
            )
            answer = replace(answer, hold="", faults=(*answer.faults, fault))
        return await self._commit(patch, now, answer, ruling=(tuple(changes), tuple(also)))

    async def reject(self, address: str, by: Author, reason: str = "") -> int:
        """Says no to what waits at `address`; returns the revision. Raises errors.Terminal when nothing does."""
        approval = approving.waiting(self._store.view, address)
        return await self._append(
            approving.answered(approval, Answer(REJECTED, by, reason), self._address), self.present
        )

    async def roll_back(self, rev: int, by: Author, reason: str = "", *, is_approved: bool = False) -> Verdict:
        """Brings back the document of revision `rev` as a new one, and holds the file's present content back.

        Raises errors.Terminal when there was no plan at `rev`.
        """
        past = await self._past(rev)
        now = self.present
        patch = replace(history.rollback_patch(now, past, by, reason), is_approved=is_approved)
        return await self._commit(patch, now, self._admit(patch, now))

    async def preview_roll_back(self, rev: int, by: Author) -> Preview:
        """What `roll_back` would say and do now. Raises errors.Terminal as it does."""
        past = await self._past(rev)
        return self.preview(history.rollback_patch(self.present, past, by, ""))

    async def _past(self, rev: int) -> Resource:
        past = await history.plan_at(self._store, self._address, rev)
        if past is None or rev > self._store.view.rev:
            raise Terminal("NotFound", f"there is no plan at revision {rev}; `plan history` lists them")
        return past

    async def report_file(self, path: str, faults: str) -> int:
        """Says in the plan's conditions that the file at `path` cannot be applied; live stays as it is.

        `faults` is the text for people. Returns the revision, the present one when that was said already.
        """
        now = self.present
        draft = recording.file_invalid(now, path, faults, self._clock.now())
        return now.rev if draft is None else await self._append(draft, now)

    def _preview(self, patch: Patch, now: Present, answer: Admission) -> Preview:
        return replace(previewing.of_admission(patch, now, answer), stops=admission.stops(answer, self._language))

    def _admit_file(self, save: FileSave, now: Present) -> tuple[Patch, Admission]:
        wanted = filing.merged(save, now, self._language.merge)
        kept = keeping.keep_protected(now.document, wanted.document)
        patch = filing.patch_of(save, now, kept.document)
        language = replace(self._language, check=filing.checking(save, self._language.check))
        answer = admission.admit(patch, now, self._store.view, language)
        return patch, replace(answer, notes=(*wanted.notes, *kept.notes, *answer.notes))

    def _admit(self, patch: Patch, now: Present) -> Admission:
        return admission.admit(patch, now, self._store.view, self._language)

    async def _decide(self, patch: Patch, now: Present, answer: Admission) -> Decision:
        # The preview is taken first: it says what the differences were to, and the commit changes that.
        preview = previewing.of_admission(patch, now, answer)
        return Decision(await self._commit(patch, now, answer), preview)

    async def _commit(
        self,
        patch: Patch,
        now: Present,
        answer: Admission,
        settled: tuple[Resource, Answer] | None = None,
        ruling: _Ruling | None = None,
    ) -> Verdict:
        answer = replace(answer, faults=(*answer.faults, *admission.stops(answer, self._language)))
        if answer.faults:
            draft = recording.refused(patch, now, answer, self._clock.now())
            return Refused(await self._append(_settling(draft, settled), now), answer.faults)
        if answer.hold:
            return await self._hold(patch, now, answer)
        made = self._made(answer)
        is_answer = settled is not None or ruling is not None
        is_told = answer.ops or made.changes or is_answer or recording.is_new_file(patch, now)
        if not is_told:
            return Accepted(now.document_rev, answer.notes)
        moment = recording.Moment(now.rev + 1, self._clock.now())
        uid = str(now.uid or self._ids.mint())
        draft = recording.accepted(patch, now, answer, recording.Outcome(made, moment, uid, self._store.view))
        if ruling is not None:
            draft = replace(draft, changes=(*draft.changes, *ruling[0]), also=(*draft.also, *ruling[1]))
        return Accepted(await self._append(_settling(draft, settled), now), answer.notes)

    def _made(self, answer: Admission) -> Materialised:
        assert answer.graph is not None, "an admission without faults has a graph"
        moved = present.moves_of(answer.document)
        return materialising.materialise(answer.graph.objects, self._store.view, self._address, self._ids.mint, moved)

    def _keep(self, blobs: tuple[bytes, ...]) -> None:
        for blob in blobs:
            self._store.put_blob(blob)

    async def _hold(self, patch: Patch, now: Present, answer: Admission) -> Held:
        waiting = recording.same_held(patch, answer, self._store.view)
        if waiting is not None:
            return Held(waiting.rev, waiting.address, answer.hold)
        approval = f"approval/{self._ids.mint()}"
        draft = recording.held(patch, now, answer, approval, self._store.view)
        return Held(await self._append(draft, now), approval, answer.hold)

    async def _append(self, draft: Draft, now: Present) -> int:
        expect = {self._address: None if now.plan is None else now.plan.rev}
        rev = self._store.propose(draft, expect)
        assert rev == now.rev + 1, "nothing awaits between reading the present and proposing"
        await self._store.flush(rev)
        return rev


def _settling(draft: Draft, settled: tuple[Resource, Answer] | None) -> Draft:
    if settled is None:
        return draft
    approval, answer = settled
    told = {"approval": approval.address, "by": str(answer.by), "reason": answer.reason}
    return replace(
        draft,
        changes=(*draft.changes, *approving.settling(approval, answer)),
        data=draft.data | {answer.state: told},
        cause=approval.created_rev,
    )
