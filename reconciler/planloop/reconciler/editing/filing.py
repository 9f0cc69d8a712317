"""A saved plan file as one patch: what it changed since it was last applied, merged into the live document.

The bytes and the document of every applied file are kept as blobs; the document is the base of the next merge. A file
whose content was held back by a rollback is not applied again until it changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planloop.reconciler.admitting.language import Check, CheckedDocument, Merge
from planloop.reconciler.admitting.present import Present, moves_of
from planloop.reconciler.editing import selecting
from planloop.reconciler.editing.moving import moved
from planloop.schemas import encoding, patching
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.patch import HUMAN_FILE, Patch

HELD_BACK: Final = "the file is held back since the rollback: change and save it to have it applied again"


@frozen
class FileSave:
    """A file as read and compiled. `document` is its canonical document, `path` where it lies, for people.

    `targets` and `excludes` are task addresses: only what lies within a target, and nothing within an exclude, is
    applied. `is_approved` says that a person has seen the differences and lets holds pass. `checked` is what the
    compiler said of `document`, used when nothing has to be merged into it; None has it checked again.
    """

    path: str
    content: bytes
    document: JsonObject
    targets: Sequence[str] = ()
    excludes: Sequence[str] = ()
    is_approved: bool = False
    reason: str = ""
    checked: CheckedDocument | None = None


@frozen
class MergedFile:
    """The live document with the file's changes in it, and what these took, one line each."""

    document: JsonObject
    notes: tuple[str, ...]


def merged(save: FileSave, now: Present, merge: Merge) -> MergedFile:
    """The file's changes since its last apply on top of the live document."""
    wanted = filed_document(save, now)
    moves = moves_of(wanted)
    both = merge(moved(now.filed, moves), wanted, moved(now.document, moves))
    return MergedFile(both.document, tuple(one.words for one in both.conflicts))


def filed_document(save: FileSave, now: Present) -> JsonObject:
    """What counts as applied afterwards: the file's document, or with targets only the chosen parts of it."""
    return selecting.select(now.filed, save.document, save.targets, save.excludes)


def patch_of(save: FileSave, now: Present, document: JsonObject) -> Patch:
    """The patch by `human:file` that turns the live document into `document`."""
    ops = tuple(patching.difference(now.document, document))
    reason = save.reason or f"saved {save.path}"
    source = {"path": save.path, "blob": encoding.digest(save.content), "document": _digest(filed_document(save, now))}
    return Patch(HUMAN_FILE, ops, now.rev, reason, source, save.is_approved)


def blobs(save: FileSave, now: Present) -> tuple[bytes, ...]:
    """The contents that the patch of `save` names by digest."""
    return save.content, encoding.encode(filed_document(save, now))


def checking(save: FileSave, check: Check) -> Check:
    """`check`, spared the work for the document that was compiled to make `save`."""
    known = save.checked
    if known is None:
        return check
    return lambda document: known if patching.same(save.document, document) else check(document)


def is_held_back(save: FileSave, now: Present) -> bool:
    """Whether this very content was rolled back."""
    return now.file.get("held_back") == encoding.digest(save.content)


def _digest(document: JsonObject) -> str:
    return encoding.digest(encoding.encode(document))
