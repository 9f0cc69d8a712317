"""`plan fork`: create another plan from a revision of this one.

The original is only read, and may run meanwhile. The fork gets a log of its own whose first record says where it comes
from, the blobs that its objects name, and a plan file; nothing of it runs before somebody applies that.
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
    """`rev` of the plan at `origin`, None for its last; `name` None for one made of both; `files`, where to copy to."""

    origin: PlanPaths
    rev: int | None = None
    name: str | None = None
    files: Path | None = None


@frozen
class ForkedPlan:
    """The fork, its plan file, and how many calls it makes again or is in doubt about."""

    place: PlanPaths
    file: Path
    origin: PlanForkOrigin
    again: int
    doubts: int
    is_spliced: bool


@frozen
class _Past:
    """A plan as of a revision. `texts` are whatever may name a blob."""

    origin: PlanForkOrigin
    objects: tuple[Resource, ...]
    plan: Resource
    texts: tuple[str, ...]


async def create_plan_fork(wish: PlanForkOptions, clock: Clock, ids: Ids) -> ForkedPlan:
    """Makes the fork. Raises CommandError, and then has made nothing but perhaps a copy of files."""
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
    """The plan as of the revision to fork. Raises CommandError if there is none, StoreCorrupt, StoreFailed."""
    place = wish.origin
    view, at, texts = MemoryView(), 0.0, []
    last = log.last_rev()
    rev = last if wish.rev is None else wish.rev
    if not 1 <= rev <= last:
        raise CommandError(
            ExitCode.NOT_FOUND, f"{place.name} has no revision {rev}: its log ends at {last}", "plan events"
        )
    for entry in verified_entries(log, up_to=rev):
        view.fold(entry.record)
        at = entry.record.at
        texts.append(entry.line)
    plan = view.get(f"plan/{place.name}")
    if plan is None:
        raise CommandError(
            ExitCode.NOT_FOUND, f"at revision {rev} there was no plan yet", "plan history lists what there is"
        )
    origin = PlanForkOrigin(place.name, str(place.folder), rev, at)
    return _Past(origin, tuple(view.everything()), plan, tuple(texts))


def _blobs_of(past: _Past, log: LogReader) -> list[bytes]:
    """Every blob that the log up to the revision names, and those that these blobs name."""
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
    """The plan file of the fork and its text: that of the revision with what was live written into it, if possible."""
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
            ExitCode.CONFLICT, f"a plan `{place.name}` lives there already", f"--as NAME; known: {known}"
        )
    if file.exists():
        raise CommandError(
            ExitCode.CONFLICT, f"{file} is there already", "--as NAME gives the fork another name and file"
        )


def _copy_to(folder: Path, root: Path) -> Path:
    """The folder to copy to, absolute. Raises CommandError for one that holds anything or lies within what is
    copied.
    """
    target = folder.absolute()
    if target.resolve().is_relative_to(root.resolve()):
        hint = f"name one beside it: --files ../{root.name}-fork"
        raise CommandError(ExitCode.USAGE, f"{folder} lies in the folder that is to be copied", hint)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CommandError(ExitCode.CONFLICT, f"{folder} is not empty", "name a folder that is not there yet")
    return target


def _copy_files(root: Path, folder: Path) -> None:
    """The workspace as it is now, links as links, without the state of any plan. Raises OSError."""
    at_top = root.resolve()

    def left_out(where: str, names: list[str]) -> list[str]:
        return [name for name in names if name == state_files.STATE and Path(where).resolve() == at_top]

    shutil.copytree(root, folder.absolute(), symlinks=True, ignore=left_out, dirs_exist_ok=True)
