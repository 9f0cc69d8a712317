"""Resources that an MCP client may read: tasks, messages, locks. Pure.

An identity sees what its agents see: its part of the plan, and all file locks. The addresses that a record changes
determine the changed resources, so the log drives subscriptions.
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
    """A resource in the list of resources."""

    uri: str
    name: str
    words: str
    mime: str


def list_resources(plan: str, parts: Sequence[ExternalRole]) -> list[ListedResource]:
    """Return the resources of an identity with these tasks."""
    site = f"{SCHEME}{plan}"
    shown = [
        ListedResource(f"{site}/plan", "plan", "Your tasks and their subtasks: states, goals, results.", TEXT),
        ListedResource(f"{site}/tasks", "tasks", "The tasks that you may take, and the client of each.", JSON),
        ListedResource(f"{site}/locks", "locks", "File locks: their holders and waiters.", JSON),
    ]
    for part in parts:
        shown += [
            ListedResource(
                f"{site}/task/{part.path}", part.task.address, "Goal, checks, state and result of the task.", JSON
            ),
            ListedResource(
                f"{site}/messages/{part.path}", f"messages for {part.task.address}", "Unread messages.", JSON
            ),
        ]
    return shown


def resource_templates(plan: str) -> list[ListedResource]:
    """Return the templates of resources that are not listed individually."""
    uri = f"{SCHEME}{plan}/task/{{+path}}"
    return [ListedResource(uri, "task", "One of your tasks or subtasks, by its path from list_tasks or `plan`.", JSON)]


def read_resource(
    objects: ObjectReader, plan: str, parts: Sequence[ExternalRole], uri: str
) -> tuple[str | JsonObject, str]:
    """Return the content of `uri` and its type. Raises CommandError: NOT_FOUND if the identity has no such resource."""
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
    raise CommandError(ExitCode.NOT_FOUND, f"you have no resource {uri}", "resources/list lists yours")


def changed_resources(plan: str, mine: Sequence[str], changed: Iterable[str]) -> set[str]:
    """Return the resources that have changed with the addresses `changed`, for an identity with the tasks `mine`."""
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
    """Return the summary of a task: path, goal, state, client."""
    ready = part.task.status.get("conditions", {}).get("Ready") or {}
    out: JsonObject = {"task": part.path, "goal": part.task.spec.get("goal", ""), "state": part.task.state or "waiting"}
    out |= {"is_free": part.is_free, "taken_by": part.holder or None}
    return out | {"why": str(ready.get("message") or "")}


def _task(objects: ObjectReader, path: str) -> JsonObject:
    task = objects.get(f"task/{path}")
    if task is None:
        raise CommandError(ExitCode.NOT_FOUND, f"no task/{path} in this plan", "the resource `plan` lists your tasks")
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
    """Return the roles whose task is not below another's, so that each task is shown once."""
    return [one for one in parts if not any(_is_below(one.path, each.path) for each in parts)]


def _is_within(path: str, mine: Iterable[str]) -> bool:
    return bool(path) and any(path == one or _is_below(path, one) for one in mine)


def _is_below(path: str, other: str) -> bool:
    return path != other and (other == addresses.ROOT or path.startswith(f"{other}/"))
