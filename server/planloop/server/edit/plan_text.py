"""The live plan as text, and writing it into the plan file on request."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from planloop.client import plan_file, plan_file_update
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.owner_client import OwnerClient, OwnerGone
from planloop.client.plan_file import PlanFile
from planloop.client.plan_paths import PlanPaths
from planloop.compiler import read
from planloop.compiler.edn.reader import EdnTree
from planloop.compiler.source import Format
from planloop.compiler.splice.write_back import NotSpliced
from planloop.compiler.yaml.reader import YamlTree
from planloop.reconciler.diff.file_patch import FileSave
from planloop.schemas import canonical_json, json_patch
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.server import opened_plan
from planloop.server.payloads import save_to_json

# The live plan as a text to edit: the plan file's own, with what is live written into it, or the canonical one.
#
# The file's text is that of its last apply, which the log has: comments, quotes and order are the person's. The text
# compiles to exactly what is live, so the two can stand for each other.

SUFFIXES: Final[dict[Format, str]] = {"yaml": ".plan.yaml", "edn": ".plan.edn"}
NO_FILE: Final = "no plan file was applied here"


@frozen
class LiveText:
    """What to edit. `why` says why it is not the text of the plan file, empty when it is."""

    text: str
    spelling: Format
    why: str


def live_text(path: Path, content: bytes | None, live: JsonObject) -> LiveText:
    """`live` written into `content`, the text of the plan file `path` at its last apply; None when there was none."""
    if content is None:
        return LiveText(read.format_yaml(live), "yaml", NO_FILE)
    file = plan_file.compile_plan(path, content)
    spelling = file.compiled.tree.format
    if file.errors:
        why = f"{path.name} does not compile any more: {file.errors[0].summary}"
        return LiveText(read.format_document(live, spelling), spelling, why)
    found = plan_file_update.splice_document(file, live)
    if isinstance(found, NotSpliced):
        return LiveText(read.format_document(live, spelling), spelling, f"{path.name}: {found.reason}")
    return LiveText(found.content.decode().removeprefix("\ufeff"), spelling, "")


def written_into(path: Path, text: str, wanted: JsonObject) -> str | NotSpliced:
    """`text` with `wanted` written into it, its comments and order as they are."""
    file = plan_file.compile_plan(path, text.encode())
    if file.errors:
        return NotSpliced("the text has faults")
    if not json_patch.diff_values(file.document, wanted):
        return text
    found = plan_file_update.splice_document(file, wanted)
    return found if isinstance(found, NotSpliced) else found.content.decode()


def path_of(place: PlanPaths, spelling: Format) -> Path:
    """The plan file as the compiler is to call it: the one that was applied, or one that could have been."""
    file = place.file
    is_edn = file is not None and file.suffix in (".edn", ".clj")
    if file is not None and is_edn == (spelling == "edn"):
        return file
    return place.root / f"{place.name}{SUFFIXES[spelling]}"


# Writes the live plan into its file when a person asks for that in the page: as `plan pull` does, and more shyly.
#
# Nobody is at the file's side here to be asked, so nothing is written beside it and nothing is merged into it: a file
# that says what was never applied, or that moved meanwhile, is left alone. Where the text that was edited came from the
# file as it is and says just what is live, the file gets that very text, with the comments that were typed into it.


@frozen
class PlanFileText:
    """What was edited. `blob` is the digest of the file content that it came from, empty when it came from none."""

    text: str
    blob: str


@frozen
class WrittenFile:
    """The file as it is now, as a save that makes it the base of the next merge; `ops` are what changed in it."""

    save: FileSave
    ops: tuple[json_patch.PatchOp, ...]
    is_text: bool


def write_file(place: PlanPaths, applied: str, edited: PlanFileText | None) -> WrittenFile:
    """Makes the plan file say what is live. `applied` is the digest of the content that was applied last. Raises
    CommandError.

    `edited` is the text to take as it is if it may be; None has the live values written into the file's own text.
    """
    path = place.file
    if path is None:
        raise CommandError(
            ExitCode.NOT_FOUND, f"{place.name} has no plan file", "plan get plan -o yaml shows it: save that as one"
        )
    try:
        file = plan_file.read_plan(path)
    except CommandError as halt:
        raise CommandError(ExitCode.NOT_FOUND, halt.summary, halt.hint) from None
    if canonical_json.sha256_hex(file.content) != applied:
        hint = f"plan diff {path.name} shows them; plan apply {path.name} applies them, then write it again"
        raise CommandError(ExitCode.CONFLICT, f"{path.name} has changes that are not applied; it was left alone", hint)
    if file.errors:
        hint = f"plan validate {path.name}"
        raise CommandError(
            ExitCode.INVALID, f"{path.name} has faults: {file.errors[0].summary}; it was left alone", hint
        )
    wanted = _requested_text(place, file)
    ops = tuple(json_patch.diff_values(file.document, wanted))
    taken = _current_content(file, wanted, edited)
    content = taken or _spliced(file, wanted)
    if content != file.content:
        _swap(file, content)
    reason = f"written into {path.name}"
    return WrittenFile(FileSave(path.name, content, wanted, reason=reason), ops, taken is not None)


def _requested_text(place: PlanPaths, file: PlanFile) -> JsonObject:
    """What would be live after applying the file: as `plan pull` asks, so that what was left out stays in it."""
    save = FileSave(file.path.name, file.content, file.document)
    try:
        answer: JsonObject = OwnerClient(place.folder).ask("diff", save_to_json(save))
    except OwnerGone:
        answer = opened_plan.preview_without_owner(place, save)
    if answer["faults"]:
        fault = answer["faults"][0]
        raise CommandError(ExitCode.CONFLICT, f"{file.path.name} was left alone: {fault['message']}", fault["hint"])
    document: JsonObject = answer["document"]
    return document


def _current_content(file: PlanFile, wanted: JsonObject, edited: PlanFileText | None) -> bytes | None:
    """The edited text as the file would hold it; None when it may not stand for the file."""
    if edited is None or edited.blob != canonical_json.sha256_hex(file.content):
        return None
    text = _with_ends_of(file, edited.text)
    if text is None or not isinstance(file.compiled.tree, YamlTree | EdnTree):
        return None
    content = file.compiled.tree.source.encoded(text)
    again = plan_file.compile_plan(file.path, content)
    says_so = not again.errors and not json_patch.diff_values(again.document, wanted)
    return content if says_so else None


def _with_ends_of(file: PlanFile, text: str) -> str | None:
    """`text`, whose lines end with LF, with the ends of line of the file; None when these are mixed."""
    own = file.compiled.tree.text
    if "\r" not in own:
        return text
    is_crlf = own.count("\r\n") == own.count("\n") == own.count("\r")
    return text.replace("\n", "\r\n") if is_crlf else None


def _spliced(file: PlanFile, wanted: JsonObject) -> bytes:
    found = plan_file_update.splice_document(file, wanted)
    if isinstance(found, NotSpliced):
        hint = f"plan pull {file.path.name} writes the live plan beside it"
        raise CommandError(ExitCode.CONFLICT, f"{file.path.name} was left alone: {found.reason}", hint)
    return found.content


def _swap(file: PlanFile, content: bytes) -> None:
    if not _is_still(file.path, file.content):
        raise CommandError(
            ExitCode.CONFLICT, f"{file.path.name} was saved meanwhile; nothing was written", "look at it, then again"
        )
    try:
        plan_file_update.replace_file(file.path, content)
    except OSError as error:
        hint = "its folder must be writable"
        raise CommandError(ExitCode.FAILED, f"{file.path.name} cannot be written: {error.strerror}", hint) from None


def _is_still(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False
