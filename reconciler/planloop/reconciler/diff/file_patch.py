"""Turn a saved plan file into one patch: its changes since the last apply, for the chosen targets. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Final

from planloop.reconciler.current_plan import CurrentPlan, declared_moves
from planloop.reconciler.plan_language_port import CheckDocument, CheckedDocument, MergeDocuments
from planloop.schemas import address as addresses
from planloop.schemas import canonical_json, json_patch, json_pointer
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import PatchOp
from planloop.schemas.log.patch import HUMAN_FILE, Patch

# Rename tasks in a document, as base for merging a file with `moved:`.
#
# Otherwise the parts that only the live plan has (a resolution, an order, children that agents added) would keep the
# old name, and be removed with it.


def move_tasks(document: JsonObject, moves: Mapping[str, str]) -> JsonObject:
    """Return `document` with the tasks at the old addresses of `moves` moved to the new ones, also in `needs`.

    A task that is missing, or whose new address is occupied, is not moved.
    """
    paths = {addresses.parse_address(old).path: addresses.parse_address(new).path for old, new in moves.items()}
    free = {old: new for old, new in paths.items() if _is_free(document, old, new, paths)}
    if not free:
        return document
    out = deepcopy(document)
    # Removed deepest first; inserted highest first, because a moved task may contain others.
    deepest = sorted(free.items(), key=lambda one: -len(one[0]))
    taken = {new: _take_task(out, old) for old, new in deepest}
    for new in sorted(taken, key=len):
        _put_task(out, new, taken[new])
    _task_name(out, out, {"/".join(old): "/".join(new) for old, new in deepest})
    return out


def _is_free(
    document: JsonObject, old: tuple[str, ...], new: tuple[str, ...], moves: Mapping[tuple[str, ...], tuple[str, ...]]
) -> bool:
    if not old or not new or not json_pointer.has_value(document, json_pointer.task_pointer(old)):
        return False
    return new in moves or not json_pointer.has_value(document, json_pointer.task_pointer(new))


def _take_task(document: JsonObject, path: tuple[str, ...]) -> JsonObject:
    tasks: JsonObject = json_pointer.value_at(document, json_pointer.task_pointer(path)[:-1])
    task: JsonObject = tasks.pop(path[-1])
    return task


def _put_task(document: JsonObject, path: tuple[str, ...], task: JsonObject) -> None:
    here = document
    for name in path[:-1]:
        here = here.setdefault("tasks", {}).setdefault(name, {})
    here.setdefault("tasks", {})[path[-1]] = task


def _task_name(root: JsonObject, task: JsonObject, names: Mapping[str, str]) -> None:
    """Replace paths in all `needs` by the new ones. A sibling is named by its id alone."""
    for child in (task.get("tasks") or {}).values():
        if isinstance(child.get("needs"), list):
            beside = {} if task is root else task["tasks"]
            child["needs"] = [one if one in beside else _named(one, names) for one in child["needs"]]
        _task_name(root, child, names)


def _named(need: Json, names: Mapping[str, str]) -> Json:
    for old, new in names.items():
        if isinstance(need, str) and f"{need}/".startswith(f"{old}/"):
            return new + need.removeprefix(old)
    return need


# `--target` and `--exclude`: take only the changes within selected tasks.


def select_changes(old: JsonObject, new: JsonObject, targets: Sequence[str], excludes: Sequence[str]) -> JsonObject:
    """Return `old` with the parts of `new` that are within a target and outside all excludes. No targets: everything.

    If `old` has no ancestors of a target, they are added without their other children, and if `old` is empty, also the
    plan's own fields. Raises `BadAddress`.
    """
    out = new
    if targets:
        out = old or {name: value for name, value in new.items() if name != "tasks"}
        for target in targets:
            out = _transplanted(out, new, _target_path(target))
    for exclude in excludes:
        out = _transplanted(out, old, _target_path(exclude))
    return out


def _target_path(text: str) -> tuple[str, ...]:
    return addresses.parse_address(text).path


def _transplanted(into: JsonObject, source: JsonObject, path: tuple[str, ...]) -> JsonObject:
    """Return `into` with the task at `path` as in `source`; without the task if `source` has none."""
    where = json_pointer.task_pointer(path)
    if not where:
        return source
    if not json_pointer.has_value(source, where):
        return json_patch.apply_ops(into, [PatchOp("remove", where)]) if json_pointer.has_value(into, where) else into
    for depth in range(1, len(path)):
        into = _with_task(into, json_pointer.task_pointer(path[:depth]), source)
    return _added(into, where, json_pointer.value_at(source, where))


def _with_task(into: JsonObject, where: tuple[str, ...], source: JsonObject) -> JsonObject:
    if json_pointer.has_value(into, where):
        return into
    fields = {name: value for name, value in json_pointer.value_at(source, where).items() if name != "tasks"}
    return _added(into, where, fields)


def _added(into: JsonObject, where: tuple[str, ...], task: JsonObject) -> JsonObject:
    ops = [] if json_pointer.has_value(into, where[:-1]) else [PatchOp("add", where[:-1], {})]
    out: JsonObject = json_patch.apply_ops(into, [*ops, PatchOp("add", where, task)])
    return out


# A protected task stays protected when its lines are deleted: a file without a protected task does not remove it.


@frozen
class KeptTasks:
    """The document with protected tasks restored, and a line for each."""

    document: JsonObject
    notes: tuple[str, ...]


def keep_protected(live: JsonObject, wanted: JsonObject) -> KeptTasks:
    """Return `wanted` with all protected tasks of `live` that it does not have, except moved ones.

    Missing ancestors are restored with their own fields, but without their other children.
    """
    moved = declared_moves(wanted)
    notes = []
    for path in _protected(live):
        address = "task/" + "/".join(path)
        if address in moved or json_pointer.has_value(wanted, json_pointer.task_pointer(path)):
            continue
        wanted = _put_back(live, wanted, path)
        notes.append(f"{address} is protected and stays; to remove it: plan patch {address} protect=false, save again")
    return KeptTasks(wanted, tuple(notes))


def _protected(document: JsonObject, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, task in (document.get("tasks") or {}).items():
        path = (*at, name)
        if task.get("protect"):
            yield path
        yield from _protected(task, path)


def _put_back(live: JsonObject, wanted: JsonObject, path: tuple[str, ...]) -> JsonObject:
    for depth in range(1, len(path) + 1):
        here = json_pointer.task_pointer(path[:depth])
        if json_pointer.has_value(wanted, here):
            continue
        task: JsonObject = json_pointer.value_at(live, here)
        if depth < len(path):
            task = {name: value for name, value in task.items() if name != "tasks"}
        parent = json_pointer.value_at(wanted, here[:-2])
        ops = [] if "tasks" in parent else [json_patch.PatchOp("add", here[:-1], {})]
        wanted = json_patch.apply_ops(wanted, [*ops, json_patch.PatchOp("add", here, task)])
    return wanted


# A saved plan file as one patch: its changes since the last apply, merged into the live document.
#
# The bytes and the document of every applied file are stored as blobs; the document is the base of the next merge.
# After a rollback, the file is not applied again until its content changes.

HELD_BACK: Final = "the file is held back since the rollback: change and save it to have it applied again"


@frozen
class FileSave:
    """A saved and compiled file. `document` is its canonical document, `path` its path for people.

    `targets` and `excludes` are task addresses: only changes within a target and outside all excludes are applied.
    `is_approved`: a person has seen the differences and approves holds. `checked` is the compiler's result for
    `document`, used if nothing is merged into it; None to check it again.
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
    """The live document with the file's changes, and a line for each live value that they replaced."""

    document: JsonObject
    notes: tuple[str, ...]


