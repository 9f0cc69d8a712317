"""Objects as table rows: the columns of each kind and the text of each cell. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from planloop.client.render import tables
from planloop.client.render.tables import call_text, one_line, value_text
from planloop.schemas import quantities
from planloop.schemas.frozen import frozen
from planloop.schemas.log.patch import describe_author
from planloop.schemas.resource import Condition, Resource, conditions_of_status

if TYPE_CHECKING:
    from planloop.client.render.budgets import Costs

KIND_ORDER = tuple("plan task case agent lock container hook mcp fork call approval conflict thread".split())


@frozen
class ObjectTable:
    """A table of one kind: its head and its rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def object_tables(objects: Sequence[Resource], *, now: float, costs: Costs | None = None) -> list[ObjectTable]:
    """One sheet a kind, in a fixed order; kinds without objects are left out. With `costs` it is the wide form."""
    out = []
    for kind in KIND_ORDER:
        of_kind = [item for item in objects if item.kind == kind]
        if of_kind:
            out.append(_sheet(kind, of_kind, now, costs))
    return out


def object_tables_text(
    objects: Sequence[Resource], *, now: float, costs: Costs | None = None, width: int | None = None
) -> str:
    """All sheets, one blank line between them."""
    found = object_tables(objects, now=now, costs=costs)
    return "\n\n".join(tables.format_table(sheet.head, sheet.rows, width=width) for sheet in found)


def _sheet(kind: str, objects: Sequence[Resource], now: float, costs: Costs | None) -> ObjectTable:
    head: tuple[str, ...]
    row: Callable[[Resource, float], tuple[str, ...]]
    match kind:
        case "task":
            head, row = ("task", "state", "checks", "for", "what"), _task_row
        case "agent":
            head, row = ("agent", "state", "turn", "for", "what"), _agent_row
        case "mcp":
            from planloop.client.render import mcp_servers

            head, row = ("server", "state", "tools", "for", "what"), mcp_servers.mcp_server_row
        case "hook":
            from planloop.client.render import hooks

            head, row = hooks.HOOK_HEAD, hooks.hook_row
        case "call":
            head, row = ("call", "state", "for", "owner", "what"), _call_row
        case "conflict":
            from planloop.client.render import approval_requests

            head, row = ("conflict", "state", "resolver", "for", "what"), approval_requests.conflict_row
        case "lock":
            from planloop.client.render import locks

            head, row = ("lock", "held by", "mode", "for", "waiting", "what"), locks.lock_row
        case "approval":
            head, row = ("approval", "state", "by", "what"), _approval_row
        case _:
            head, row = _of_others(kind)
    rows = [row(item, now) for item in objects]
    if costs is not None:
        more = ("budget",) if kind in ("task", "agent") else ()
        head = (*head[:-1], *more, "uid", "gen", "rev", head[-1])
        rows = [
            (*cells[:-1], *(costs.line(item) for _ in more), item.uid, str(item.generation), str(item.rev), cells[-1])
            for cells, item in zip(rows, objects, strict=True)
        ]
    return ObjectTable(head, tuple(rows))


def _of_others(kind: str) -> tuple[tuple[str, ...], Callable[[Resource, float], tuple[str, ...]]]:
    if kind == "fork":
        from planloop.client.render import forks

        return forks.FORK_HEAD, forks.fork_row
    if kind == "container":
        from planloop.client.render import containers

        return containers.CONTAINER_HEAD, containers.container_row
    if kind == "case":
        return (kind, "state", "verdict", "what"), _case_row
    return (kind, "state", "rev", "for", "what"), _other_row


def _task_row(item: Resource, now: float) -> tuple[str, ...]:
    return (path_of(item), state_of(item), checks_of(item), age_of(item, now), state_reason(item))


def _agent_row(item: Resource, now: float) -> tuple[str, ...]:
    return (path_of(item), state_of(item), str(item.status.get("turn", 0)), age_of(item, now), state_reason(item))


def _call_row(item: Resource, now: float) -> tuple[str, ...]:
    return (
        path_of(item),
        state_of(item),
        age_of(item, now),
        str(item.spec.get("owner", "")),
        call_text(item),
    )


def _approval_row(item: Resource, now: float) -> tuple[str, ...]:
    del now
    by = describe_author(str(item.spec.get("by", "")))
    return (path_of(item), state_of(item), by, state_reason(item))


def _case_row(item: Resource, now: float) -> tuple[str, ...]:
    del now
    return (path_of(item), state_of(item), verdict_of(item), state_reason(item))


def verdict_of(case: Resource) -> str:
    """What a case came to; empty before it is judged."""
    return str(case.status.get("verdict", ""))


def _other_row(item: Resource, now: float) -> tuple[str, ...]:
    return (path_of(item), state_of(item), str(item.rev), age_of(item, now), state_reason(item))


def path_of(item: Resource) -> str:
    """The address without its kind: what `plan get tasks` lists under TASK."""
    return item.address.partition("/")[2]


def state_of(item: Resource) -> str:
    """The state in one word; `deleting` when it is on its way out, another one before anything was written of it."""
    return "deleting" if item.deleting else item.state or _UNWRITTEN.get(item.kind, "new")


_UNWRITTEN = {"task": "waiting", "agent": "idle", "hook": "active", "container": "waiting", "case": "waiting"}


def checks_of(item: Resource) -> str:
    """`3 of 5` passing checks, empty when the task has none."""
    wanted = item.spec.get("acceptance") or []
    if not wanted:
        return ""
    results = item.status.get("checks") or {}
    passing = sum(1 for check in wanted if (results.get(check["key"]) or {}).get("result") == "pass")
    return f"{passing} of {len(wanted)}"


def age_of(item: Resource, now: float) -> str:
    """How long it has worked, or did work; empty before it began."""
    if item.kind == "container":
        from planloop.client.render import containers

        return containers.age(item, now)
    started, ended = item.status.get("started_at"), item.status.get("ended_at")
    if started is None:
        return ""
    return quantities.format_duration((now if ended is None else ended) - started)


def state_reason(item: Resource) -> str:
    """Return one sentence: why it waits or failed, else its result, else its goal."""
    if item.kind == "container":
        from planloop.client.render import containers

        return containers.container_summary(item)
    if item.kind == "approval":
        from planloop.client.render import approval_requests

        return approval_requests.approval_line(item.spec)
    status = item.status
    if not status and item.spec.get("needs"):
        return "after " + ", ".join(str(need).partition("/")[2] for need in item.spec["needs"])
    why = status.get("why") or status.get("message")
    if why:
        return one_line(str(why))
    blocking = worst(conditions_of_status(status))
    if blocking is not None:
        return one_line(blocking.message)
    return one_line(value_text(status.get("result")) or str(item.spec.get("goal") or item.spec.get("why") or ""))


def worst(conditions: dict[str, Condition]) -> Condition | None:
    """The condition that a reader must know first; None when all is well."""
    bad = [condition for condition in conditions.values() if is_bad(condition)]
    return max(bad, key=lambda condition: condition.since, default=None)


def next_command(item: Resource) -> str:
    """The first command that would get it further; empty when its conditions name none."""
    ways = (way for one in conditions_of_status(item.status).values() if is_bad(one) for way in one.unblocks)
    return next((way for way in ways if way.startswith("plan ")), "")


POSITIVE = frozenset({"Ready", "Accepted", "Progressing", "Done", "Available"})


def is_bad(condition: Condition) -> bool:
    """Return whether the condition is a problem: good and False, or bad (`FileInvalid`) and True."""
    return condition.status == ("False" if condition.type in POSITIVE else "True")
