"""Pause, resume and cancel tasks on request of an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planloop.client import references
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.presenters import revisions
from planloop.reconciler.store.store import View
from planloop.schemas import address as addresses
from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import PatchOp
from planloop.schemas.log.patch import Patch, PatchRefused
from planloop.schemas.objects.agent import WITHOUT_MODEL
from planloop.schemas.objects.container import ContainerState
from planloop.schemas.objects.task import TaskState
from planloop.schemas.resource import Resource, conditions_of_status
from planloop.server.opened_plan import OpenedPlan
from planloop.server.payloads import author_of, decision_to_json, preview_to_json

ROOT: Final = "task/."


@frozen
class ControlSteps:
    """The operations to apply. `before` is a separate patch before it, after which its tasks start again."""

    ops: tuple[PatchOp, ...]
    before: tuple[PatchOp, ...] = ()


async def control_tasks(core: OpenedPlan, body: JsonObject) -> JsonObject:
    """Pause, resume or cancel (`do`) each of `what`; with `dry_run`, only preview that.

    Raises CommandError: NOT_FOUND, USAGE.
    """
    gate, view = core.gate, core.store.view
    named = [references.resolve_address(str(word)) for word in body["what"]]
    steps = control_steps(view, gate.present.document, str(body["do"]), named)
    author, reason = author_of(body), str(body.get("reason", ""))
    if body.get("dry_run"):
        preview = gate.preview(Patch(author, steps.ops, gate.present.rev, reason))
        return preview_to_json(preview) | revisions.differences_json(
            [one.to_json() for one in preview.differences], core.clock.now()
        )
    if steps.before:
        decision = await gate.decide(Patch(author, steps.before, gate.present.rev))
        if isinstance(decision.verdict, PatchRefused):
            return decision_to_json(decision)
    return decision_to_json(await gate.decide(Patch(author, steps.ops, gate.present.rev, reason)))


def control_steps(view: View, document: JsonObject, do: str, named: Sequence[str]) -> ControlSteps:
    """Return the patch that pauses, cancels or resumes the named objects. Raises CommandError."""
    if do == "resume":
        return _resumed(view, document, named)
    paths = [task_path(document, address) for address in named]
    return ControlSteps(tuple(PatchOp("add", (*path, do), True) for path in paths))


def task_path(document: JsonObject, address: str) -> tuple[str, ...]:
    """Return the path of the task at `address` in the document. Raises CommandError if it is not a task."""
    kind, _, name = address.partition("/")
    if kind != "task":
        hint = f"name its task: task/{name}" if kind == "agent" else "plan get tasks lists them"
        raise CommandError(ExitCode.USAGE, f"{address} is not a task", hint)
    path = references.field_path(address, "")
    if not json_pointer.has_value(document, path):
        raise CommandError(ExitCode.NOT_FOUND, f"no {address} in this plan", "plan get tasks -o name lists them")
    return path


def _resumed(view: View, document: JsonObject, named: Sequence[str]) -> ControlSteps:
    """Remove `pause` and `cancel` from each task, run its failed tasks again, and repeat requests to failed models.

    Failed containers are recreated if they are named, or if the root task is.
    """
    tasks = [one for one in named if not _is_container(one)]
    fields_at = [(*task_path(document, one), field) for one in tasks for field in ("pause", "cancel")]
    ops = [PatchOp("remove", at) for at in fields_at if json_pointer.has_value(document, at)]
    ops += _recreated(view, named)
    roots = [addresses.parse_address(one) for one in tasks]
    unasked: list[tuple[str, ...]] = []
    for task in view.list("task"):
        address = addresses.parse_address(task.address)
        if task.spec["work"]["kind"] == "group" or not any(address.is_within(root) for root in roots):
            continue
        at = json_pointer.task_pointer(address.path)
        if task.state == TaskState.FAILED:
            ops.append(PatchOp("add", (*at, "again"), task.spec.get("again", 0) + 1))
        elif _lacks_model(task):
            unasked.append((*at, "pause"))
    # Pausing and resuming a task keeps the agent's work. The agent repeats the request because its task has changed.
    ops += [PatchOp("remove", at) for at in unasked]
    return ControlSteps(tuple(ops), tuple(PatchOp("add", at, True) for at in unasked))


def _recreated(view: View, named: Sequence[str]) -> list[PatchOp]:
    """Return the operations that recreate the failed containers in `named`, or all failed ones with the root task."""
    found = [_container(view, one) for one in named if _is_container(one)]
    if ROOT in named:
        found = list(view.list("container"))
    return [
        PatchOp("add", references.field_path(one.address, "again"), one.spec["again"] + 1)
        for one in found
        if one.state == ContainerState.FAILED
    ]


def _container(view: View, address: str) -> Resource:
    found = view.get(address)
    if found is None:
        raise CommandError(ExitCode.NOT_FOUND, f"no {address} in this plan", "plan get containers -o name lists them")
    return found


def _is_container(address: str) -> bool:
    return address.startswith("container/")


def _lacks_model(task: Resource) -> bool:
    """Return whether the task's agent is blocked because its model is not available."""
    ready = conditions_of_status(task.status).get("Ready")
    return task.state == TaskState.BLOCKED and ready is not None and ready.reason in WITHOUT_MODEL
