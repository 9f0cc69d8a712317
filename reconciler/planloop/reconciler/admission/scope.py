"""Which fields a patch may touch: an agent's scope, fields that the file owns, and changes since the author read. Pure.

People may change everything; the record lists what they overwrite. An agent may change only its own subtree and fields
opened to it, but no fields that the applied file sets, and no values that others changed after it read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

from planloop.reconciler.admission import field_ownership, hook_policy
from planloop.reconciler.admission.container_policy import CONTAINERS
from planloop.reconciler.admission.field_ownership import FieldStamp
from planloop.reconciler.current_plan import CurrentPlan
from planloop.schemas import json_pointer, limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.json_patch import PatchOp
from planloop.schemas.log.patch import Author, Patch, PatchProblem

OWN_FIELDS: Final = frozenset({"notes", "tasks", "prompts", "moved"})
"""Fields of its own task that an agent may change.

All others (goal, checks, rights, budget, agent …) belong to its parent.
"""

GUARDED: Final = frozenset({"open", "protect", "approve", "models", "limits"})
"""Fields only for people, even if opened: fields that open, protect or pause a task, models, and global limits."""

POWERS: Final = frozenset({"rights", "deny", "agent", "sandbox", "granted"})
"""Fields that define the rights of an agent. If a person set them last, agents cannot change them."""


def agent_task_path(author: Author) -> tuple[str, ...]:
    """The path of an agent's task: of `agent:frontend/ui` its path, of `agent:.` the root."""
    return () if author.name == "." else tuple(author.name.split("/"))


def scope_faults(patch: Patch, ops: Sequence[PatchOp], present: CurrentPlan) -> Iterator[PatchProblem]:
    """Yield operations that an agent may not make: outside its subtree and not opened, on its own terms, on the
    file's fields."""
    opened = open_patterns(present.document)
    for op in ops:
        is_open = any(_covers(pattern, op.path) for pattern in opened)
        if hook_policy.is_own_addition(patch.author, op, present) or op.path[:1] == (CONTAINERS,):
            continue  # The result is checked for containers (`planloop.reconciler.admission.container_policy`).
        fault = _outside(patch.author, op, is_open=is_open)
        if fault is None and not is_open and json_pointer.has_value(present.filed, op.path):
            fault = _filed(op)
        if fault is None and not is_open and POWERS.intersection(json_pointer.pointer_owner(op.path)[1][:1]):
            fault = _given(op, present)
        if fault is not None:
            yield fault


def conflict_faults(patch: Patch, ops: Sequence[PatchOp], present: CurrentPlan) -> Iterator[PatchProblem]:
    """Yield values that others changed after `base_rev`. The agent must decide again with the new value."""
    for op, stamp in _overtaken(patch, ops, present):
        where = json_pointer.render_pointer(op.path)
        yield PatchProblem(
            "conflict",
            f"{stamp.author} changed `{where}` in revision {stamp.rev}; you read revision "
            f"{patch.base_rev}. It now is {_shown(present.document, op.path)}",
            op.path,
            "read the plan again and decide based on the new value",
        )


def override_notes(patch: Patch, ops: Sequence[PatchOp], present: CurrentPlan) -> list[str]:
    """The changes of others that a person's patch overwrote since its base revision, one line each."""
    return [
        f"{json_pointer.render_pointer(op.path)}: replaced the value that {stamp.author} set in revision {stamp.rev}, "
        f"{_shown(present.document, op.path)}"
        for op, stamp in _overtaken(patch, ops, present)
    ]


def open_patterns(document: JsonObject) -> list[tuple[str, ...]]:
    """The patterns of paths that `open:` of any task lets agents change: fields of that task, or `/` pointers."""
    return [pattern for task, fields in declared_lists(document, "open") for pattern in _patterns(task, fields)]


