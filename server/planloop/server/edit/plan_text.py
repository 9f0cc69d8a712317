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

# The live plan as a text to edit: the plan file's text with the live values written into it, or the canonical form.
#
# The file's text is the one that was applied last. The log has it, so comments, quotes and order are kept. The text
# compiles to exactly the live document.

SUFFIXES: Final[dict[Format, str]] = {"yaml": ".plan.yaml", "edn": ".plan.edn"}
NO_FILE: Final = "no plan file has been applied"


@frozen
class LiveText:
    """The text to edit. `why` says why it is not the text of the plan file; empty if it is."""

    text: str
    spelling: Format
    why: str


def live_text(path: Path, content: bytes | None, live: JsonObject) -> LiveText:
    """Return `live` as text, written into `content`, the plan file's text at its last apply (None: no file)."""
    if content is None:
        return LiveText(read.format_yaml(live), "yaml", NO_FILE)
    file = plan_file.compile_plan(path, content)
    spelling = file.compiled.tree.format
    if file.errors:
        why = f"{path.name} no longer compiles: {file.errors[0].summary}"
        return LiveText(read.format_document(live, spelling), spelling, why)
    found = plan_file_update.splice_document(file, live)
    if isinstance(found, NotSpliced):
        return LiveText(read.format_document(live, spelling), spelling, f"{path.name}: {found.reason}")
    return LiveText(found.content.decode().removeprefix("\ufeff"), spelling, "")


def written_into(path: Path, text: str, wanted: JsonObject) -> str | NotSpliced:
    """Return `text` with the values of `wanted`. Comments and order are kept."""
    file = plan_file.compile_plan(path, text.encode())
    if file.errors:
        return NotSpliced("the text has errors")
    if not json_patch.diff_values(file.document, wanted):
        return text
    found = plan_file_update.splice_document(file, wanted)
    return found if isinstance(found, NotSpliced) else found.content.decode()


def path_of(place: PlanPaths, spelling: Format) -> Path:
    """Return the path of the plan file for the compiler: the applied one, or a default for that format."""
    file = place.file
    is_edn = file is not None and file.suffix in (".edn", ".clj")
    if file is not None and is_edn == (spelling == "edn"):
        return file
    return place.root / f"{place.name}{SUFFIXES[spelling]}"


# Write the live plan into its file on request of the page: like `plan pull`, but more careful.
#
# The page cannot ask the user about the file. So it changes nothing if the file has changes that are not applied, or
# was saved meanwhile, and it writes no other file. If the edited text is based on the file's content and compiles to
# the live document, it becomes the file's content, with its comments.


@frozen
class PlanFileText:
    """The edited text. `blob` is the digest of the file content that it is based on, if any."""

    text: str
    blob: str


@frozen
class WrittenFile:
    """The written file, as a save that becomes the base of the next merge. `ops` are the changes of its document.

    `is_text`: its content is the edited text.
    """

    save: FileSave
    ops: tuple[json_patch.PatchOp, ...]
    is_text: bool


def write_file(place: PlanPaths, applied: str, edited: PlanFileText | None) -> WrittenFile:
    """Write the live plan into the plan file. `applied` is the digest of the content that was applied last.

    If possible, `edited` becomes the content; otherwise (or if None) the live values are written into the file's
    current text. Raises CommandError.
    """
    path = place.file
    if path is None:
        raise CommandError(
            ExitCode.NOT_FOUND, f"{place.name} has no plan file", "create one: plan get plan -o yaml > FILE"
        )
    try:
        file = plan_file.read_plan(path)
    except CommandError as halt:
        raise CommandError(ExitCode.NOT_FOUND, halt.summary, halt.hint) from None
    if canonical_json.sha256_hex(file.content) != applied:
        hint = f"review them (plan diff {path.name}), apply them (plan apply {path.name}), then try again"
        raise CommandError(ExitCode.CONFLICT, f"not written: {path.name} has changes that are not applied", hint)
    if file.errors:
        hint = f"plan validate {path.name}"
        raise CommandError(ExitCode.INVALID, f"not written: {path.name} has errors: {file.errors[0].summary}", hint)
    wanted = _requested_text(place, file)
    ops = tuple(json_patch.diff_values(file.document, wanted))
    taken = _current_content(file, wanted, edited)
    content = taken or _spliced(file, wanted)
    if content != file.content:
        _swap(file, content)
    reason = f"written into {path.name}"
    return WrittenFile(FileSave(path.name, content, wanted, reason=reason), ops, taken is not None)


def _requested_text(place: PlanPaths, file: PlanFile) -> JsonObject:
    """Return the document that would be live after applying the file, as `plan pull` does.

    It keeps parts of the file that were excluded when it was applied.
    """
    save = FileSave(file.path.name, file.content, file.document)
    try:
        answer: JsonObject = OwnerClient(place.folder).ask("diff", save_to_json(save))
    except OwnerGone:
        answer = opened_plan.preview_without_owner(place, save)
    if answer["faults"]:
        first = answer["faults"][0]
        raise CommandError(ExitCode.CONFLICT, f"{file.path.name} was not written: {first['message']}", first["hint"])
    document: JsonObject = answer["document"]
    return document


def _current_content(file: PlanFile, wanted: JsonObject, edited: PlanFileText | None) -> bytes | None:
    """Return the edited text as content of the file; None if it is not based on the file or not the wanted document."""
    if edited is None or edited.blob != canonical_json.sha256_hex(file.content):
        return None
    text = _with_line_ends_of(file, edited.text)
    if text is None or not isinstance(file.compiled.tree, YamlTree | EdnTree):
        return None
    content = file.compiled.tree.source.encoded(text)
    again = plan_file.compile_plan(file.path, content)
    is_wanted = not again.errors and not json_patch.diff_values(again.document, wanted)
    return content if is_wanted else None


def _with_line_ends_of(file: PlanFile, text: str) -> str | None:
    """Return `text`, whose lines end with LF, with the line ends of the file; None if these are mixed."""
    own = file.compiled.tree.text
    if "\r" not in own:
        return text
    is_crlf = own.count("\r\n") == own.count("\n") == own.count("\r")
    return text.replace("\n", "\r\n") if is_crlf else None


def _spliced(file: PlanFile, wanted: JsonObject) -> bytes:
    found = plan_file_update.splice_document(file, wanted)
    if isinstance(found, NotSpliced):
        hint = f"run plan pull {file.path.name} to write the live plan to a separate file"
        raise CommandError(ExitCode.CONFLICT, f"{file.path.name} was not written: {found.reason}", hint)
    return found.content


def _swap(file: PlanFile, content: bytes) -> None:
    if not _is_still(file.path, file.content):
        raise CommandError(
            ExitCode.CONFLICT, f"not written: {file.path.name} was saved meanwhile", "review the file, then try again"
        )
    try:
        plan_file_update.replace_file(file.path, content)
    except OSError as error:
        hint = "make its folder writable"
        raise CommandError(ExitCode.FAILED, f"cannot write {file.path.name}: {error.strerror}", hint) from None


def _is_still(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False
