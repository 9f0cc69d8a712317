"""Apply each save of the plan file while it runs; with `--sync`, write the live plan back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio

from planloop.client import plan_file
from planloop.client.error_report import refused_error
from planloop.client.plan_file import PlanFile
from planloop.client.render.records import patch_words
from planloop.compiler import merge
from planloop.owner.plan_file_watcher import FileChange, PlanFileWatcher, SavedFile, UnusableFile
from planloop.reconciler.diff.file_patch import FileSave
from planloop.schemas import json_patch
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.server.opened_plan import OpenedPlan
from planloop.server.payloads import decision_to_json

# Find the earlier content of the plan file on which a save is based, for an editor that has not reloaded the file.
#
# After `plan pull` or `--sync` has written the file, an editor that still shows the old text overwrites it with the
# next save. Taken literally, that would undo the written changes. Taken as edits of the old text, nothing is lost.
# Contents from before the user's last save are not bases: returning to one is an intended undo.

BASES_MAX: Final = 8  # Remembered contents. An editor is rarely more than one write behind.


@frozen
class SavedBase:
    """An earlier content of the file, and its document."""

    content: bytes
    document: JsonObject


class SavedBases:
    """The contents that an editor may show: the user's last save and all later writes, newest last."""

    def __init__(self) -> None:
        self._bases: list[SavedBase] = []

    def saved(self, base: SavedBase) -> None:
        """Record that the user saved this content, which their editor therefore shows."""
        self._bases = [base]

    def written(self, base: SavedBase) -> None:
        """Record that planloop wrote this content. The user's editor may not show it yet."""
        others = [one for one in self._bases if one.content != base.content]
        self._bases = [*others[1 - BASES_MAX :], base]

    def nearest(self, content: bytes) -> SavedBase | None:
        """Return the base that differs from `content` in the fewest lines (on a tie the newest); None without bases."""
        return min(reversed(self._bases), key=lambda base: changed_lines(base.content, content), default=None)


def find_base(base: SavedBase | None, saved: JsonObject, filed: JsonObject) -> JsonObject:
    """Return the document that a save means: its changes since `base`, merged into the applied document `filed`."""
    if base is None or base.document == filed:
        return saved
    return merge.merge_documents(base.document, saved, filed).document


def changed_lines(one: bytes, other: bytes) -> int:
    """Return the number of lines that are in only one of the contents, counting repeats."""
    left, right = Counter(one.splitlines()), Counter(other.splitlines())
    return (left - right).total() + (right - left).total()


# Each save of the plan file becomes a patch by `human:file`. With `--sync`, live changes are written back to the file.
#
# If a save has errors, the live plan stays unchanged; the screen and the plan's condition FileInvalid show the errors.
# A save based on an older text counts as edits of that text.

SYNC_AFTER_S: Final = 0.2  # Agents often patch several times in a row, which makes one write.
STALE_NOTE: Final = (
    "note: {name} was saved from an older text: its edits are applied, and changes written since then stay live"
)


