"""`plan fork`: create another plan from a revision of this one.

The original is only read, and may run meanwhile. The fork gets a separate log whose first record names the original,
the blobs that its objects refer to, and a plan file. It does not run until the plan file is applied.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from planloop.client import plan_file, plan_file_update, plan_paths
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_paths import PlanPaths
from planloop.compiler import read
from planloop.compiler.names import id_hint, is_valid_id
from planloop.compiler.splice.write_back import Spliced
from planloop.reconciler.admission import plan_fork
from planloop.reconciler.admission.plan_fork import PlanForkOrigin, PlanForkTarget
from planloop.reconciler.clock import Clock, Ids
from planloop.reconciler.store import backend, state_files
from planloop.reconciler.store.log_reader import LogReader, verified_entries
from planloop.reconciler.store.memory_view import MemoryView
from planloop.schemas.canonical_json import JsonObject, encode, sha256_hex
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource


@frozen
class PlanForkOptions:
    """The plan at `origin`, its revision (None: newest), the fork's name (None: a default), and a folder to copy to.

    Without `files`, the fork shares the folder of the original.
    """

    origin: PlanPaths
    rev: int | None = None
    name: str | None = None
    files: Path | None = None


@frozen
class ForkedPlan:
    """The fork, its plan file, and the numbers of calls that it repeats and of calls of unknown outcome."""

    place: PlanPaths
    file: Path
    origin: PlanForkOrigin
    again: int
    doubts: int
    is_spliced: bool


@frozen
class _Past:
    """A plan at a revision. `texts` are the records, which may refer to blobs."""

    origin: PlanForkOrigin
    objects: tuple[Resource, ...]
    plan: Resource
    texts: tuple[str, ...]


async def create_plan_fork(wish: PlanForkOptions, clock: Clock, ids: Ids) -> ForkedPlan:
    """Create the fork. Raises CommandError; then at most a copy of files has been made."""
    with backend.open_log(wish.origin.folder) as log:
        return await _fork_from(log, wish, clock, ids)


async def _fork_from(log: LogReader, wish: PlanForkOptions, clock: Clock, ids: Ids) -> ForkedPlan:
    past = _read_past(log, wish)
    name = wish.name or f"{wish.origin.name}-{past.origin.rev}"
    if not is_valid_id(name):
        raise CommandError(ExitCode.USAGE, f"`{name}` cannot be the name of a plan", id_hint(name))
    root = wish.origin.root if wish.files is None else _copy_to(wish.files, wish.origin.root)
    place = PlanPaths(name, state_files.state_folder(root / "any", name))
    file, content, is_spliced = _file(past, place, log)
    _refuse_taken(place, file)
    if wish.files is not None:
        _copy_files(wish.origin.root, wish.files)
    document = {**past.plan.spec, "plan": name}
    source = {"path": file.name, "blob": sha256_hex(content), "document": sha256_hex(encode(document))}
    draft = plan_fork.fork_draft(
        past.objects, past.origin, PlanForkTarget(name, document, source, clock.now()), ids.mint
    )
    async with backend.own_store(place.folder, clock) as owned:
        for kept in (content, encode(document), *_blobs_of(past, log)):
            owned.store.put_blob(kept)
        await owned.store.append(draft)
    plan_file_update.replace_file(file, content)
    place.note_file(file)
    return ForkedPlan(place, file, past.origin, draft.data["again"], draft.data["doubts"], is_spliced)


def _read_past(log: LogReader, wish: PlanForkOptions) -> _Past:
    """Read the plan at the revision to fork. Raises CommandError, StoreCorrupt, StoreFailed."""
    place = wish.origin
    view, at, texts = MemoryView(), 0.0, []
    last = log.last_rev()
    rev = last if wish.rev is None else wish.rev
    if not 1 <= rev <= last:
        raise CommandError(
            ExitCode.NOT_FOUND, f"{place.name} has no revision {rev}; the newest is {last}", "plan events"
        )
    for entry in verified_entries(log, up_to=rev):
        view.fold(entry.record)
        at = entry.record.at
        texts.append(entry.line)
    plan = view.get(f"plan/{place.name}")
    if plan is None:
        raise CommandError(
            ExitCode.NOT_FOUND, f"the log had no plan yet at revision {rev}", "plan history lists the revisions"
        )
    origin = PlanForkOrigin(place.name, str(place.folder), rev, at)
    return _Past(origin, tuple(view.everything()), plan, tuple(texts))


def _blobs_of(past: _Past, log: LogReader) -> list[bytes]:
    """Return all blobs that the log up to the revision refers to, directly or through other blobs."""
    out, seen = [], set[str]()
    waiting = {name for text in past.texts for name in plan_fork.blob_digests_in(text)}
    while waiting:
        name = waiting.pop()
        seen.add(name)
        content = log.get_blob(name)
        if content is not None:
            out.append(content)
            waiting |= plan_fork.blob_digests_in(content.decode(errors="replace")) - seen
    return out


def _file(past: _Past, place: PlanPaths, log: LogReader) -> tuple[Path, bytes, bool]:
    """Return the path and text of the fork's plan file, if possible the file's text with the live values written in."""
    noted: JsonObject = past.plan.status.get("file") or {}
    suffix = Path(str(noted.get("path", ""))).suffix
    path = place.root / f"{place.name}.plan{suffix if suffix in ('.yaml', '.yml', '.edn') else '.yaml'}"
    wanted = {**past.plan.spec, "plan": place.name}
    text = log.get_blob(str(noted["blob"])) if noted.get("blob") else None
    if text is not None:
        known = plan_file.compile_plan(path, text)
        result = plan_file_update.splice_document(known, wanted) if not known.errors else None
        if isinstance(result, Spliced):
            return path, result.content, True
    text_of = read.format_edn if path.suffix == ".edn" else read.format_yaml
    return path, text_of(wanted).encode(), False


def _refuse_taken(place: PlanPaths, file: Path) -> None:
    if state_files.has_log(place.folder):
        known = ", ".join(one.name for one in plan_paths.plans_in(place.root))
        raise CommandError(
            ExitCode.CONFLICT, f"a plan `{place.name}` exists already", f"use another name: --as NAME; known: {known}"
        )
    if file.exists():
        raise CommandError(
            ExitCode.CONFLICT, f"{file} exists already", "give the fork another name and file with --as NAME"
        )


def _copy_to(folder: Path, root: Path) -> Path:
    """Return the absolute path of the folder to copy to. Raises CommandError if it is not empty or in the original."""
    target = folder.absolute()
    if target.resolve().is_relative_to(root.resolve()):
        hint = f"choose a folder outside it: --files ../{root.name}-fork"
        raise CommandError(ExitCode.USAGE, f"{folder} is inside the folder to copy", hint)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CommandError(ExitCode.CONFLICT, f"{folder} is not empty", "choose a folder that does not exist yet")
    return target


def _copy_files(root: Path, folder: Path) -> None:
    """Copy the current workspace without the state of any plan. Links stay links. Raises OSError."""
    at_top = root.resolve()

    def left_out(where: str, names: list[str]) -> list[str]:
        return [name for name in names if name == state_files.STATE and Path(where).resolve() == at_top]

    shutil.copytree(root, folder.absolute(), symlinks=True, ignore=left_out, dirs_exist_ok=True)