def declared_lists(document: JsonObject, field: str) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield every task of `document` with its list `field`, as pointer tokens and texts; the root first."""
    waiting: list[tuple[tuple[str, ...], JsonObject]] = [((), document)]
    while waiting:
        at, task = waiting.pop()
        if task.get(field):
            yield at, task[field]
        children = task.get("tasks") or {}
        waiting += [((*at, "tasks", name), child) for name, child in children.items() if isinstance(child, dict)]


def pattern_covers(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """Whether `pattern` matches `path` or a parent of it. `*` matches within one token, `**` any number of tokens."""
    return _covers(tuple(pattern), tuple(path))


def _patterns(task: tuple[str, ...], fields: list[str]) -> Iterator[tuple[str, ...]]:
    for field in fields:
        tokens = json_pointer.parse_pointer(field) if field.startswith("/") else tuple(field.split("/"))
        yield (*task, *tokens)  # Only below the task that declares them.


def _covers(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    if not pattern:
        return True
    if pattern[0] == "**":
        return any(_covers(pattern[1:], path[skip:]) for skip in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], pattern[0]) and _covers(pattern[1:], path[1:])


def _outside(author: Author, op: PatchOp, *, is_open: bool) -> PatchProblem | None:
    _, field = json_pointer.pointer_owner(op.path)
    guarded = next(_guarded(field, op.value if op.op != "remove" else None), None)
    if guarded is not None:
        return PatchProblem("scope", f"only people may set `{guarded}`", op.path, "ask a person with `request`")
    own = json_pointer.task_pointer(agent_task_path(author))
    where, rest = json_pointer.render_pointer(op.path), op.path[len(own) :]
    if op.path[: len(own)] == own:
        if rest and rest[0] in OWN_FIELDS:
            return None
        what = f"`{rest[0]}` of your own task" if rest else "your own task as a whole"
        return PatchProblem(
            "scope", f"{what} belongs to its parent", op.path, "ask your parent or a person with `request`"
        )
    if is_open or (op.op == "add" and len(op.path) == 2 and op.path[0] == "prompts"):
        return None
    return PatchProblem(
        "scope",
        f"`{where}` is outside your subtree `{json_pointer.render_pointer(own) or '/'}`",
        op.path,
        "send a message to its agent; a person can also list the field under `open:`",
    )


def _guarded(field: Sequence[str], value: Json) -> Iterator[str]:
    """Yield the guarded fields that putting `value` at `field` of a task sets, also in tasks inside it."""
    if field and field[0] in GUARDED:
        yield field[0]
    if not isinstance(value, dict) or tuple(field) not in ((), ("tasks",)):
        return
    for name, inner in value.items():
        yield from _guarded((name,) if not field else (), inner)


def _given(op: PatchOp, present: CurrentPlan) -> PatchProblem | None:
    stamp = field_ownership.last_change(present.stamps, op.path)
    if stamp is None or not stamp.author.is_human or not json_pointer.has_value(present.document, op.path):
        return None
    return PatchProblem(
        "owner",
        f"`{json_pointer.render_pointer(op.path)}` was set by {stamp.author} in revision {stamp.rev}, "
        "so only people may change it",
        op.path,
        "ask with `request`; a person can also list the field under `open:`",
    )


def _filed(op: PatchOp) -> PatchProblem:
    where = json_pointer.render_pointer(op.path)
    return PatchProblem(
        "owner",
        f"`{where}` is written in the plan file, so only people may change it",
        op.path,
        "ask with `request`; a person can also list the field under `open:`",
    )


def _overtaken(patch: Patch, ops: Sequence[PatchOp], present: CurrentPlan) -> Iterator[tuple[PatchOp, FieldStamp]]:
    for op in ops:
        later = field_ownership.changes_since(present.stamps, op.path, patch.base_rev)
        others = [stamp for stamp in later if stamp.author != patch.author]
        if others:
            yield op, others[0]


def _shown(document: Json, path: Sequence[str]) -> str:
    if not json_pointer.has_value(document, path):
        return "gone"
    text = repr(json_pointer.value_at(document, path))
    return text if len(text) <= limits.VALUE_SHOWN_CHARS else text[: limits.VALUE_SHOWN_CHARS - 1] + "…"