class PlanFileSync:
    """Applies saves of the owner's plan file. `file` is the file that was read first, `say` prints a message.

    The targets and excludes of `first`, the owner's first save, apply to all saves.
    """

    def __init__(
        self, core: OpenedPlan, file: PlanFile, first: FileSave | None, size_max: int, say: Callable[[str], None]
    ) -> None:
        self._core = core
        self._parts = first or FileSave(file.path.name, b"", {})
        self._say = say
        self._size_max = size_max
        self._last = file
        self._meant = file.document  # The document that `_last` means, which may have been saved from an older text.
        self._bases = SavedBases()
        self._bases.saved(SavedBase(file.content, file.document))
        self._live_file = PlanFileWatcher(file.path, size_max=size_max, used=lambda: self._last.read_files)
        self._live_file.start_from(file.content)
        self._sync_due = anyio.Event()

    @property
    def path(self) -> Path:
        return self._last.path

    async def follow(self) -> None:
        """Apply every save until cancelled."""
        await self._live_file.run(self._saved)

    async def sync(self) -> None:
        """Write live changes into the file shortly after they are made, until cancelled."""
        while True:
            await self._sync_due.wait()
            await anyio.sleep(SYNC_AFTER_S)
            await self.sync_now()

    async def sync_now(self) -> None:
        """Write pending changes now; also called before detaching."""
        if not self._sync_due.is_set():
            return
        self._sync_due = anyio.Event()
        try:
            await self._write_back()
        except OSError as error:
            self._say(f"cannot write {self.path.name}: {error.strerror}; to try again: plan pull")

    def changed(self) -> None:
        """Note that the live document has changed."""
        self._sync_due.set()

    async def _saved(self, save: FileChange) -> None:
        match save:
            case UnusableFile(why):
                await self._refuse(f"{why}; the plan continues unchanged")
            case SavedFile(content):
                # On the event loop: a plan of 100 tasks takes 10 ms, which is also the cost of using a thread.
                file = self._compiled(content)
                self._last = file
                if file.errors:
                    await self._refuse(plan_file.fault_text(file, color=False))
                else:
                    await self._take(file)

    async def _take(self, file: PlanFile) -> None:
        filed = self._core.gate.present.filed
        is_part = bool(self._parts.targets or self._parts.excludes)
        # With targets or excludes, most of the file is not in the applied document, which cannot show the text's age.
        base = None if is_part else self._bases.nearest(file.content)
        document = find_base(base, file.document, filed)
        self._meant = document
        self._note(SavedBase(file.content, file.document))
        if document == file.document:
            await self.submit(self._save_of(file))
        else:
            self._say(STALE_NOTE.format(name=self.path.name))
            await self.submit(replace(self._save_of(file), document=document, checked=None))

    def _compiled(self, content: bytes) -> PlanFile:
        return plan_file.compile_plan(self.path, content, size_max=self._size_max, model=self._last.model)

    def _save_of(self, file: PlanFile) -> FileSave:
        """Return the save to apply, with the owner's targets and excludes."""
        whole = FileSave(file.path.name, file.content, file.document, checked=file.compiled)
        return replace(whole, targets=self._parts.targets, excludes=self._parts.excludes)

    def _note(self, base: SavedBase) -> None:
        plan = self._core.plan
        if plan is not None and not json_patch.diff_values(plan.spec, base.document):
            self._bases.written(base)  # It equals the live plan, as after `plan pull`.
        else:
            self._bases.saved(base)

    async def submit(self, save: FileSave) -> JsonObject:
        """Submit a save to the gate, report the outcome and return the verdict."""
        verdict = decision_to_json(await self._core.gate.decide_file(save))
        match verdict["verdict"]:
            case "refused":
                self._say(f"{save.path} was refused; running work continues\n{refused_error(verdict).text()}")
            case "held":
                self._say(f"held for approval: {verdict['why']}\nnext: plan approve {verdict['approval']}")
            case _:
                for note in verdict["notes"]:
                    self._say(f"note: {note}")
        return verdict

    async def _write_back(self) -> None:
        plan, file = self._core.plan, self._last
        if plan is None or file.errors or not json_patch.diff_values(file.document, plan.spec):
            return
        from planloop.client import plan_file_update

        # Preview applying the whole file: values that are in the file but not live are the user's, and stay.
        preview = self._core.gate.preview_file(FileSave(file.path.name, file.content, self._meant))
        if preview.faults or preview.hold or not json_patch.diff_values(file.document, preview.document):
            return
        match plan_file_update.pull_plan(file, preview.document, before_swap=self._live_file.expect):
            case plan_file_update.PulledInPlace(content, ops):
                self._last = self._compiled(content)
                self._meant = self._last.document
                self._bases.written(SavedBase(content, self._last.document))
                self._say(f"{file.path.name} written: {patch_words(ops)}")
                await self.submit(self._save_of(self._last))
            case plan_file_update.PulledBeside(path, why):
                self._say(f"{file.path.name} was not changed: {why}; the live plan is in {path.name}")
            case plan_file_update.PulledMoved():
                self._sync_due.set()  # The file was saved meanwhile. Try again after that save.

    async def _refuse(self, text: str) -> None:
        await self._core.gate.report_file(self.path.name, text)
        self._say(text.rstrip("\n"))
