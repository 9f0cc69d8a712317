"""Resources that an MCP client may read: tasks, messages, locks. Pure.

An identity sees what its agents see: its own part of the plan, and who has which files. Every address that a record
changes is one of these resources or none, so that subscriptions come from the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.controllers.agent.tools.plan import plan_outline
from planloop.schemas import address as addresses
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.lock import lock_status_from_json
from planloop.schemas.objects.message import message_from_json
from planloop.server.mcp.leases import ExternalRole
from planloop.server.plan_reader import ObjectReader

SCHEME: Final = "planloop://"
JSON: Final = "application/json"
TEXT: Final = "text/plain"


@frozen
class ListedResource:
    """One resource as it is listed."""

    uri: str
    name: str
    words: str
    mime: str


def list_resources(plan: str, parts: Sequence[ExternalRole]) -> list[ListedResource]:
    """The resources of an identity with these tasks."""
    site = f"{SCHEME}{plan}"
    shown = [
        ListedResource(f"{site}/plan", "plan", "Your tasks and all below them: states, goals, results.", TEXT),
        ListedResource(f"{site}/tasks", "tasks", "The tasks that you may take, and who has them.", JSON),
        ListedResource(f"{site}/locks", "locks", "Who has which files, and who waits for them.", JSON),
    ]
    for part in parts:
        shown += [
            ListedResource(
                f"{site}/task/{part.path}", part.task.address, "Goal, checks, state and result of the task.", JSON
            ),
            ListedResource(
                f"{site}/messages/{part.path}", f"messages for {part.task.address}", "What is not read yet.", JSON
            ),
        ]
    return shown


def resource_templates(plan: str) -> list[ListedResource]:
    """What stands for resources that are not listed one by one."""
    uri = f"{SCHEME}{plan}/task/{{+path}}"
    return [
        ListedResource(uri, "task", "One of your tasks or one below, by its path as list_tasks and plan have it.", JSON)
    ]


def read_resource(
    objects: ObjectReader, plan: str, parts: Sequence[ExternalRole], uri: str
) -> tuple[str | JsonObject, str]:
    """The content of `uri`, and its type. Raises CommandError: NOT_FOUND for what is not there or not this
    identity's.
    """
    kind, _, path = uri.removeprefix(f"{SCHEME}{plan}/").partition("/")
    mine = [part for part in parts if part.path == path]
    match kind:
        case "plan" if not path:
            return "\n".join(plan_outline(objects, part.task.address) for part in _topmost(parts)), TEXT
        case "tasks" if not path:
            return {"tasks": [task_summary(part) for part in parts]}, JSON
        case "locks" if not path:
            return {"locks": [_lock(each.address, each.status) for each in objects.list("lock")]}, JSON
        case "messages" if mine:
            return {"messages": _messages(mine[0])}, JSON
        case "task" if _is_within(path, [part.path for part in parts]):
            return _task(objects, path), JSON
    raise CommandError(ExitCode.NOT_FOUND, f"you have no resource {uri}", "resources/list names those there are")


def changed_resources(plan: str, mine: Sequence[str], changed: Iterable[str]) -> set[str]:
    """The resources of an identity with the tasks at the paths `mine` that are others now that these have changed."""
    site, found = f"{SCHEME}{plan}", set[str]()
    for address in changed:
        kind, _, path = address.partition("/")
        if kind == "lock":
            found.add(f"{site}/locks")
        elif kind in ("task", "agent") and _is_within(path, mine):
            found |= {f"{site}/task/{path}", f"{site}/plan"}
            if path in mine:
                found |= {f"{site}/tasks", f"{site}/messages/{path}"}
    return found


def task_summary(part: ExternalRole) -> JsonObject:
    """A task of the identity in short."""
    ready = part.task.status.get("conditions", {}).get("Ready") or {}
    out: JsonObject = {"task": part.path, "goal": part.task.spec.get("goal", ""), "state": part.task.state or "waiting"}
    out |= {"is_free": part.is_free, "taken_by": part.holder or None}
    return out | {"why": str(ready.get("message") or "")}


def _task(objects: ObjectReader, path: str) -> JsonObject:
    task = objects.get(f"task/{path}")
    if task is None:
        raise CommandError(ExitCode.NOT_FOUND, f"there is no task/{path}", "the resource `plan` has those there are")
    spec, status = task.spec, task.status
    ready = status.get("conditions", {}).get("Ready") or {}
    agent = objects.get(f"agent/{path}")
    seat = None if agent is None else agent.status.get("seat")
    return {
        "task": path,
        "goal": spec.get("goal", ""),
        "notes": spec.get("notes", ""),
        "acceptance": spec.get("acceptance", []),
        "needs": spec.get("needs", []),
        "children": spec.get("children", []),
        "state": task.state or "waiting",
        "why": str(ready.get("message") or ""),
        "unblocks": list(ready.get("unblocks") or ()),
        "result": status.get("result"),
        "taken_by": None if seat is None else seat.get("client"),
    }


def _messages(part: ExternalRole) -> list[Json]:
    inbox = (message_from_json(raw) for raw in (part.agent.status.get("inbox") or {}).values())
    found = sorted(inbox, key=lambda each: (each.sent_at, each.id))
    return [{"id": each.id, "kind": each.kind, "from": each.sender, "body": each.body} for each in found]


def _lock(address: str, status: JsonObject) -> JsonObject:
    lock = lock_status_from_json(status)
    holders = [
        {"owner": one.owner, "mode": one.mode, "since": one.since, "reason": one.reason}
        for one in sorted(lock.holders.values(), key=lambda each: each.since)
    ]
    waiters = [{"owner": one.owner, "mode": one.mode, "reason": one.reason} for one in lock.waiters.values()]
    return {"path": address.partition("/")[2], "holders": holders, "waiters": waiters}


def _topmost(parts: Sequence[ExternalRole]) -> list[ExternalRole]:
    """Those that are not below another: each is shown once."""
    return [one for one in parts if not any(_is_below(one.path, each.path) for each in parts)]


def _is_within(path: str, mine: Iterable[str]) -> bool:
    return bool(path) and any(path == one or _is_below(path, one) for one in mine)


def _is_below(path: str, other: str) -> bool:
    return path != other and (other == addresses.ROOT or path.startswith(f"{other}/"))
