"""What pause, resume, cancel and delete have in common: one field of some tasks, set through the gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planloop import pointing
from planloop.access import Access
from planloop.cli import patching, selecting
from planloop.cli.options import access_to
from planloop.cli.patch import document_of
from planloop.exits import Exit, Halt
from planloop.verdicts import refusal
from schemas import address as addresses
from schemas import pointer
from schemas.agent import WITHOUT_MODEL
from schemas.condition import of_status
from schemas.container import ContainerState, is_left
from schemas.encoding import Json, JsonObject
from schemas.resource import Resource
from schemas.task import TaskState

ROOT: Final = "task/."


def set_field(what: Sequence[str], plan: str | None, field: str, value: Json, *, reason: str, dry_run: bool) -> None:
    """Sets `field` of each task to `value`. Raises Halt for a task that there is not."""
    access = access_to(plan)
    paths = paths_of(document_of(access), what)
    ops: list[JsonObject] = [{"op": "add", "path": pointer.render((*path, field)), "value": value} for path in paths]
    patching.submit(access, ops, reason=reason, dry_run=dry_run)


def resume(what: Sequence[str], plan: str | None, *, reason: str, dry_run: bool) -> None:
    """Takes `pause` and `cancel` away from each task, has what failed in it run again, and models asked again.

    A container that is named, or any with the root task, is made anew if it failed. Raises Halt.
    """
    access = access_to(plan)
    document = document_of(access)
    named = [pointing.address_of(word) for word in what]
    tasks = [one for one in named if not _is_container(one)]
    fields_at = [(*path, field) for path in paths_of(document, tasks) for field in ("pause", "cancel")]
    ops: list[JsonObject] = [
        {"op": "remove", "path": pointer.render(at)} for at in fields_at if pointer.has(document, at)
    ]
    ops += _made_anew(access, named)
    roots = [addresses.parse(one) for one in tasks]
    unasked: list[str] = []
    for task in selecting.selected(access, ("tasks",)):
        address = addresses.parse(task.address)
        if task.spec["work"]["kind"] == "group" or not any(address.is_within(root) for root in roots):
            continue
        if task.state == TaskState.FAILED:
            at = pointer.render((*pointer.of_task(address.path), "again"))
            ops.append({"op": "add", "path": at, "value": task.spec.get("again", 0) + 1})
        elif _lacks_model(task):
            unasked.append(pointer.render((*pointer.of_task(address.path), "pause")))
    if unasked and not dry_run:
        # Pausing and going on keeps all that the agents have done; they ask anew because their tasks were touched.
        verdict = access.post("patch", {"ops": [{"op": "add", "path": at, "value": True} for at in unasked]})
        if verdict["verdict"] == "refused":
            raise refusal(verdict)
        ops += [{"op": "remove", "path": at} for at in unasked]
    patching.submit(access, ops, reason=reason, dry_run=dry_run)


def _made_anew(access: Access, named: Sequence[str]) -> list[JsonObject]:
    """What has those containers of `named` that failed, all with the root task, made anew."""
    found = [access.object(one) for one in named if _is_container(one)]
    if ROOT in named:
        found = access.objects("container")
    return [
        {"op": "add", "path": pointer.render(pointing.field_of(one.address, "again")), "value": one.spec["again"] + 1}
        for one in found
        if one.state == ContainerState.FAILED
    ]


def _is_container(address: str) -> bool:
    return address.startswith("container/")


def _lacks_model(task: Resource) -> bool:
    """Whether its agent waits for somebody to look after the model that it could not ask."""
    ready = of_status(task.status).get("Ready")
    return task.state == TaskState.BLOCKED and ready is not None and ready.reason in WITHOUT_MODEL


def remove(what: Sequence[str], plan: str | None, *, reason: str, dry_run: bool) -> None:
    """Takes tasks out of the plan with all that is below them, and containers; one that was only kept is thrown away.

    Raises Halt for what there is not.
    """
    access = access_to(plan)
    kept, document = kept_of(access, what), document_of(access)
    paths = [_removable(document, pointing.address_of(word)) for word in what if word not in kept]
    if kept:
        from planloop.cli import discarding

        discarding.discard(access, [pointing.address_of(word) for word in kept], dry_run=dry_run)
        if not paths:
            return
    if () in paths:
        hint = "plan cancel . stops all of it · plan down ends its process"
        raise Halt(Exit.USAGE, "the root task is the plan itself and cannot be removed from it", hint)
    ops = [{"op": "remove", "path": pointer.render(path)} for path in paths]
    patching.submit(access, ops, reason=reason, dry_run=dry_run)


def kept_of(access: Access, what: Sequence[str]) -> list[str]:
    """Those words that name a container of which only a stopped one is left."""
    named = [word for word in what if _is_container(pointing.address_of(word))]
    found = {word: access.object(pointing.address_of(word)) for word in named}
    return [word for word, one in found.items() if is_left(one.state, one.status)]


def _removable(document: JsonObject, address: str) -> tuple[str, ...]:
    if not _is_container(address):
        return _path_of(document, address)
    path = pointing.field_of(address, "")
    if not pointer.has(document, path):
        raise Halt(Exit.NOT_FOUND, f"no {address} in this plan", "plan get containers -o name lists what there is")
    return path


def paths_of(document: JsonObject, what: Sequence[str]) -> list[tuple[str, ...]]:
    """Where the tasks named by `what` stand in the document. Raises Halt."""
    return [_path_of(document, pointing.address_of(word)) for word in what]


def _path_of(document: JsonObject, address: str) -> tuple[str, ...]:
    kind, _, name = address.partition("/")
    if kind != "task":
        hint = f"name the task that it works for: task/{name}" if kind == "agent" else "plan get tasks lists them"
        raise Halt(Exit.USAGE, f"{address} is not a task", hint)
    path = pointing.field_of(address, "")
    if not pointer.has(document, path):
        raise Halt(Exit.NOT_FOUND, f"no {address} in this plan", "plan get tasks -o name lists what there is")
    return path
