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

# Tells which earlier content of the plan file a save was made from, when the editor had not seen our own writes.
#
# After `plan pull` or `--sync` wrote the file, an editor that still shows the old text overwrites it with the next
# save. Taken literally that would undo what was written; taken as edits of the text it was made from, nothing is lost.
# What a person saved before their own last save is no such text: going back to it is an undo, and is meant.

BASES_MAX: Final = 8  # Contents that are remembered; an editor is rarely more than one write behind.


@frozen
class SavedBase:
    """A content that the file once had, and what it says."""

    content: bytes
    document: JsonObject


class SavedBases:
    """The contents that an editor may show: the person's last save and what was written since, the newest last."""

    def __init__(self) -> None:
        self._bases: list[SavedBase] = []

    def saved(self, base: SavedBase) -> None:
        """A person saved this content, so that is what their editor shows."""
        self._bases = [base]

    def written(self, base: SavedBase) -> None:
        """This content was written for the person, whose editor may not show it yet."""
        others = [one for one in self._bases if one.content != base.content]
        self._bases = [*others[1 - BASES_MAX :], base]

    def nearest(self, content: bytes) -> SavedBase | None:
        """The base that differs from `content` in the fewest lines, the newest of equals; None when there is none."""
        return min(reversed(self._bases), key=lambda base: changed_lines(base.content, content), default=None)


def find_base(base: SavedBase | None, saved: JsonObject, filed: JsonObject) -> JsonObject:
    """What a save means: its changes since `base`, on top of `filed`, the document that counts as applied."""
    if base is None or base.document == filed:
        return saved
    return merge.merge_documents(base.document, saved, filed).document


def changed_lines(one: bytes, other: bytes) -> int:
    """How many lines are in one and not in the other, counted with repeats."""
    left, right = Counter(one.splitlines()), Counter(other.splitlines())
    return (left - right).total() + (right - left).total()


# Saves of the plan file while it runs, each one patch by `human:file`; and with `--sync` the way back.
#
# A fault leaves live as it was and is told on the screen and as the plan's condition FileInvalid. A save from an editor
# that had not seen what was written meanwhile counts as edits of the text that it did see.

SYNC_AFTER_S: Final = 0.2  # Agents often patch several times in a row; one write for all.
STALE_NOTE: Final = (
    "note: {name} was saved from an older text: its edits are applied, and what was written since stays live"
)


class PlanFileSync:
    """The plan file of one owner. `file` is the last one that was read, `say` tells people.

    Every save is applied as far as `first` was, the one that the owner began with: a target holds as long as it runs.
    """

    def __init__(
        self, core: OpenedPlan, file: PlanFile, first: FileSave | None, size_max: int, say: Callable[[str], None]
    ) -> None:
        self._core = core
        self._parts = first or FileSave(file.path.name, b"", {})
        self._say = say
        self._size_max = size_max
        self._last = file
        self._meant = file.document  # What `_last` means: it may have been saved from an older text.
        self._bases = SavedBases()
        self._bases.saved(SavedBase(file.content, file.document))
        self._live_file = PlanFileWatcher(file.path, size_max=size_max, used=lambda: self._last.read_files)
        self._live_file.start_from(file.content)
        self._sync_due = anyio.Event()

    @property
    def path(self) -> Path:
        return self._last.path

    async def follow(self) -> None:
        """Applies every save until cancelled."""
        await self._live_file.run(self._saved)

    async def sync(self) -> None:
        """Writes what others change into the file, shortly after they did, until cancelled."""
        while True:
            await self._sync_due.wait()
            await anyio.sleep(SYNC_AFTER_S)
            await self.sync_now()

    async def sync_now(self) -> None:
        """Writes what is still to be written; called before leaving, too, which does not wait."""
        if not self._sync_due.is_set():
            return
        self._sync_due = anyio.Event()
        try:
            await self._write_back()
        except OSError as error:
            self._say(f"{self.path.name} cannot be written: {error.strerror}; plan pull tries again")

    def changed(self) -> None:
        """The live document is another now."""
        self._sync_due.set()

    async def _saved(self, save: FileChange) -> None:
        match save:
            case UnusableFile(why):
                await self._refuse(f"{why}; the plan goes on as it was")
            case SavedFile(content):
                # On the event loop: a plan of 100 tasks takes 10 ms, a hop to a thread would cost a save as much.
                file = self._compiled(content)
                self._last = file
                if file.errors:
                    await self._refuse(plan_file.fault_text(file, color=False))
                else:
                    await self._take(file)

    async def _take(self, file: PlanFile) -> None:
        filed = self._core.gate.present.filed
        is_part = bool(self._parts.targets or self._parts.excludes)
        # Of a part the applied document says nothing about how old the text is: most of the file is not in it.
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
        """The file as it is applied: only the parts that the owner was asked for."""
        whole = FileSave(file.path.name, file.content, file.document, checked=file.compiled)
        return replace(whole, targets=self._parts.targets, excludes=self._parts.excludes)

    def _note(self, base: SavedBase) -> None:
        plan = self._core.plan
        if plan is not None and not json_patch.diff_values(plan.spec, base.document):
            self._bases.written(base)  # It says just what is live, as `plan pull` makes it.
        else:
            self._bases.saved(base)

    async def submit(self, save: FileSave) -> JsonObject:
        """Sends a save through the gate and says what it did; returns the verdict."""
        verdict = decision_to_json(await self._core.gate.decide_file(save))
        match verdict["verdict"]:
            case "refused":
                self._say(f"{save.path} was refused; what was running goes on\n{refused_error(verdict).text()}")
            case "held":
                self._say(f"held: {verdict['why']}\nnext: plan approve {verdict['approval']}")
            case _:
                for note in verdict["notes"]:
                    self._say(f"note: {note}")
        return verdict

    async def _write_back(self) -> None:
        plan, file = self._core.plan, self._last
        if plan is None or file.errors or not json_patch.diff_values(file.document, plan.spec):
            return
        from planloop.client import plan_file_update

        # What would be live if all of the file were applied: what is in it and not live is the person's, and stays.
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
                self._say(f"{file.path.name} was left alone: {why}; the live plan is in {path.name}")
            case plan_file_update.PulledMoved():
                self._sync_due.set()  # The save is on its way to us; then once more.

    async def _refuse(self, text: str) -> None:
        await self._core.gate.report_file(self.path.name, text)
        self._say(text.rstrip("\n"))