def merge_file(save: FileSave, now: CurrentPlan, merge: MergeDocuments) -> MergedFile:
    """Merge the file's changes since its last apply into the live document."""
    wanted = applied_document(save, now)
    moves = declared_moves(wanted)
    both = merge(move_tasks(now.filed, moves), wanted, move_tasks(now.document, moves))
    return MergedFile(both.document, tuple(one.words for one in both.conflicts))


def applied_document(save: FileSave, now: CurrentPlan) -> JsonObject:
    """The document that counts as applied afterwards: the file's, or with targets only the selected parts."""
    return select_changes(now.filed, save.document, save.targets, save.excludes)


def file_patch(save: FileSave, now: CurrentPlan, document: JsonObject) -> Patch:
    """Return the patch by `human:file` from the live document to `document`."""
    ops = tuple(json_patch.diff_values(now.document, document))
    reason = save.reason or f"saved {save.path}"
    source = {
        "path": save.path,
        "blob": canonical_json.sha256_hex(save.content),
        "document": _digest(applied_document(save, now)),
    }
    return Patch(HUMAN_FILE, ops, now.rev, reason, source, save.is_approved)


def file_blobs(save: FileSave, now: CurrentPlan) -> tuple[bytes, ...]:
    """Return the contents that the patch of `save` names by digest."""
    return save.content, canonical_json.encode(applied_document(save, now))


def check_unless_compiled(save: FileSave, check: CheckDocument) -> CheckDocument:
    """Return a `check` that reuses the result for the document of `save`, which was already compiled."""
    known = save.checked
    if known is None:
        return check
    return lambda document: known if json_patch.same_json(save.document, document) else check(document)


def is_held_back(save: FileSave, now: CurrentPlan) -> bool:
    """Whether exactly this content was rolled back."""
    return now.file.get("held_back") == canonical_json.sha256_hex(save.content)


def _digest(document: JsonObject) -> str:
    return canonical_json.sha256_hex(canonical_json.encode(document))
