"""Writes the live plan into its file when a person asks for that in the page: as `plan pull` does, and more shyly.

Nobody is at the file's side here to be asked, so nothing is written beside it and nothing is merged into it: a file
that says what was never applied, or that moved meanwhile, is left alone. Where the text that was edited came from the
file as it is and says just what is live, the file gets that very text, with the comments that were typed into it.
"""

from __future__ import annotations

from pathlib import Path

from planloop.app import compiling, pulling, wiring
from planloop.app.client import OwnerClient, OwnerGone
from planloop.app.compiling import PlanFile
from planloop.app.exits import Exit, Halt
from planloop.app.places import Place
from planloop.compiler.reading_edn import EdnTree
from planloop.compiler.reading_yaml import YamlTree
from planloop.compiler.splicing import NotSpliced
from planloop.reconciler.editing.filing import FileSave
from planloop.schemas import encoding, patching
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.server.forms import save_to_json


@frozen
class Text:
    """What was edited. `blob` is the digest of the file content that it came from, empty when it came from none."""

    text: str
    blob: str


@frozen
class Written:
    """The file as it is now, as a save that makes it the base of the next merge; `ops` are what changed in it."""

    save: FileSave
    ops: tuple[patching.Op, ...]
    is_text: bool


def write(place: Place, applied: str, edited: Text | None) -> Written:
    """Makes the plan file say what is live. `applied` is the digest of the content that was applied last. Raises Halt.

    `edited` is the text to take as it is if it may be; None has the live values written into the file's own text.
    """
    path = place.file
    if path is None:
        raise Halt(Exit.NOT_FOUND, f"{place.name} has no plan file", "plan get plan -o yaml shows it: save that as one")
    try:
        file = compiling.read(path)
    except Halt as halt:
        raise Halt(Exit.NOT_FOUND, halt.summary, halt.hint) from None
    if encoding.digest(file.content) != applied:
        hint = f"plan diff {path.name} shows them; plan apply {path.name} applies them, then write it again"
        raise Halt(Exit.CONFLICT, f"{path.name} has changes that are not applied; it was left alone", hint)
    if file.errors:
        hint = f"plan validate {path.name}"
        raise Halt(Exit.INVALID, f"{path.name} has faults: {file.errors[0].summary}; it was left alone", hint)
    wanted = _wanted(place, file)
    ops = tuple(patching.difference(file.document, wanted))
    taken = _taken(file, wanted, edited)
    content = taken or _spliced(file, wanted)
    if content != file.content:
        _swap(file, content)
    reason = f"written into {path.name}"
    return Written(FileSave(path.name, content, wanted, reason=reason), ops, taken is not None)


def _wanted(place: Place, file: PlanFile) -> JsonObject:
    """What would be live after applying the file: as `plan pull` asks, so that what was left out stays in it."""
    save = FileSave(file.path.name, file.content, file.document)
    try:
        answer: JsonObject = OwnerClient(place.folder).ask("diff", save_to_json(save))
    except OwnerGone:
        answer = wiring.preview_without_owner(place, save)
    if answer["faults"]:
        fault = answer["faults"][0]
        raise Halt(Exit.CONFLICT, f"{file.path.name} was left alone: {fault['message']}", fault["hint"])
    document: JsonObject = answer["document"]
    return document


def _taken(file: PlanFile, wanted: JsonObject, edited: Text | None) -> bytes | None:
    """The edited text as the file would hold it; None when it may not stand for the file."""
    if edited is None or edited.blob != encoding.digest(file.content):
        return None
    text = _with_ends_of(file, edited.text)
    if text is None or not isinstance(file.compiled.tree, YamlTree | EdnTree):
        return None
    content = file.compiled.tree.source.encoded(text)
    again = compiling.compiled(file.path, content)
    says_so = not again.errors and not patching.difference(again.document, wanted)
    return content if says_so else None


def _with_ends_of(file: PlanFile, text: str) -> str | None:
    """`text`, whose lines end with LF, with the ends of line of the file; None when these are mixed."""
    own = file.compiled.tree.text
    if "\r" not in own:
        return text
    is_crlf = own.count("\r\n") == own.count("\n") == own.count("\r")
    return text.replace("\n", "\r\n") if is_crlf else None


def _spliced(file: PlanFile, wanted: JsonObject) -> bytes:
    found = pulling.written(file, wanted)
    if isinstance(found, NotSpliced):
        hint = f"plan pull {file.path.name} writes the live plan beside it"
        raise Halt(Exit.CONFLICT, f"{file.path.name} was left alone: {found.reason}", hint)
    return found.content


def _swap(file: PlanFile, content: bytes) -> None:
    if not _is_still(file.path, file.content):
        raise Halt(
            Exit.CONFLICT, f"{file.path.name} was saved meanwhile; nothing was written", "look at it, then again"
        )
    try:
        pulling.replace_file(file.path, content)
    except OSError as error:
        hint = "its folder must be writable"
        raise Halt(Exit.FAILED, f"{file.path.name} cannot be written: {error.strerror}", hint) from None


def _is_still(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False
