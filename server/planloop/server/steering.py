"""A person pauses, resumes or cancels tasks: one field of each, set through the gate, and what goes on anew with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planloop.app import pointing
from planloop.app.core import Core
from planloop.app.exits import Exit, Halt
from planloop.app.telling import revisions
from planloop.reconciler.storing.store import View
from planloop.schemas import address as addresses
from planloop.schemas import pointer
from planloop.schemas.agent import WITHOUT_MODEL
from planloop.schemas.condition import of_status
from planloop.schemas.container import ContainerState
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.patch import Patch, Refused
from planloop.schemas.patching import Op
from planloop.schemas.resource import Resource
from planloop.schemas.task import TaskState
from planloop.server.authors import author_of
from planloop.server.forms import decision_to_json, preview_to_json

ROOT: Final = "task/."


@frozen
class Steps:
    """What is to be patched. `before` is a patch of its own, which has what it touches begin anew."""

    ops: tuple[Op, ...]
    before: tuple[Op, ...] = ()


async def steer(core: Core, body: JsonObject) -> JsonObject:
    """Does what `body` asks for (`do`: pause, resume or cancel) to each of `what`. Raises Halt: NOT_FOUND, USAGE.

    With `dry_run` only says what it would do.
    """
    gate, view = core.gate, core.store.view
    named = [pointing.address_of(str(word)) for word in body["what"]]
    steps = steps_of(view, gate.present.document, str(body["do"]), named)
    author, reason = author_of(body), str(body.get("reason", ""))
    if body.get("dry_run"):
        preview = gate.preview(Patch(author, steps.ops, gate.present.rev, reason))
        return preview_to_json(preview) | revisions.told(
            [one.to_json() for one in preview.differences], core.clock.now()
        )
    if steps.before:
        decision = await gate.decide(Patch(author, steps.before, gate.present.rev))
        if isinstance(decision.verdict, Refused):
            return decision_to_json(decision)
    return decision_to_json(await gate.decide(Patch(author, steps.ops, gate.present.rev, reason)))


def steps_of(view: View, document: JsonObject, do: str, named: Sequence[str]) -> Steps:
    """The patch that pauses, cancels or resumes what is named. Raises Halt."""
    if do == "resume":
        return _resumed(view, document, named)
    paths = [path_of(document, address) for address in named]
    return Steps(tuple(Op("add", (*path, do), True) for path in paths))


def path_of(document: JsonObject, address: str) -> tuple[str, ...]:
    """Where the task at `address` stands in the document. Raises Halt for what is no task there."""
    kind, _, name = address.partition("/")
    if kind != "task":
        hint = f"name the task that it works for: task/{name}" if kind == "agent" else "plan get tasks lists them"
        raise Halt(Exit.USAGE, f"{address} is not a task", hint)
    path = pointing.field_of(address, "")
    if not pointer.has(document, path):
        raise Halt(Exit.NOT_FOUND, f"no {address} in this plan", "plan get tasks -o name lists what there is")
    return path


def _resumed(view: View, document: JsonObject, named: Sequence[str]) -> Steps:
    """Takes `pause` and `cancel` away from each task, has what failed in it run again, and models asked again.

    A container that is named, or any with the root task, is made anew if it failed.
    """
    tasks = [one for one in named if not _is_container(one)]
    fields_at = [(*path_of(document, one), field) for one in tasks for field in ("pause", "cancel")]
    ops = [Op("remove", at) for at in fields_at if pointer.has(document, at)]
    ops += _made_anew(view, named)
    roots = [addresses.parse(one) for one in tasks]
    unasked: list[tuple[str, ...]] = []
    for task in view.list("task"):
        address = addresses.parse(task.address)
        if task.spec["work"]["kind"] == "group" or not any(address.is_within(root) for root in roots):
            continue
        at = pointer.of_task(address.path)
        if task.state == TaskState.FAILED:
            ops.append(Op("add", (*at, "again"), task.spec.get("again", 0) + 1))
        elif _lacks_model(task):
            unasked.append((*at, "pause"))
    # Pausing and going on keeps all that the agents have done; they ask anew because their tasks were touched.
    ops += [Op("remove", at) for at in unasked]
    return Steps(tuple(ops), tuple(Op("add", at, True) for at in unasked))


def _made_anew(view: View, named: Sequence[str]) -> list[Op]:
    """What has those containers of `named` that failed, all with the root task, made anew."""
    found = [_container(view, one) for one in named if _is_container(one)]
    if ROOT in named:
        found = list(view.list("container"))
    return [
        Op("add", pointing.field_of(one.address, "again"), one.spec["again"] + 1)
        for one in found
        if one.state == ContainerState.FAILED
    ]


def _container(view: View, address: str) -> Resource:
    found = view.get(address)
    if found is None:
        raise Halt(Exit.NOT_FOUND, f"no {address} in this plan", "plan get containers -o name lists what there is")
    return found


def _is_container(address: str) -> bool:
    return address.startswith("container/")


def _lacks_model(task: Resource) -> bool:
    """Whether its agent waits for somebody to look after the model that it could not ask."""
    ready = of_status(task.status).get("Ready")
    return task.state == TaskState.BLOCKED and ready is not None and ready.reason in WITHOUT_MODEL
