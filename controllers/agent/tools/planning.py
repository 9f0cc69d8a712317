"""The plan tools: each makes a patch, and the gate answers at once.

All are safe to repeat: when the owner dies between the gate's record and the call's own, the patch is made again and
found to be in the plan already (`_holds`), so nothing is done twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Unpack

from pydantic import AliasChoices, Field

from controllers.agent.tools.faults import ToolFailed
from controllers.agent.tools.outline import outline
from controllers.agent.tools.sketching import TaskFields, sketched
from controllers.agent.tools.tool import Context, Settlement, failure, ok
from reconciler.effects.clamping import clamped
from schemas import limits, patching, pointer
from schemas.call import CallResult, CallState
from schemas.encoding import Json, JsonObject
from schemas.patch import Accepted, Fault, Held, Patch, Refused
from schemas.patching import Op, OpName, PatchFailed

Tokens = tuple[str, ...]


def plan_view(
    context: Context, path: Annotated[str, Field(description="A task below your own, as in `ui/tests`.")] = ""
) -> Settlement:
    """Shows the plan from your task (or one below it) down: states, goals, results, and the revision."""
    view = context.world.store.view
    address = "task/" + "/".join((*context.task_path, *(part for part in path.split("/") if part not in ("", "."))))
    address = "task/." if address == "task/" else address
    if view.get(address) is None:
        raise ToolFailed("NotFound", f"there is no {address}")
    text = f"revision {view.rev}\n{outline(view, address)}"
    return Settlement(ok(clamped(text.encode(), limits.FILE_SHOWN_BYTES)))


async def task(context: Context, **fields: Unpack[TaskFields]) -> Settlement:
    """Adds a child task, or several under `tasks`. You are woken when one ends, fails or asks."""
    given: Sequence[Json] = fields.get("tasks") or [dict(fields)]
    nodes = [sketched(raw) for raw in given]
    names = [name for name, _ in nodes]
    if len(set(names)) < len(names):
        raise ToolFailed("SameId", f"two of these have the same id: {', '.join(names)}")
    fresh = [(name, node) for name, node in nodes if not _is_added(context, name)]
    if not fresh:
        return Settlement(ok(f"{', '.join(names)} are in the plan"))
    own = (*pointer.of_task(context.task_path), "tasks")
    ops = [Op("add", (*own, name), node) for name, node in fresh]
    if not pointer.has(_document(context), own):
        ops = [Op("add", own, dict(fresh))]
    return await _submit(context, ops, f"adds {', '.join(names)}")


def _is_added(context: Context, name: str) -> bool:
    """Whether this call added the child before a crash. Raises ToolFailed when somebody else has."""
    present = context.world.store.view.get("task/" + "/".join((*context.task_path, name)))
    if present is None:
        return False
    turn = context.seen.status.open
    if turn is None or present.created_rev <= turn.base_rev:
        raise ToolFailed("Exists", f"there is a `{name}` already: change it with `edit_plan`, or take another id")
    return True


async def edit_plan(
    context: Context,
    path: Annotated[str, Field(min_length=1, description="`/tasks/ui/goal`, or below your own task: `tasks/ui/goal`.")],
    value: Annotated[Any, Field(description="The new value; null removes the field.")] = None,
    reason: Annotated[str, Field(max_length=limits.REASON_CHARS_MAX)] = "",
) -> Settlement:
    """Sets or removes one field of the plan, in your own subtree or where the plan leaves it open."""
    tokens = _tokens(context, path)
    is_there = pointer.has(_document(context), tokens)
    name: OpName = "remove" if value is None else "replace" if is_there else "add"
    return await _submit(context, [Op(name, tokens, value)], reason or f"sets {path}")


async def plan_patch(
    context: Context,
    ops: Annotated[list[dict[str, Any]], Field(min_length=1, description="RFC 6902 operations on the plan.")],
    reason: Annotated[str, Field(max_length=limits.REASON_CHARS_MAX)] = "",
) -> Settlement:
    """Applies operations to the plan, all or none. Paths without a leading `/` are below your own task."""
    try:
        parsed = [patching.op_from_json(index, _absolute(context, raw)) for index, raw in enumerate(ops)]
    except PatchFailed as error:
        raise ToolFailed("BadPatch", f"operation {error.index}: {error.reason}") from None
    return await _submit(context, parsed, reason)


async def terminate(
    context: Context,
    name: Annotated[str, Field(min_length=1, validation_alias=AliasChoices("name", "id"), description="A child's id.")],
) -> Settlement:
    """Removes a child task and everything below it; its work is stopped, its files stay."""
    path = [part for part in name.removeprefix("task/").split("/") if part]
    if tuple(path[: len(context.task_path)]) == context.task_path and len(path) > len(context.task_path):
        path = path[len(context.task_path) :]
    tokens = pointer.of_task((*context.task_path, *path))
    return await _submit(context, [Op("remove", tokens)], f"terminates {name}")


def _document(context: Context) -> JsonObject:
    plan = context.world.store.view.get(context.world.plan)
    return {} if plan is None else plan.spec


def _tokens(context: Context, path: str) -> Tokens:
    try:
        if path.startswith("/"):
            return pointer.parse(path)
        return (*pointer.of_task(context.task_path), *pointer.parse("/" + path))
    except pointer.BadPointer as error:
        raise ToolFailed("BadPath", str(error)) from None


def _absolute(context: Context, raw: Json) -> Json:
    if not isinstance(raw, dict):
        return raw
    paths = {key: pointer.render(_tokens(context, str(raw[key]))) for key in ("path", "from") if key in raw}
    return raw | paths


async def _submit(context: Context, ops: Sequence[Op], reason: str) -> Settlement:
    document = _document(context)
    if _holds(document, ops):
        return Settlement(ok("the plan is so already"))
    turn = context.seen.status.open
    base_rev = context.seen.plan_rev if turn is None else turn.base_rev
    verdict = await context.world.gate.submit(Patch(context.author, tuple(ops), base_rev, reason))
    match verdict:
        case Accepted(rev=rev, notes=notes):
            return Settlement(ok("\n".join((f"accepted, revision {rev}", *notes)), {"rev": rev}))
        case Held(approval=approval, why=why):
            words = f"held as {approval}: {why}. You are told the answer"
            return Settlement(CallResult(CallState.SUCCEEDED, words, value={"held": approval}))
        case Refused(faults=faults):
            return Settlement(failure("Refused", "\n".join(_words(fault) for fault in faults)))


def _words(fault: Fault) -> str:
    where = f" at {pointer.render(fault.path)}" if fault.path else ""
    return f"refused ({fault.rule}){where}: {fault.message}" + (f"\n  {fault.hint}" if fault.hint else "")


def _holds(document: JsonObject, ops: Sequence[Op]) -> bool:
    """Whether the plan already says what these operations would make it say."""
    return all(_op_holds(document, op) for op in ops)


def _op_holds(document: JsonObject, op: Op) -> bool:
    match op.op:
        case "remove":
            return not pointer.has(document, op.path)
        case "add" | "replace" if op.path and op.path[-1] != "-":
            return pointer.has(document, op.path) and pointer.get(document, op.path) == op.value
        case _:
            return False
