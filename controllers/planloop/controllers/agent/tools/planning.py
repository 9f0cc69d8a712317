"""The plan tools: each makes a patch, and the gate answers at once.

All are safe to repeat: when the owner dies between the gate's record and the call's own, the patch is made again and
found to be in the plan already, so nothing is done twice. `task` is in `delegating.py`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AliasChoices, Field

from planloop.controllers.agent.tools.faults import ToolFailed
from planloop.controllers.agent.tools.outline import outline
from planloop.controllers.agent.tools.patching import document, submit
from planloop.controllers.agent.tools.tool import Context, Settlement, ok
from planloop.reconciler.effects.clamping import clamped
from planloop.schemas import limits, patching, pointer
from planloop.schemas.encoding import Json
from planloop.schemas.patching import Op, OpName, PatchFailed

Tokens = tuple[str, ...]


def plan_view(
    context: Context, path: Annotated[str, Field(description="A task below your own, as in `ui/tests`.")] = ""
) -> Settlement:
    """Shows the plan from your task (or one below it) down: states, goals, results."""
    view = context.world.store.view
    address = "task/" + "/".join((*context.task_path, *(part for part in path.split("/") if part not in ("", "."))))
    address = "task/." if address == "task/" else address
    if view.get(address) is None:
        raise ToolFailed("NotFound", f"there is no {address}")
    # The revision is not in the text: a model that is replayed must read the same again.
    return Settlement(ok(clamped(outline(view, address).encode(), limits.FILE_SHOWN_BYTES), {"rev": view.rev}))


async def edit_plan(
    context: Context,
    path: Annotated[str, Field(min_length=1, description="`/tasks/ui/goal`, or below your own task: `tasks/ui/goal`.")],
    value: Annotated[Any, Field(description="The new value; null removes the field.")] = None,
    reason: Annotated[str, Field(max_length=limits.REASON_CHARS_MAX)] = "",
) -> Settlement:
    """Sets or removes one field of the plan, in your own subtree or where the plan leaves it open."""
    tokens = _tokens(context.task_path, path)
    is_there = pointer.has(document(context), tokens)
    name: OpName = "remove" if value is None else "replace" if is_there else "add"
    return await submit(context, [Op(name, tokens, value)], reason or f"sets {path}")


async def plan_patch(
    context: Context,
    ops: Annotated[list[dict[str, Any]], Field(min_length=1, description="RFC 6902 operations on the plan.")],
    reason: Annotated[str, Field(max_length=limits.REASON_CHARS_MAX)] = "",
) -> Settlement:
    """Applies operations to the plan, all or none. Paths without a leading `/` are below your own task."""
    try:
        parsed = patching.ops_from_json(absolute(context.task_path, raw) for raw in ops)
    except PatchFailed as error:
        raise ToolFailed("BadPatch", f"operation {error.index}: {error.reason}") from None
    return await submit(context, parsed, reason)


async def terminate(
    context: Context,
    name: Annotated[str, Field(min_length=1, validation_alias=AliasChoices("name", "id"), description="A child's id.")],
) -> Settlement:
    """Removes a child task and everything below it; its work is stopped, its files stay."""
    path = [part for part in name.removeprefix("task/").split("/") if part]
    if tuple(path[: len(context.task_path)]) == context.task_path and len(path) > len(context.task_path):
        path = path[len(context.task_path) :]
    tokens = pointer.of_task((*context.task_path, *path))
    return await submit(context, [Op("remove", tokens)], f"terminates {name}")


def _tokens(task_path: Tokens, path: str) -> Tokens:
    try:
        if path.startswith("/"):
            return pointer.parse(path)
        return (*pointer.of_task(task_path), *pointer.parse("/" + path))
    except pointer.BadPointer as error:
        raise ToolFailed("BadPath", str(error)) from None


def absolute(task_path: Tokens, raw: Json) -> Json:
    """An operation of an agent with paths from the root: without a leading `/` they are below its own task.

    Raises ToolFailed.
    """
    if not isinstance(raw, dict):
        return raw
    paths = {key: pointer.render(_tokens(task_path, str(raw[key]))) for key in ("path", "from") if key in raw}
    return raw | paths
