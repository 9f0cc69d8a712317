"""The plan tools: show the plan, and submit patches to the gate.

All are safe to repeat: if the owner crashes between the record of the gate and the record of the call, the patch is
submitted again and found to be applied. `task` is in `planloop.controllers.agent.tools.delegation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import AliasChoices, Field

from planloop.controllers.agent.tools.errors import ToolFailed
from planloop.controllers.agent.tools.tool import RegistryObjects, Settlement, ToolContext, failure, success
from planloop.reconciler.admission import field_ownership
from planloop.reconciler.admission.canonical_patch import ALIASES
from planloop.reconciler.admission.hook_policy import HOOKS
from planloop.reconciler.effects.truncate import truncate_output
from planloop.schemas import json_patch, json_pointer, limits
from planloop.schemas.canonical_json import Json, JsonObject, encode
from planloop.schemas.json_patch import OpName, PatchFailed, PatchOp
from planloop.schemas.log.patch import Patch, PatchAccepted, PatchHeld, PatchProblem, PatchRefused, PatchVerdict
from planloop.schemas.log.record import Change
from planloop.schemas.objects.call import CallResult, CallState

GOAL_CHARS: Final = 160

ALREADY_APPLIED: Final = "no change: the plan already has this value"


def plan_outline(view: RegistryObjects, address: str) -> str:
    """Return the tasks from `address` down, one per line, as `plan_view` shows them."""
    lines: list[str] = []
    _add(view, address, 0, lines)
    surplus = len(lines) - limits.OUTLINE_LINES_MAX
    if surplus > 0:
        lines[limits.OUTLINE_LINES_MAX :] = [f"[… {surplus} more tasks; use `path` to see them …]"]
    return "\n".join(lines)


def _add(view: RegistryObjects, address: str, depth: int, lines: list[str]) -> None:
    task = view.get(address)
    if task is None:
        return
    name = address.rpartition("/")[2]
    words = [f"{'  ' * depth}{name}", f"[{'removing' if task.deleting else task.state or 'new'}]"]
    goal = str(task.spec.get("goal", ""))
    words.append(goal if len(goal) <= GOAL_CHARS else goal[:GOAL_CHARS] + "…")
    result = task.status.get("result")
    if result is not None:
        words.append(f"→ {encode(result).decode()[:GOAL_CHARS]}")
    lines.append(" ".join(word for word in words if word))
    for child in task.spec.get("children", ()):
        _add(view, child, depth + 1, lines)


def live_document(context: ToolContext) -> JsonObject:
    """Return the current plan document."""
    plan = context.services.store.view.get(context.services.plan)
    return {} if plan is None else plan.spec


async def patch_as_agent(
    context: ToolContext, ops: Sequence[PatchOp], reason: str, changes: Sequence[Change] = ()
) -> Settlement:
    """Submit `ops` to the gate in the agent's name. It succeeds if the document already has these values.

    `changes` are appended with the patch if it is accepted, or with the call if the document needs no patch.
    """
    if all(_is_applied(context, op) for op in ops):
        return Settlement(success(ALREADY_APPLIED), tuple(changes))
    turn = context.seen.status.open
    base_rev = context.seen.plan_rev if turn is None else turn.news.base_rev
    patch = Patch(context.author, tuple(ops), base_rev, reason)
    gate = context.services.gate
    return verdict_settlement(await (gate.rule(patch, changes, ()) if changes else gate.submit(patch)))


def verdict_settlement(verdict: PatchVerdict, words: str = "accepted") -> Settlement:
    """Return the gate's verdict as a result. Its text has no revision, so that a replayed model reads the same text."""
    match verdict:
        case PatchAccepted(rev=rev, notes=notes):
            return Settlement(success("\n".join((words, *notes)), {"rev": rev}))
        case PatchHeld(approval=approval, why=why):
            text = f"held until a person approves it: {why}. You get a message with the decision"
            return Settlement(CallResult(CallState.SUCCEEDED, text, value={"held": approval}))
        case PatchRefused(faults=problems):
            return Settlement(failure("Refused", "\n".join(map(_describe, problems))))


def _describe(problem: PatchProblem) -> str:
    where = f" at {json_pointer.render_pointer(problem.path)}" if problem.path else ""
    return f"refused ({problem.rule}){where}: {problem.message}" + (f"\n  {problem.hint}" if problem.hint else "")


