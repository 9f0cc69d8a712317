"""The one gate: every change of the plan document, whoever asks, passes here and is recorded, refusals included.

From reading the present to proposing the record nothing awaits, so submissions are serial and each sees all before it;
`submit` returns when its record is durable. The gate alone writes `plan/<name>`'s document, stamps and file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from reconciler import admission, filing, keeping, materialising, present, recording
from reconciler.admission import Admission
from reconciler.clock import Clock, Ids
from reconciler.diffing import Difference
from reconciler.filing import FileSave
from reconciler.language import Language
from reconciler.present import Present
from reconciler.store import Store
from schemas.diagnostic import Diagnostic
from schemas.encoding import JsonObject
from schemas.patch import Accepted, Fault, Held, Patch, Refused, Verdict
from schemas.patching import Op
from schemas.record import Draft


@dataclass(frozen=True, slots=True)
class Preview:
    """What submitting would do, as of `rev`; nothing was written.

    `document_rev` is the revision of the document it was made from, which a saved preview is held to. `hold` says why
    the patch would wait for approval, empty when it would not. `patch` holds the keyed operations.
    """

    rev: int
    document_rev: int
    patch: Patch
    document: JsonObject
    differences: tuple[Difference, ...]
    faults: tuple[Fault, ...] = ()
    hold: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def ops(self) -> tuple[Op, ...]:
        return self.patch.ops


class Gate:
    """Admits patches to one plan. `plan` is its name; the object is `plan/<name>`."""

    def __init__(self, store: Store, plan: str, *, ids: Ids, clock: Clock, language: Language) -> None:
        self._store = store
        self._address = f"plan/{plan}"
        self._ids = ids
        self._clock = clock
        self._language = language

    @property
    def store(self) -> Store:
        return self._store

    @property
    def present(self) -> Present:
        """The plan as it stands."""
        return present.read(self._store, self._address)

    def preview(self, patch: Patch) -> Preview:
        """What `submit` would say and do now."""
        now = self.present
        return _preview(patch, now, self._admit(patch, now))

    def preview_file(self, save: FileSave) -> Preview:
        """What `submit_file` would say and do now."""
        now = self.present
        patch, notes = self._of_file(save, now)
        return _preview(patch, now, _noting(self._admit(patch, now), notes))

    async def submit(self, patch: Patch) -> Verdict:
        """Admits `patch`, or refuses or holds it; in each case returns when that is durable."""
        now = self.present
        return await self._commit(patch, now, self._admit(patch, now))

    async def submit_file(self, save: FileSave) -> Verdict:
        """Applies a saved file as one patch by `human:file`: its changes since it was last applied, on top of live."""
        now = self.present
        if filing.is_held_back(save, now):
            return Accepted(now.document_rev, (filing.HELD_BACK,))
        patch, notes = self._of_file(save, now)
        filing.keep(save, self._store, now)
        return await self._commit(patch, now, _noting(self._admit(patch, now), notes))

    async def report_file(self, path: str, faults: str) -> int:
        """Says in the plan's conditions that the file at `path` cannot be applied; live stays as it is.

        `faults` is the text for people. Returns the revision, the present one when that was said already.
        """
        now = self.present
        draft = recording.file_invalid(now, path, faults, self._clock.now())
        return now.rev if draft is None else await self._store.append(draft)

    def _of_file(self, save: FileSave, now: Present) -> tuple[Patch, tuple[str, ...]]:
        wanted = filing.merged(save, now, self._language.merge)
        kept = keeping.keep_protected(now.document, wanted.document)
        patch = filing.patch_of(save, now, kept.document)
        return patch, (*wanted.notes, *kept.notes)

    def _admit(self, patch: Patch, now: Present) -> Admission:
        return admission.admit(patch, now, self._store.view, self._language)

    async def _commit(self, patch: Patch, now: Present, answer: Admission) -> Verdict:
        if answer.faults:
            draft = recording.refused(patch, now, answer, self._clock.now())
            return Refused(await self._append(draft, now), answer.faults)
        if answer.hold:
            return await self._hold(patch, now, answer)
        if not answer.ops and not recording.is_new_file(patch, now):
            return Accepted(now.document_rev, answer.notes)
        draft = self._accepted(patch, now, answer)
        return Accepted(await self._append(draft, now), answer.notes)

    async def _hold(self, patch: Patch, now: Present, answer: Admission) -> Held:
        waiting = recording.same_held(patch, answer, self._store.view)
        if waiting is not None:
            return Held(waiting.rev, waiting.address, answer.hold)
        approval = f"approval/{self._ids.mint()}"
        draft = recording.held(patch, now, answer, approval, self._store.view)
        return Held(await self._append(draft, now), approval, answer.hold)

    def _accepted(self, patch: Patch, now: Present, answer: Admission) -> Draft:
        assert answer.graph is not None, "an admission without faults has a graph"
        made = materialising.materialise(
            answer.graph.objects,
            self._store.view,
            self._address,
            self._ids.mint,
            present.moves_of(answer.document),
        )
        stamp = recording.Moment(now.rev + 1, self._clock.now())
        uid = now.uid or self._ids.mint()
        return recording.accepted(patch, now, answer, recording.Outcome(made, stamp, str(uid), self._store.view))

    async def _append(self, draft: Draft, now: Present) -> int:
        expect = {self._address: None if now.plan is None else now.plan.rev}
        rev = self._store.propose(draft, expect)
        assert rev == now.rev + 1, "nothing awaits between reading the present and proposing"
        await self._store.flush(rev)
        return rev


def _preview(patch: Patch, now: Present, answer: Admission) -> Preview:
    return Preview(
        rev=now.rev,
        document_rev=now.document_rev,
        patch=replace(patch, ops=answer.ops),
        document=answer.document,
        differences=answer.differences,
        faults=answer.faults,
        hold=answer.hold,
        notes=answer.notes,
        warnings=answer.warnings,
    )


def _noting(answer: Admission, notes: tuple[str, ...]) -> Admission:
    return replace(answer, notes=(*notes, *answer.notes))