def _is_applied(context: ToolContext, op: PatchOp) -> bool:
    """Whether the plan already has the value that `op` sets, for example in a call that is repeated after a crash.

    For hooks, only if the agent set the value itself: it must not learn about hooks of others. Paths with an alias are
    left to the gate.
    """
    if not ALIASES.keys().isdisjoint(op.path) or (HOOKS in op.path and not _is_its_word(context, op)):
        return False
    plan = live_document(context)
    match op.op:
        case "remove":
            return not json_pointer.has_value(plan, op.path)
        case "add" | "replace" if op.path and op.path[-1] != "-":
            return json_pointer.has_value(plan, op.path) and json_pointer.value_at(plan, op.path) == op.value
        case _:
            return False


def _is_its_word(context: ToolContext, op: PatchOp) -> bool:
    """Whether the agent itself was the last to change the value at the path of `op`."""
    plan = context.services.store.view.get(context.services.plan)
    stamp = None if plan is None else field_ownership.last_change(plan.status.get("stamps", {}), op.path)
    return stamp is not None and stamp.author == context.author


PointerTokens = tuple[str, ...]


def plan_view(context: ToolContext, path: str = "") -> Settlement:
    """Show states, goals and results of your task, or of one below it such as `ui/tests`, and of all tasks below."""
    view = context.services.store.view
    address = "task/" + "/".join((*context.task_path, *(part for part in path.split("/") if part not in ("", "."))))
    address = "task/." if address == "task/" else address
    if view.get(address) is None:
        raise ToolFailed("NotFound", f"there is no {address}")
    # The revision is not in the text: a model that is replayed must read the same again.
    return Settlement(
        success(truncate_output(plan_outline(view, address).encode(), limits.FILE_SHOWN_BYTES), {"rev": view.rev})
    )


async def edit_plan(
    context: ToolContext,
    path: Annotated[str, Field(min_length=1)],
    value: Any = None,
    reason: Annotated[str, Field(max_length=limits.REASON_CHARS_MAX)] = "",
) -> Settlement:
    """Set one field of the plan, or remove it (null), in your subtree or where the plan allows it.

    Paths are `/tasks/ui/goal`, or `tasks/ui/goal` below your task.
    """
    tokens = _tokens(context.task_path, path)
    is_there = json_pointer.has_value(live_document(context), tokens)
    name: OpName = "remove" if value is None else "replace" if is_there else "add"
    return await patch_as_agent(context, [PatchOp(name, tokens, value)], reason or f"sets {path}")


async def plan_patch(
    context: ToolContext,
    ops: Annotated[list[dict[str, Any]], Field(min_length=1)],
    reason: Annotated[str, Field(max_length=limits.REASON_CHARS_MAX)] = "",
) -> Settlement:
    """Apply RFC 6902 operations to the plan, all or none. Paths without a leading `/` are below your task."""
    try:
        parsed = json_patch.ops_from_json(absolute_operation(context.task_path, raw) for raw in ops)
    except PatchFailed as error:
        raise ToolFailed("BadPatch", f"operation {error.index}: {error.reason}") from None
    return await patch_as_agent(context, parsed, reason)


async def terminate(
    context: ToolContext,
    name: Annotated[str, Field(min_length=1, validation_alias=AliasChoices("name", "id"))],
) -> Settlement:
    """Remove a child task and all tasks below it. Their work stops, their files stay."""
    path = [part for part in name.removeprefix("task/").split("/") if part]
    if tuple(path[: len(context.task_path)]) == context.task_path and len(path) > len(context.task_path):
        path = path[len(context.task_path) :]
    tokens = json_pointer.task_pointer((*context.task_path, *path))
    return await patch_as_agent(context, [PatchOp("remove", tokens)], f"terminates {name}")


def _tokens(task_path: PointerTokens, path: str) -> PointerTokens:
    try:
        if path.startswith("/"):
            return json_pointer.parse_pointer(path)
        return (*json_pointer.task_pointer(task_path), *json_pointer.parse_pointer("/" + path))
    except json_pointer.BadPointer as error:
        raise ToolFailed("BadPath", str(error)) from None


def absolute_operation(task_path: PointerTokens, raw: Json) -> Json:
    """Return an agent's operation with absolute paths: a path without a leading `/` is below its own task.

    Raises ToolFailed.
    """
    if not isinstance(raw, dict):
        return raw
    paths = {
        key: json_pointer.render_pointer(_tokens(task_path, str(raw[key]))) for key in ("path", "from") if key in raw
    }
    return raw | paths
